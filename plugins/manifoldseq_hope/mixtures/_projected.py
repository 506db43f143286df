"""The base class of estimators with a projection followed by a mixture."""

import time
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from scipy.special import logsumexp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    RowsLike,
    check_choice,
    check_number,
    check_optional,
    check_real,
    check_sample_weight,
    check_whole,
    count_distinct,
    quoted,
    random_generator,
    row_blocks,
    validate_rows,
    warn_of_few_distinct,
)
from manifoldseq.execution import one_blas_thread
from manifoldseq.models import Choice, DensityCriteria, ModelEstimator, Step

from ..families._family import Array, Family
from ..families._rows import ScaledRows, Scaling, check_directions, unit_rows, with_direction
from ._dense import Dense
from ._expectation import Expectation, second_moment
from ._likelihood import minus_log_likelihood
from ._noise import residual_energy
from ._parameters import Data, Model
from ._radius import Radius, log_shares
from ._sizes import SPARSE_AXES
from ._threshold import located, threshold_of

RULES = {
    "batch_size": check_whole,
    "quantile": (check_number, 0.0, 1.0),
    "threshold": (check_optional, check_number, -np.inf),
}
"""Constraints of the parameters that all subclasses have."""
_ALIKE = 0.5
"""Components whose log-likelihoods differ by less than this value for all rows are reported as coincident."""
_INTERRUPTED = ms.Status.INTERRUPTED
_OF_BATCHES = ("running_counts_", "running_sums_", "running_radius_", "n_seen_", "batches_", "structure_")
"""Attributes of `partial_fit`."""


class ProjectedMixture(  # pyright: ignore[reportIncompatibleMethodOverride]  # the `score` of the mixin returns nothing
    DensityCriteria, ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, ModelEstimator
):
    """A mixture (7) of the projections of rows; subclasses are the estimators."""

    stored_types = (Choice, Step)
    n_components: Any
    kappa: Any
    noise_variance: Any
    n_features_in_: int
    threshold: float | None
    quantile: float
    random_state: Any
    rows: str = "orthonormal"

    @abstractmethod
    def _asked(self, N: int, D: int, most: int) -> tuple[str, dict[str, Any]]:
        """Validate the parameters; return the name of the model and its parameters for N rows of D columns.

        ``n_latent="auto"`` is at most `most`.
        """

    @abstractmethod
    def _family(self, scale: float) -> Family:
        """Return the family of the components for data of this mean square."""

    @property
    def _centred(self) -> bool:
        return False

    @property
    def _unit(self) -> bool:
        return True

    @property
    def _normalize_z(self) -> bool:
        return True

    @property
    def used_parameters_(self) -> dict[str, int]:
        """The value of ``n_latent="auto"``; `choice_` has the comparison for ``n_components="auto"``."""
        auto = hasattr(self, "weights_") and getattr(self, "n_latent", None) is not None
        return {"n_latent": len(self.components_)} if auto else {}

    @one_blas_thread()
    def fit(
        self,
        X: RowsLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Fit to rows.

        Parameters
        ----------
        X : array-like of shape (N, D)
            The rows. Products of float32 rows are computed in float32, and sums always in float64.
            `VonMisesFisherMixture` and `PCAMovMF` also accept sparse matrices, which stay sparse.
        y : ignored
        sample_weight : array-like of shape (N,), optional
            A row of weight two counts as two rows.
        observers, checkpoint, resume
            As in `manifoldseq.iterate`, for every start; each has its own folder in the checkpoint.

        Raises
        ------
        ValueError
            If a parameter is invalid, if rows contain NaN, if a row is zero and directions are modelled, or if there
            are fewer rows than components.

        Warns
        -----
        UserWarning
            If the likelihood is not finite (`status_` is then NON_FINITE), or if a fixed ``kappa`` is so low that all
            components have the same direction.
        ConvergenceWarning
            If there are fewer different projected rows or directions than components.
        """
        if self._chooses_components and isinstance(self.n_components, str):
            return self._fit_by_bic(X, sample_weight, observers, checkpoint, resume)
        rows, weight = self._checked_fit(X, sample_weight)
        data = self._prepared(rows, weight)
        problem = self._stated(data)
        parts = (data.X.data, data.X.indices, data.X.indptr) if issparse(data.X) else (data.X,)
        solver, batch_size = getattr(self, "solver", ""), getattr(self, "batch_size", 4096)
        if solver == "online-em" and data.X.shape[0] <= batch_size:
            solver = "em"
        best = self._solved(
            problem,
            *parts,
            data.weight,
            init=self._initializer(problem),
            solver=solver,
            options={"batch_size": batch_size} if solver == "online-em" else getattr(self, "solver_options", None),
            observers=observers,
            checkpoint=checkpoint,
            resume=resume,
        )
        self.scale_ = data.mean_square
        model = problem.data.model
        self._remember(model.at(best.x), data)
        noise = model.rows.noise
        self.noise_variance_ = None if model.rows.kind == "none" else noise.variance(self._axes, data.S, data.n)
        radius = self._radius()
        self.radius_ = radius and radius.law(radius.statistics(data.X, data.weight))
        self._forget("log_likelihood_", "choice_", *_OF_BATCHES)
        if problem.data.spec.value is minus_log_likelihood:
            self.log_likelihood_ = -best.fun
        if self._coincident():
            warnings.warn(
                f"kappa={self.kappa:g} is too low for these rows, so all components have the same direction: raise "
                "kappa, pass kappa='shared', or centre the rows",
                stacklevel=3,
            )
        different = count_distinct(self._behind_projection(data.X), len(self.weights_))
        what = "directions" if self._normalize_z else "rows"
        warn_of_few_distinct(different, len(self.weights_), "n_components", what, stacklevel=3)
        self.threshold_ = threshold_of(self._expectation(data.X), data, self.threshold, self.quantile)
        return self

    def _stated(self, data: Data, more: bool = False) -> ms.Problem:
        """Return the problem of the registered model for these rows; `more` announces further rows."""
        N, D = data.X.shape
        # beyond the rank of the rows axes are arbitrary, and nothing varies along them; a row of weight two is two rows
        several = max(N, int(data.n)) - 1
        most = D if more else min(several, SPARSE_AXES) if issparse(data.X) else several
        name, params = self._asked(N, D, most)
        return self._problem(name, data, **params)

    def _initializer(self, problem: ms.Problem) -> str | None:
        """Return the name of the initializer; None selects the first registered initializer."""
        return None

    def _behind_projection(self, rows: Any) -> Iterator[Any]:
        """Yield z = U x of blocks of rows, in the form that components model."""
        U = self._projection
        for part in row_blocks(rows.shape[0]):
            z = rows[part].astype(np.float64) @ U.T if len(U) else rows[part]
            yield unit_rows(z) if self._normalize_z else z

    def _coincident(self) -> bool:
        """Return whether all components coincide because of a fixed concentration."""
        if self.names_ != ("mu",) or not isinstance(self.kappa, Real) or len(self.weights_) == 1:
            return False
        # phi (37) of two components, less their weights, differ by at most kappa |m_j - m_k| on the sphere
        apart = self.directions_ - self.directions_.mean(axis=0)
        return 2 * float(self.kappa) * float(np.linalg.norm(apart, axis=1).max()) < _ALIKE

    def _fit_by_bic(
        self, X: RowsLike, sample_weight: ArrayLike | None, observers: Sequence[Any], checkpoint: Any, resume: bool
    ) -> Self:
        """Fit with the number of components that minimizes `bic`: powers of two, then numbers between the best."""
        began = time.perf_counter()
        check_choice("n_components", self.n_components, ("auto",))
        rows, weight = with_direction(
            *self._checked_fit(X, sample_weight)
        )  # it warns of rows of zeros once, not each fit
        n = rows.shape[0] if weight is None else float(weight.sum())
        store = ms.storage.Checkpoint.at(checkpoint)
        tried: dict[int, float] = {}
        best: Any = None

        def better(K: int) -> bool:
            nonlocal best
            if K in tried or not 1 <= K <= max(1, rows.shape[0] // 2) or (best and best.status_ is _INTERRUPTED):
                return False
            sizes = {name: getattr(self, name) for name in ("n_latent",) if hasattr(self, name)}
            model: Any = cast(Any, clone(self)).set_params(n_components=K, **sizes)
            where = store and store.child(f"components-{K}")
            with warnings.catch_warnings():  # numbers that are tried may exceed the different rows: bic tells
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(rows, sample_weight=weight, observers=observers, checkpoint=where, resume=resume)
            if not hasattr(model, "log_likelihood_"):
                raise ValueError(
                    f"n_components='auto' compares likelihoods, but the model {model.model!r} has another cost: pass a "
                    "whole number"
                )
            # between numbers of components what the residual and the law of |z| add is the same
            tried[K] = float(-2 * n * model.log_likelihood_ + model._n_parameters() * np.log(n))
            lower = best is None or tried[K] < tried[len(best.weights_)]
            if lower or model.status_ is _INTERRUPTED:
                best = model
            return lower

        K = 1
        while better(K):
            K *= 2
        better(2 * K)  # a rise may be one bad start
        step = len(best.weights_) // 2
        while step:
            K = len(best.weights_)
            if not (better(K - step) or better(K + step)):
                step //= 2
        known = set(self.get_params(deep=False))
        vars(self).update({name: value for name, value in best.__dict__.items() if name not in known})
        numbers = sorted(tried)
        params, chosen = [{"n_components": K} for K in numbers], numbers.index(len(best.weights_))
        label = "Bayesian information criterion, up to a constant"
        step = Step("BIC", label, params, np.array([tried[K] for K in numbers]), [chosen])
        self.choice_ = Choice([step], params[chosen], [], time.perf_counter() - began)
        return self

    def project(self, X: RowsLike) -> Array:
        """Return the projections z = U x (3) of rows, (N, M), without scaling to unit length."""
        rows, U = _in_memory(self._checked(X)), self._projection
        return rows @ U.T.astype(rows.dtype, copy=False) if len(U) else rows

    def residual_energy(self, X: RowsLike) -> Array:
        """Return the energy (N,) of the part of each row that is orthogonal to the rows of U (20), (47), in float64."""
        rows, U = _in_memory(self._checked(X)).astype(np.float64), self._projection
        if not len(U):
            return np.zeros(rows.shape[0])
        if issparse(rows):
            z = rows @ U.T
            return np.maximum(rows.multiply(rows).sum(axis=1) - np.einsum("nm,nm->n", z, z), 0)
        rest = rows - rows @ U.T @ self._dual  # (5)
        return np.einsum("nd,nd->n", rest, rest)

    @one_blas_thread()
    def log_contributions(self, X: RowsLike) -> Array:
        """Return phi (37), the logarithm of weight times density of every component for each row, (N, K)."""
        rows = self._directed(X)
        return self._expectation(rows).phi(rows)

    @one_blas_thread()
    def transform(self, X: RowsLike) -> Array:
        """Return the pruned features eta = max(0, phi - threshold) (39) of each row, (N, K).

        A row of zeros, which has no direction and no likelihood, has the features of z = 0. `predict` treats it in the
        same way.
        """
        rows = self._checked(X)
        found = self._expectation(rows).phi(rows)
        found -= found.dtype.type(self.threshold_)
        return np.maximum(found, 0, out=found)

    @one_blas_thread()
    def predict(self, X: RowsLike) -> NDArray[np.intp]:
        """Return the likeliest component of each row, (N,)."""
        rows = self._checked(X)
        return self._expectation(rows).labels(rows)

    @one_blas_thread()
    def predict_proba(self, X: RowsLike) -> Array:
        """Return the responsibilities (31) of the components for each row, (N, K)."""
        rows = self._checked(X)
        return self._expectation(rows).responsibilities(rows)

    @one_blas_thread()
    def score_samples(self, X: RowsLike) -> Array:
        """Return ln p(x) = ln p(z) + ln p(n) (6) of each row, (N,), in float64.

        The value is a density of rows, so models with different M can be compared. If z is scaled to unit length, p(z)
        is the density of its direction times a gamma distribution of its length; for a model fitted to c X it is
        smaller by ``D ln c``. If the rows of U are not orthonormal, ``ln det(U U') / 2`` is added. If the rows are
        scaled to unit length (``prepare="unit"``, `PCAMovMF`, `VonMisesFisherMixture`), the value is a density on the
        unit sphere of R^D, with a beta distribution of |z|^2 (for Gaussians, a density of R^D at rows on that sphere).
        Without scaling of z (``normalize_z=False``), von Mises-Fisher components describe its direction given its
        length, with concentrations kappa_k |z|; the fit then depends on the unit of the rows. The distributions of
        lengths (`radius_`) are fitted after the model: `fit` maximizes the likelihood (11), (30), which is
        `log_likelihood_`. Rows of zeros raise ValueError where directions are modelled.

        Warns
        -----
        UserWarning
            If the value is not a density: for Gaussians of z of unit length (``family="gmm", normalize_z=True``), and
            for a directional `Family` of your own with ``normalize_z=False``. Do not compare `aic` and `bic` in this
            case.
        """
        rows = self._directed(X)
        model = self._model()
        found = self._expectation(rows).log_density(rows)
        if model.family.directional != self._normalize_z and not self._given_length:
            other = "a family of directions" if self._normalize_z else "normalize_z=True"
            warnings.warn(
                f"score is not a density of rows: components of the family {quoted(model.family.name)} do not "
                f"integrate to one "
                f"over the z of normalize_z={self._normalize_z}. To compare models, use {other}",
                stacklevel=2,
            )
        M, D = model.M, self.n_features_in_
        if self.rows != "orthonormal":  # (44), with the sign of a density
            found += 0.5 * np.linalg.slogdet(model.U @ model.U.T)[1]
        radius, law = self._radius(), self.radius_
        if radius is not None and law is not None:
            found += radius.log_density(rows, law)
            if self._given_length:
                for part in row_blocks(rows.shape[0]):
                    found[part] -= logsumexp(log_shares(model, radius.lengths(rows[part])), axis=1)
        if M < D and self.noise_variance_ is not None and (radius is None or radius.kind == "gamma"):
            found -= 0.5 * (D - M) * np.log(2 * np.pi * self.noise_variance_)
            found -= 0.5 * self.residual_energy(X) / self.noise_variance_
        return found

    def _radius(self) -> Radius | None:
        """Return the kind of the distribution of |z| if a mixture models directions, or directions given |z|."""
        model = self._model()
        M, D = model.M, model.U.shape[1]
        of_directions = (model.family.directional and self._normalize_z) or self._given_length
        return (
            Radius("beta" if self._unit else "gamma", model.U)
            if of_directions and not (self._unit and M == D)
            else None
        )

    @property
    def _given_length(self) -> bool:
        """Whether components are von Mises-Fisher distributions and z is not scaled to unit length."""
        return not self._normalize_z and self.names_ == ("mu",)

    def _n_parameters(self) -> int:
        """Return the number of free parameters of the model."""
        D, K, model = self.n_features_in_, len(self.weights_), self._model()
        M = model.M
        own = sum(manifold.dim for manifold in model.family.manifolds(K, M))
        if self.names_[0] == "mu" and self.kappa is not None:  # one concentration for all, or none to choose
            own -= K - 1 if isinstance(self.kappa, str) else K
        # the dimensions of U within its row space, up to the maps of z that the family follows: diagonal maps, all maps
        # or rotations
        pairs, other = M * (M - 1) // 2, self.rows != "orthonormal"
        if self.names_ == ("means", "variances"):
            turned = 2 * pairs if self.rows == "free" else pairs
        else:
            turned = pairs + M if other and self.names_ != ("means", "covariances") else 0
        radius = self._radius()
        noise = M < D and self.noise_variance_ is not None and not isinstance(self.noise_variance, Real)
        noise = noise and (radius is None or radius.kind == "gamma")
        centre = D - M if self._centred else 0  # within the projection it is one with the means
        return K - 1 + own + M * (D - M) + turned + noise + centre + (0 if radius is None else 2)

    @one_blas_thread()
    def locate(self, eta: RowsLike) -> Array:
        """Return the projections whose features are nearest to given features, by trilateration (Figure 2).

        Parameters
        ----------
        eta : array-like or sparse matrix of shape (N, K)
            Features (39). Zero features show only that a component is far, and are ignored.

        Returns
        -------
        ndarray of shape (N, M)
            The least-squares solution by the Gauss–Newton method; the solution of minimum norm if fewer components are
            near than z has dimensions.
        """
        check_is_fitted(self, "weights_")
        given: Any = check_real(eta, "eta")
        features = np.asarray(given.toarray() if issparse(given) else given, dtype=np.float64)
        if features.ndim != 2 or features.shape[1] != len(self.weights_) or not np.isfinite(features).all():
            raise ValueError(
                f"eta has shape {features.shape}: pass finite features of shape (N, {len(self.weights_)}), as "
                "returned by transform"
            )
        return located(self._model(), features, float(self.threshold_))

    def inverse_transform(self, X: RowsLike) -> Array:
        """Return the signal part U' z (4), (45) of the rows with features X, (N, D), at the projections of `locate`."""
        found, dual = self.locate(X), self._dual
        found = found @ dual if len(dual) else found
        return found if self.mean_ is None else found + self.mean_

    @one_blas_thread()
    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Array, NDArray[np.intp]]:
        """Draw rows from the fitted model.

        Returns
        -------
        ndarray of shape (n_samples, D), ndarray of int of shape (n_samples,)
            The rows, and their components.
        """
        check_is_fitted(self, "weights_")
        check_whole("n_samples", n_samples)
        rng, U, model = random_generator(random_state), self._projection, self._model()
        radius, law, length = self._radius(), self.radius_, None
        if radius is not None and law is not None and self._given_length:
            # lengths first; given its length a direction is of components of other weights and concentrations
            length = radius.lengths_drawn(n_samples, law, rng)
            shares = log_shares(model, length)
            labels = (shares + rng.gumbel(size=shares.shape)).argmax(axis=1)
            each = (length[:, None] * model.parameters[0][labels],)
            z = model.family.sample(each, np.arange(n_samples), model.M, rng)
        else:
            labels = rng.choice(len(self.weights_), n_samples, p=self.weights_ / self.weights_.sum())
            z = model.family.sample(model.parameters, labels, model.M, rng)
        if radius is not None and law is not None:
            rows = radius.draw(z, law, self.noise_variance_, rng, length)
        else:
            rows = z @ self._dual if len(U) else z
            if len(U) and self.noise_variance_ is not None:
                noise = np.sqrt(self.noise_variance_) * rng.standard_normal(rows.shape)
                rows += noise - noise @ U.T @ self._dual
        return (rows if self.mean_ is None else rows + self.mean_), labels

    def to_relu_layer(self) -> Dense:
        """Convert the model to a rectified layer (5.1): ``w_k = U' mu_k``, ``b_k = ln pi_k + ln C_M - epsilon``.

        Returns
        -------
        Dense
            A layer with the two matrices U and mu; ``merged()`` combines them into one matrix. The rectified output
            equals `transform` for prepared rows: rows of unit length with ``prepare="unit"``.

        Raises
        ------
        ValueError
            If components are not von Mises-Fisher distributions, if z is scaled to unit length, or if rows are centred.

        References
        ----------
        Zhang, Jiang, section 5.1, footnote 4.
        """
        self._one_of("mu", "to_relu_layer")
        if self.mean_ is not None:
            raise ValueError("the model centres rows, but a rectified layer does not: fit with prepare='unit' or None")
        mu, offset = self._model().family.natural(self.parameters_, len(self.components_))
        return Dense(self.components_.copy(), mu.copy(), offset + self._above())

    def to_rbf_layer(self) -> tuple[Array, Array, Array]:
        """Convert a model of diagonal Gaussians to a radial-basis-function layer (footnote 5).

        Returns
        -------
        centres : ndarray of shape (K, M)
            Centres in the coordinates z = U (x - mean).
        scales : ndarray of shape (K, M)
            Variances.
        heights : ndarray of shape (K,)
            ``transform`` is ``max(0, height - sum((z - centre)^2 / (2 scale)))``.

        Raises
        ------
        ValueError
            If components are not diagonal Gaussians.
        """
        self._one_of("means", "to_rbf_layer")
        means, variances = self.parameters_
        if variances.ndim != 2:
            raise ValueError("a radial layer requires diagonal covariances: fit with family='gmm'")
        return means.copy(), variances.copy(), self._above() - 0.5 * np.sum(np.log(2 * np.pi * variances), axis=1)

    def _above(self) -> Array:
        """Return ln pi_k - epsilon; a component without weight is never active."""
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(self.weights_), -1e30) - self.threshold_

    def _one_of(self, name: str, layer: str) -> None:
        check_is_fitted(self, "weights_")
        if self.names_[0] != name:
            kind = "von Mises-Fisher distributions" if name == "mu" else "Gaussians"
            raise ValueError(f"{layer} requires components that are {kind}: fit another family")
        if self._normalize_z:
            raise ValueError(f"{layer} cannot scale z to unit length (footnote 4): fit with normalize_z=False")

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn; subclasses may accept sparse rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.weights_)

    def _checked_fit(
        self, X: RowsLike, sample_weight: ArrayLike | None, reset: bool = True
    ) -> tuple[Any, Array | None]:
        rows = validate_rows(self, X, reset=reset, sparse=self._takes_sparse)
        rows = _as_mapped(X, rows)
        return rows, check_sample_weight(sample_weight, rows.shape[0])

    def _prepared(self, rows: Any, weight: Array | None) -> Data:
        """Validate and prepare rows for the model."""
        if weight is not None and not weight.all() and not isinstance(rows, np.memmap):
            rows, weight = rows[weight > 0], weight[weight > 0]
        if self._unit:
            rows, weight = with_direction(rows, weight)
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean_ = _mean(rows, weight) if self._centred else None
            rows = self._scaled(rows)
            n = float(rows.shape[0]) if weight is None else float(weight.sum())
            data = Data(rows, weight, self._second_moment(rows, weight), n, checked=True)
        energy = data.energy
        if not np.isfinite(energy):
            raise ValueError(
                f"the entries of X are too large to be squared in {rows.dtype}: divide X by its largest entry"
            )
        if energy == 0:
            raise ValueError(
                "X does not vary (one sample, equal rows, or values whose squares underflow): pass rows that differ"
            )
        return data

    _takes_sparse = _chooses_components = False

    @property
    def _projection(self) -> Array:
        """Return U; its shape is (0, D) if rows are not projected."""
        return self.components_

    @property
    def _dual(self) -> Array:
        """Return (U U')^-1 U (45), which is U if its rows are orthonormal."""
        return self._projection if self.rows == "orthonormal" else np.linalg.pinv(self._projection).T

    @property
    def _axes(self) -> Array:
        """Return an orthonormal basis of the rows of U, which is U if its rows are orthonormal."""
        return self._projection if self.rows == "orthonormal" else ms.linalg.polar(self._projection.T).T

    def _second_moment(self, rows: Any, weight: Array | None) -> Any:
        return second_moment(rows, weight)

    def _scaled(self, rows: Any) -> Any:
        return Scaling(self.mean_, self._unit).of(rows)

    def _checked(self, X: RowsLike) -> Any:
        check_is_fitted(self, "weights_")
        return self._scaled(_as_mapped(X, validate_rows(self, X, reset=False, sparse=self._takes_sparse)))

    def _directed(self, X: RowsLike) -> Any:
        """Return rows that have a likelihood; rows of zeros have none if directions are modelled."""
        rows = self._checked(X)
        if self._unit:
            check_directions(rows)
        return rows

    def _model(self) -> Model:
        parameters = tuple(self.parameters_)
        return Model(self._projection, self.weights_, parameters, self._family(self.scale_), self._normalize_z)

    def _expectation(self, rows: Any) -> Expectation:
        return Expectation(self._model(), rows.dtype)

    def _remember(self, model: Model, data: Data) -> None:
        if len(model.U):
            self.components_ = np.ascontiguousarray(model.U)
        self.weights_ = np.asarray(model.weights, dtype=np.float64)
        self.parameters_ = tuple(np.asarray(part, dtype=np.float64) for part in model.parameters)
        self.names_ = tuple(model.family.names)
        total = data.energy
        self._describe(model.family)
        whole = model.M == data.X.shape[1]  # a rotation leaves nothing, and D^3 is long for many columns
        self.residual_share_ = residual_energy(self._axes, data.S) / total if total > 0 and not whole else 0.0

    def _describe(self, family: Family) -> None:
        """Set the fitted attributes that contain the parameters of the family."""
        self._forget("concentrations_", "directions_", "means_", "covariances_")
        if self.names_[0] == "mu":
            self.concentrations_ = np.linalg.norm(self.parameters_[0], axis=1)
            self.directions_ = family.centres(self.parameters_)
        elif self.names_[0] == "means":
            self.means_, self.covariances_ = self.parameters_
        self.n_capped_ = 0 if family.capped is None else int(np.sum(family.capped(self.parameters_)))
        self.n_empty_ = int(np.sum(self.weights_ < 1e-3 / len(self.weights_)))


def _as_mapped(X: RowsLike, rows: Any) -> Any:
    """Return validated rows; rows of a memory map stay a memory map."""
    return X if isinstance(X, np.memmap) and rows.dtype == X.dtype and rows.shape == X.shape else rows


def _in_memory(rows: Any) -> Any:
    return rows[:] if isinstance(rows, ScaledRows) else rows


def _mean(rows: Any, weight: Array | None) -> Array:
    """Return the weighted mean of rows in float64; a memory map is read block by block."""
    if weight is None or not isinstance(rows, np.memmap):
        return np.average(rows, axis=0, weights=weight).astype(np.float64)
    return sum(weight[part] @ rows[part] for part in row_blocks(len(rows))) / weight.sum()
