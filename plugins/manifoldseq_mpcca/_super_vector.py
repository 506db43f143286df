"""Estimators that turn each bag of descriptors into one vector: `FisherVector` and `MultiViewSuperVector`."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    BagsLike,
    check_choice,
    check_number,
    check_optional,
    check_parameters,
    check_switch,
    check_whole,
    random_generator,
)
from manifoldseq.execution import one_blas_thread

from ._bags import Bags, checked_bag, grouped
from ._gradient_vector import SCALES, Encoder, Encoding
from ._mixture_pcca import MixturePCCA
from ._parameters import COVARIANCE_TYPES, Array, Mixture
from ._views import Moments, check_views, given_names

PARTS = ("both", "gradient", "latent")
_RULES = {
    "covariance_type": (check_choice, COVARIANCE_TYPES),
    "gradient_scale": (check_choice, SCALES),
    "power": (check_number, 0.0, 1.0, True),
    "intra_normalize": check_switch,
    "max_descriptors": (check_optional, check_whole),
}


class _BagEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Abstract base class of the encoders; a final class defines the parameters and the fitted model."""

    stored_types = (Mixture,)

    n_components: int
    covariance_type: str
    gradient_scale: str
    power: float
    intra_normalize: bool
    max_descriptors: int | None
    random_state: Any

    @abstractmethod
    def _model(self, rng: np.random.Generator) -> MixturePCCA:
        """Return the mixture to fit, with its settings."""

    def _parts(self) -> str:
        return "both"

    def fit(
        self,
        X: BagsLike,
        Y: BagsLike | None = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
        feature_names: Sequence[Sequence[str]] | None = None,
    ) -> Self:
        """Fit the mixture to descriptors of all bags.

        Parameters
        ----------
        X, Y
            X is the first view and Y the second, or X is a list of all views. A view is a list of arrays (T_i, d_v),
            one per bag, an array (N, T, d_v), or an array (N, d_v), whose rows are bags of one descriptor. A sequence
            that reads an array when it is indexed is never in memory as a whole.
        observers, checkpoint, resume, feature_names
            As in `MixturePCCA.fit`.

        Raises
        ------
        ValueError
            For an invalid parameter or input. The message says what is wrong, where, and what to do.
        """
        self._check_parameters()
        bags = Bags(X, Y)
        rng = random_generator(self.random_state)
        model = self._model(rng)
        rows = bags.sample(self.max_descriptors, rng)
        Moments.of(check_views(rows), given_names(rows, feature_names))  # raises for constant columns
        model.fit(rows, observers=observers, checkpoint=checkpoint, resume=resume, feature_names=feature_names)
        self.mixture_, self.n_features_in_ = model.mixture_, model.n_features_in_
        self.n_iter_, self.history_, self.status_ = model.n_iter_, model.history_, model.status_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        return self

    def fit_transform(self, X: BagsLike, Y: BagsLike | None = None) -> Array:  # pyright: ignore
        """Equivalent to ``fit(X, Y).transform(X, Y)``."""
        return self.fit(X, Y).transform(X, Y)

    def transform(self, X: BagsLike, Y: BagsLike | None = None) -> Array:
        """Encode bags.

        Parameters
        ----------
        X, Y
            As in `fit`. A bag may be empty; its vector is zero.

        Returns
        -------
        ndarray of shape (N, width)
            The vectors; the vector of a bag does not depend on other bags.
        """
        check_is_fitted(self, "mixture_")
        bags = Bags(X, Y, self.mixture_.views)
        encoder = Encoder(self.mixture_, self.gradient_scale)
        found = np.empty((len(bags), self._n_features_out))
        row = 0
        with one_blas_thread():
            for encoding in encoder.encode(bags):
                vectors = self._vectors(encoding)
                found[row : row + len(vectors)] = vectors
                row += len(vectors)
        return found

    def stream(self, bags: Iterable[Sequence[ArrayLike]]) -> Iterator[Array]:
        """Encode a stream of bags, one after the other.

        Parameters
        ----------
        bags : iterable of sequences of array-like of shape (T, d_v)
            A bag is a sequence of one array per view.

        Yields
        ------
        ndarray of shape (width,)
        """
        check_is_fitted(self, "mixture_")
        encoder, widths = Encoder(self.mixture_, self.gradient_scale), self.mixture_.views

        def checked() -> Iterator[Any]:
            for i, parts in enumerate(bags):
                bag = checked_bag(parts, i)
                if (found := tuple(part.shape[1] for part in bag)) != widths:
                    raise ValueError(f"the views of bag {i} have {found} columns: pass {widths}, as in fit")
                yield bag

        for group in grouped(checked(), *encoder.group_size):
            with one_blas_thread():
                vectors = self._vectors(encoder.encode_group(group))
            yield from vectors

    @property
    def blocks_(self) -> dict[str, slice]:
        """The slices of the parts of a vector: ``"view 0"``, ``"view 1"`` and so on, and ``"latent"``."""
        check_is_fitted(self, "mixture_")
        K, d = self.mixture_.n_components, self.mixture_.n_latent
        sizes = {}
        if self._parts() != "latent":
            for v, n in enumerate(self.mixture_.views):
                sizes[f"view {v}"] = K * (n + (n * (n + 1) // 2 if self.mixture_.full else n))
        if self._parts() != "gradient" and d:
            sizes["latent"] = K * d
        ends = np.cumsum(list(sizes.values())).tolist()
        return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}

    @property
    def _n_features_out(self) -> int:
        return max((block.stop for block in self.blocks_.values()), default=0)

    def _vectors(self, encoding: Encoding) -> Array:
        """Return one normalized vector per bag, (B, width)."""
        parts = []
        if self._parts() != "latent":
            for means, noise in zip(encoding.means, encoding.noise, strict=True):
                flat = _triangle(noise) if self.mixture_.full else noise
                parts.append([self._normalized(means), self._normalized(flat)])
        if self._parts() != "gradient":
            parts.append([self._normalized(encoding.latent)])
        vectors = np.concatenate(
            [np.concatenate(part, axis=2).reshape(len(encoding.latent), -1) for part in parts], axis=1
        )
        return _unit(vectors) if self.intra_normalize else vectors

    def _normalized(self, block: Array) -> Array:
        """Return the power of a block (B, K, width), with each component scaled to unit length."""
        if self.power != 1:
            block = np.copysign(np.abs(block) ** self.power, block)
        return _unit(block) if self.intra_normalize else block

    def _check_parameters(self) -> None:
        check_parameters(self, _RULES)
        most, K = self.max_descriptors, self.n_components
        if most is not None and isinstance(K, Integral) and most < K:
            raise ValueError(f"max_descriptors={most} is less than n_components={K}: increase max_descriptors")


class FisherVector(_BagEncoder):
    """Encode bags of descriptors by the Fisher vector of a Gaussian mixture, (1)-(3).

    Descriptors of several views are concatenated, and their noise is not correlated between views. For a single view
    use ``fit([bags])``.

    Parameters
    ----------
    n_components : int
        Number K of Gaussians.
    covariance_type : {"diag", "full"}
        Diagonal or full covariances; ``"full"`` models correlations within a view. The vector then contains the
        triangle of the gradient with respect to the covariance matrix, with off-diagonal entries times the square root
        of two.
    gradient_scale : {"paper", "model", "likelihood", "fisher"}
        The scale of the gradients: ``"paper"`` is equations (1), (2) as printed, ``-(2/N)`` times the gradient of the
        log-likelihood.
    power : float
        Every entry x becomes ``sign(x) |x|**power``; 1 does not change the entries.
    intra_normalize : bool
        Divide the block of each component, view and parameter by its norm, then the whole vector by its norm.
    max_descriptors : int or None
        The approximate number of descriptors for the fit, drawn evenly from the bags. None uses all.
    n_init, max_iter, tol, n_jobs, verbose
        See `MixturePCCA`.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.

    Attributes
    ----------
    mixture_ : Mixture
        The Gaussian mixture, stored as a mixture without latent vector.
    blocks_ : dict of str to slice
        The position of each view in a vector.
    n_iter_, history_, status_, n_features_in_, feature_names_in_
        Of the fit, see `MixturePCCA`. Ctrl-C ends it with the best mixture so far.

    Notes
    -----
    For each view and each component, a vector has the gradients with respect to the mean and the noise: ``2 K (n + m)``
    numbers for diagonal noise.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.standard_normal((20, 3)) + i % 2 for i in range(10)]
    >>> FisherVector(n_components=2, random_state=0).fit_transform([bags]).shape
    (10, 12)
    """

    def __init__(
        self,
        n_components: int = 8,
        *,
        covariance_type: str = "diag",
        gradient_scale: str = "paper",
        power: float = 1.0,
        intra_normalize: bool = True,
        max_descriptors: int | None = 200_000,
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-5,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.gradient_scale = gradient_scale
        self.power = power
        self.intra_normalize = intra_normalize
        self.max_descriptors = max_descriptors
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _model(self, rng: np.random.Generator) -> MixturePCCA:
        return MixturePCCA(
            self.n_components,
            n_latent=0,
            covariance_type=self.covariance_type,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=rng,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )


class MultiViewSuperVector(_BagEncoder):
    """Encode bags of paired descriptors by the private parts of the views and their shared part: [G_x, G_y, Z].

    A mixture of probabilistic CCAs is fitted to the descriptors. G is its gradient vector (42)-(45), a Fisher vector
    without the shared part, and Z is the mean of the latent vectors under the responsibilities. The paper does not say
    how Z is pooled and how blocks are normalized; both are choices of this project.

    Parameters
    ----------
    n_components : int
        The number K of components.
    n_latent : int
        Dimension d of the latent vector; 0 gives the Fisher vector.
    covariance_type, gradient_scale, power, intra_normalize, max_descriptors, n_init, max_iter, tol, random_state,
    n_jobs, verbose
        As for `FisherVector`. Z is normalized as a separate block.
    parts : {"both", "gradient", "latent"}
        ``"gradient"`` leaves out Z, and ``"latent"`` leaves out G.

    Attributes
    ----------
    mixture_ : Mixture
        Its latent coordinates are in descending order of their information about a descriptor, and their largest
        loading is positive, so that Z does not depend on a rotation.
    blocks_ : dict of str to slice
        The positions of ``"view 0"`` (G_x), ``"view 1"`` (G_y) and ``"latent"`` (Z) in a vector.
    n_iter_, history_, status_, n_features_in_, feature_names_in_
        Of the fit, see `MixturePCCA`. Ctrl-C ends it with the best mixture so far.

    Notes
    -----
    A vector has ``K (2 (n + m) + d)`` numbers for diagonal noise: for each view and each component the gradients with
    respect to the mean and the noise, then for each component the latent vector.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.standard_normal((20, 3)) for i in range(10)]
    >>> Y = [x[:, :2] + rng.standard_normal((20, 2)) for x in X]
    >>> encoder = MultiViewSuperVector(n_components=2, n_latent=1, random_state=0)
    >>> encoder.fit_transform(X, Y).shape, encoder.blocks_["latent"]
    ((10, 22), slice(20, 22, None))
    """

    def __init__(
        self,
        n_components: int = 8,
        *,
        n_latent: int = 2,
        covariance_type: str = "diag",
        gradient_scale: str = "paper",
        power: float = 1.0,
        intra_normalize: bool = True,
        parts: str = "both",
        max_descriptors: int | None = 200_000,
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-5,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_latent = n_latent
        self.covariance_type = covariance_type
        self.gradient_scale = gradient_scale
        self.power = power
        self.intra_normalize = intra_normalize
        self.parts = parts
        self.max_descriptors = max_descriptors
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _parts(self) -> str:
        return self.parts

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("parts", self.parts, PARTS)
        if self.parts == "latent" and self.n_latent == 0:
            raise ValueError("parts='latent' with n_latent=0 gives empty vectors: pass n_latent of at least 1")

    def _model(self, rng: np.random.Generator) -> MixturePCCA:
        return MixturePCCA(
            self.n_components,
            n_latent=self.n_latent,
            covariance_type=self.covariance_type,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=rng,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )


def _triangle(blocks: Array) -> Array:
    """Return symmetric matrices as vectors with the same inner products."""
    # <A, B> = sum_i a_ii b_ii + 2 sum_(i<j) a_ij b_ij
    rows, columns = np.triu_indices(blocks.shape[-1])
    return blocks[..., rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2))


def _unit(blocks: Array) -> Array:
    """Return vectors of length one along the last axis, or zero."""
    largest = np.abs(blocks).max(axis=-1, keepdims=True, initial=0.0)  # first, as squares may underflow
    scaled = np.divide(blocks, largest, out=np.zeros_like(blocks), where=largest > 0)
    length = np.linalg.norm(scaled, axis=-1, keepdims=True)
    return np.divide(scaled, length, out=scaled, where=length > 0)
