"""Mixtures without a learned projection: von Mises-Fisher mixtures by EM, of all columns or of principal axes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import check_parameters

from ..families._family import Family
from ..families._rows import check_sizes
from ..families._von_mises_fisher import LARGEST, von_mises_fisher
from ._parameters import Data
from ._projected import RULES, ProjectedMixture
from ._sizes import latent_dimension


class _TooLarge(MemoryError, AttributeError):
    """Error of an attribute that does not fit into memory; as an AttributeError it is skipped by `dir` and displays."""


class VonMisesFisherMixture(ProjectedMixture):
    """A mixture of von Mises-Fisher distributions (9) of the directions of rows, by expectation maximization.

    Parameters
    ----------
    n_components : int or "auto"
        The number K of components. ``"auto"`` minimizes `bic`: K is doubled first, and then searched between the
        neighbours of the best value.
    kappa : None, "shared" or float
        The concentrations: None estimates one value per component, ``"shared"`` estimates one value for all components,
        and a number is fixed. If a fixed value is below the concentration of all rows together, components may
        coincide.
    largest_kappa : float
        The upper bound of the concentrations.
    bessel : {"exact", "paper"}
        The exact Bessel function, or its leading term (equation 68 of the paper).
    threshold : float, optional
        The threshold epsilon of the features (equation 39), by default the `quantile` of phi (equation 37) over the
        training rows.
    quantile : float
        The fraction of the responses below the threshold.
    solver : str
        ``"em"``, full-batch EM, which never lowers the likelihood, ``"online-em"``, mini-batch EM with running
        statistics, or the name of another solver of `manifoldseq.minimize`, such as ``"lbfgs"``.
    batch_size : int
        The number of rows of a mini-batch.
    n_init : int
        The number of starts from spherical k-means++ seeds. The result with the highest likelihood is kept.
    max_iter : int
        The largest number of passes over the rows.
    tol : float
        A start ends when the mean log-likelihood of a row, l, changes by at most ``tol * max(1, |l|)``.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.
    init : str
        An initializer of the model: ``"seeds"`` (spherical k-means++) or a registered initializer.
    model : str
        Name of the registered model whose cost is minimized.
    n_jobs : int or None
        The number of threads for the starts, -1 for one per core; None uses the executor of the context.
    verbose : int
        1 logs the end of every start, 2 logs every iteration, to the logger ``"manifoldseq"``.

    Attributes
    ----------
    components_ : ndarray of shape (D, D)
        The identity, because rows are not projected. It is computed on access.
    choice_ : manifoldseq.models.Choice
        With ``n_components="auto"``: the compared numbers, and `bic` of the training rows up to a constant.
    weights_, parameters_, concentrations_, directions_, threshold_
        As in `HOPE`.
    objective_, log_likelihood_, n_iter_, history_, status_
        As in `HOPE`.

    References
    ----------
    Banerjee, Dhillon, Ghosh, Sra, JMLR 6 (2005).

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import VonMisesFisherMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.eye(6)[:3], 50, axis=0) + 0.1 * rng.standard_normal((150, 6))
    >>> model = VonMisesFisherMixture(3, random_state=0).fit(X)
    >>> np.bincount(model.predict(X)).tolist(), model.directions_.shape
    ([50, 50, 50], (3, 6))
    """

    def __init__(
        self,
        n_components: int | str = 8,
        *,
        kappa: Any = None,
        largest_kappa: float = LARGEST,
        bessel: str = "exact",
        threshold: float | None = None,
        quantile: float = 0.95,
        solver: str = "em",
        batch_size: int = 4096,
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
        init: str = "seeds",
        model: str = "hope.vmf",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.init = init
        self.model = model
        self.n_components = n_components
        self.kappa = kappa
        self.largest_kappa = largest_kappa
        self.bessel = bessel
        self.threshold = threshold
        self.quantile = quantile
        self.solver = solver
        self.batch_size = batch_size
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _family(self, scale: float) -> Family:
        return von_mises_fisher(self.bessel, self.kappa, self.largest_kappa)

    def _asked(self, N: int, D: int, most: int) -> tuple[str, dict[str, Any]]:
        _check(self, N, D, D)
        return self.model, _parameters(self)

    def _initializer(self, problem: ms.Problem) -> str | None:
        return self.init

    _takes_sparse = _chooses_components = True

    @property
    def components_(self) -> NDArray[np.float64]:
        """The identity, (D, D), because rows are not projected."""
        D = self.n_features_in_
        if 8 * D * D > ms.storage.available_memory() // 2:
            raise _TooLarge(
                f"components_ is the identity of {D} columns and does not fit into memory: use the rows themselves, "
                "because they are not projected"
            )
        return np.eye(D)

    @property
    def _projection(self) -> NDArray[np.float64]:
        return np.empty((0, self.n_features_in_))

    def _second_moment(self, rows: Any, weight: Any) -> None:
        return None  # D^2 numbers that nothing asks for


class PCAMovMF(ProjectedMixture):
    """Fit a mixture of von Mises-Fisher distributions to projections on principal axes, without joint learning.

    This is the baseline PCA-movMF of the paper. The axes are eigenvectors of the second moment of unit rows, which are
    not centred.

    Parameters
    ----------
    n_components : int or "auto"
        The number K of components, as in `VonMisesFisherMixture`.
    n_latent : int or "auto"
        The number M of axes. ``"auto"`` is half of the number of columns, or the number of rows minus 1 if this number
        is smaller, and at most 100 for sparse rows.
    noise_variance : float, "closed" or "bounded"
        The variance sigma^2 of the residual, as in `HOPE`. It affects only the likelihood.
    kappa, largest_kappa, bessel, threshold, quantile, solver, batch_size, n_init, max_iter, tol
        As in `VonMisesFisherMixture`.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.
    model : str
        Name of the registered model whose cost is minimized, with the projection fixed.
    n_jobs, verbose
        As in `VonMisesFisherMixture`.

    Attributes
    ----------
    components_ : ndarray of shape (M, D)
        The principal axes.
    weights_, parameters_, concentrations_, directions_, threshold_
        As in `HOPE`.
    objective_, log_likelihood_, n_iter_, history_, status_
        As in `HOPE`.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import PCAMovMF
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.eye(6)[:3], 50, axis=0) + 0.1 * rng.standard_normal((150, 6))
    >>> PCAMovMF(3, n_latent=3, random_state=0).fit(X).components_.shape
    (3, 6)
    """

    def __init__(
        self,
        n_components: int | str = 8,
        *,
        n_latent: int | str = "auto",
        kappa: Any = None,
        largest_kappa: float = LARGEST,
        bessel: str = "exact",
        noise_variance: Any = "bounded",
        threshold: float | None = None,
        quantile: float = 0.95,
        solver: str = "em",
        batch_size: int = 4096,
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
        model: str = "hope.movmf",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_latent = n_latent
        self.kappa = kappa
        self.largest_kappa = largest_kappa
        self.bessel = bessel
        self.noise_variance = noise_variance
        self.threshold = threshold
        self.quantile = quantile
        self.solver = solver
        self.batch_size = batch_size
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.model = model
        self.n_jobs = n_jobs
        self.verbose = verbose

    _takes_sparse = _chooses_components = True

    def _family(self, scale: float) -> Family:
        return von_mises_fisher(self.bessel, self.kappa, self.largest_kappa)

    def _asked(self, N: int, D: int, most: int) -> tuple[str, dict[str, Any]]:
        M = latent_dimension(self.n_latent, D, most)
        columns = D if isinstance(M, int) and N >= D <= 2 * M + 1 else M  # see `Gram.leading`
        if isinstance(M, int) and 8 * columns * D > ms.storage.available_memory() // 2:
            raise ValueError(
                f"n_latent={M} axes of {D} columns do not fit into memory: pass fewer, such as n_latent={min(50, N)}"
            )
        _check(self, N, D, M)
        return self.model, {
            **_parameters(self),
            "n_latent": M,
            "noise_variance": self.noise_variance,
            "learn_projection": False,
        }

    def _stated(self, data: Data, more: bool = False) -> ms.Problem:
        return super()._stated(data, more).freeze("projection")


def _check(estimator: Any, N: int, D: int, M: int) -> None:
    check_sizes(N, D, M, estimator.n_components)
    check_parameters(estimator, RULES)


def _parameters(estimator: Any) -> dict[str, Any]:
    names = ("n_components", "kappa", "largest_kappa", "bessel")
    return {name: getattr(estimator, name) for name in names}
