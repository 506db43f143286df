"""The HOPE estimator: an orthonormal projection followed by a mixture, learned together without labels."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from manifoldseq.estimators import (
    RowsLike,
    check_choice,
    check_number,
    check_optional,
    check_parameters,
    check_switch,
    quoted,
)
from manifoldseq.execution import one_blas_thread
from manifoldseq.solvers import learned, share_of_batch

from ..families._family import Array, Family
from ..families._gaussian import gaussian
from ..families._rows import check_sizes, with_direction
from ..families._von_mises_fisher import LARGEST, von_mises_fisher
from ._expectation import second_moment
from ._likelihood import starting
from ._noise import Noise
from ._parameters import Data, Statistics
from ._projected import RULES, ProjectedMixture
from ._projection_factors import KINDS
from ._sizes import latent_dimension
from ._threshold import threshold_of

FAMILIES = ("movmf", "gmm", "gmm-full")
PREPARATIONS = ("auto", "unit", "center", None)
_PASSED = ("n_components", "noise_variance", "noise_floor", "noise_gradient", "rows", "jacobian", "beta")
"""Parameters of all models."""
_RULES = {
    **RULES,
    "prepare": (check_choice, PREPARATIONS),
    "normalize_z": (check_optional, check_switch),
    "noise_floor": check_number,
    "rows": (check_choice, KINDS),
}


class HOPE(ProjectedMixture):
    """Fit a projection and a mixture of the projected rows by maximum likelihood (HOPE).

    Hybrid orthogonal projection and estimation models rows as ``x = U' z + n``, where U has orthonormal rows, z has a
    mixture density (7), and n is isotropic noise in the remaining dimensions. The fitted model is a layer of a network:
    `transform` returns its features (39).

    Parameters
    ----------
    n_components : int
        The number K of mixture components.
    n_latent : int or "auto"
        The number M of rows of U. ``"auto"`` is half of the number of columns, or the number of rows of `fit` minus 1
        if this number is smaller.
    family : {"movmf", "gmm", "gmm-full"} or Family
        Von Mises–Fisher components, Gaussians with diagonal or full covariances, or a family of your own.
    prepare : {"auto", "unit", "center", None}
        The preparation of the rows: scaling to unit length, as the paper does for movMF, or centring (footnote 1).
        ``"auto"`` scales for directional families and centres for all other families.
    normalize_z : bool, optional
        Whether z is scaled to unit length (equation 30), by default only for directional families. Footnote 4 omits
        this step.
    kappa : None, "shared" or float
        The concentrations: None estimates one value per component, ``"shared"`` estimates one value for all components,
        and a number is fixed. If a fixed value is below the concentration of all rows together, components may
        coincide, and a warning is given: centre rows that have similar directions, such as pixels.
    largest_kappa : float
        The upper bound of the concentrations.
    bessel : {"exact", "paper"}
        The exact Bessel function, or its leading term (equation 68 of the paper).
    variance_floor : float
        The lower bound of the variances of Gaussians, relative to the mean variance of a column.
    noise_variance : float, "closed" or "bounded"
        The variance sigma^2. A number is fixed (the paper's experiments use 0.1), ``"closed"`` is the closed form (23),
        and ``"bounded"`` limits (23) to the smallest variance of z. With ``"closed"``, the projection of maximum
        likelihood may be a minor subspace.
    noise_floor : float
        The lower bound of sigma^2, relative to the mean variance of a column.
    noise_gradient : {"full", "simplified"}
        The gradient (22) of the residual part, or the gradient for U U' = I (footnote 3).
    rows : {"orthonormal", "scaled", "free"}
        The constraint on the rows of U. ``"scaled"`` and ``"free"`` are the constraints of appendix A. Scaled rows are
        orthogonal and have a length of at least one. Free rows only have a length of at least one, and the penalty (15)
        makes them more orthogonal. Both need Gaussian components and ``normalize_z=False``: for directions, the
        likelihood would increase without bound with the lengths of the rows. Use ``solver="lbfgs"`` for scaled rows and
        ``"augmented-lagrangian"`` for free rows.
    jacobian : {"density", "printed"}
        The sign of the term ``ln det(U U') / 2`` in the log-likelihood of a row if the rows of U are not orthonormal.
        ``"density"`` is the sign of the change of variables. With it, the likelihood does not depend on the lengths of
        the rows, because means and variances scale with them. ``"printed"`` is the sign of (44) and (51), for scaled
        rows only.
    beta : float
        The factor of the penalty (15) on free rows. The penalty is not differentiable at orthogonal rows, and a solver
        may stop there.
    threshold : float, optional
        The threshold epsilon of the features (equation 39), by default the `quantile` of phi (equation 37) over the
        training rows.
    quantile : float
        The fraction of the responses below the threshold.
    init : str or array-like of shape (M, D)
        An initializer of the model (``"pca"``, ``"random"`` or a registered initializer), or the starting value of U.
        Components start at the seeds of (spherical) k-means++.
    solver : str
        ``"online-em"`` is mini-batch EM with running statistics, ``"em"`` is full-batch EM, which never lowers the
        likelihood, and any other value is the name of a solver of `manifoldseq.minimize`, such as ``"sgd"``,
        ``"adam"``, ``"lbfgs"``, or ``"papers:penalty-sgd"`` (Algorithm 1, in the distribution manifoldseq-papers).
    solver_options : dict, optional
        The options of a solver of `manifoldseq.minimize`.
    batch_size : int
        The number of rows of a mini-batch.
    n_init : int
        The number of starts. The result with the highest likelihood is kept.
    max_iter : int
        The largest number of passes over the rows.
    tol : float
        A start ends when the mean log-likelihood of a row, l, changes by at most ``tol * max(1, |l|)``.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.
    model : str, optional
        The name of the registered model whose cost is minimized, by default ``"hope.movmf"``, ``"hope.gmm"`` or
        ``"hope.family"``, according to `family`.
    n_jobs : int or None
        The number of threads for the starts, -1 for one per core; None uses the executor of the context.
    verbose : int
        1 logs the end of every start, 2 logs every iteration, to the logger ``"manifoldseq"``.

    Attributes
    ----------
    components_ : ndarray of shape (M, D)
        The matrix U.
    weights_ : ndarray of shape (K,)
    parameters_ : tuple of ndarray
        The parameters of the family, with the names `names_`. They are also the attributes `concentrations_` and
        `directions_`, or `means_` and `covariances_`.
    noise_variance_ : float
    threshold_ : float
    mean_ : ndarray of shape (D,) or None
    residual_share_ : float
        The fraction of the sum of squares of the training rows that is orthogonal to the projection.
    n_capped_, n_empty_ : int
        The numbers of components at a bound of their family, and of components without rows.
    objective_ : float
        The smallest value of the cost of the model.
    log_likelihood_ : float
        The mean of the log-likelihood (11), (44) over the training rows with all constants, less the penalty on free
        rows; this is minus `objective_`. It is not set if `model` has another cost. `score` returns the log-density of
        rows, which includes a distribution of ``|z|`` for directional components, and warns if its values are not a
        density.
    radius_ : ndarray of shape (2,) or None
        Shape and scale of the gamma distribution of ``|z|``. For unit rows, the parameters of the beta distribution of
        ``|z|^2``.
    n_iter_ : int
    history_ : dict of str to ndarray
        Columns of equal length: ``nit``, ``time``, ``fun`` (minus the mean log-likelihood, which ``"online-em"``
        accumulates during the pass) and further columns.
    status_ : manifoldseq.Status
    n_features_in_ : int

    Notes
    -----
    Rows in float32 are multiplied in float32, and sums are computed in float64. Ctrl-C ends `fit` with the best result
    so far.

    References
    ----------
    Zhang, Jiang, "Hybrid orthogonal projection and estimation (HOPE)", 2015; Cappé, Moulines, JRSS B 71 (2009).

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldseq_hope import HOPE
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.eye(10)[:4], 100, axis=0) + 0.1 * rng.standard_normal((400, 10))
    >>> model = HOPE(n_components=4, n_latent=4, random_state=0).fit(X)
    >>> model.components_.shape, model.transform(X).shape
    ((4, 10), (400, 4))
    >>> np.bincount(model.predict(X)).tolist()
    [100, 100, 100, 100]
    """

    def __init__(
        self,
        n_components: int = 8,
        *,
        n_latent: int | str = "auto",
        family: Any = "movmf",
        prepare: str | None = "auto",
        normalize_z: bool | None = None,
        kappa: Any = None,
        largest_kappa: float = LARGEST,
        bessel: str = "exact",
        variance_floor: float = 1e-3,
        noise_variance: Any = "bounded",
        noise_floor: float = 1e-6,
        noise_gradient: str = "full",
        rows: str = "orthonormal",
        jacobian: str = "density",
        beta: float = 0.0,
        threshold: float | None = None,
        quantile: float = 0.95,
        init: str | ArrayLike = "pca",
        solver: str = "online-em",
        solver_options: dict[str, Any] | None = None,
        batch_size: int = 4096,
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-4,
        random_state: Any = None,
        model: str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_latent = n_latent
        self.family = family
        self.prepare = prepare
        self.normalize_z = normalize_z
        self.kappa = kappa
        self.largest_kappa = largest_kappa
        self.bessel = bessel
        self.variance_floor = variance_floor
        self.noise_variance = noise_variance
        self.noise_floor = noise_floor
        self.noise_gradient = noise_gradient
        self.rows = rows
        self.jacobian = jacobian
        self.beta = beta
        self.threshold = threshold
        self.quantile = quantile
        self.init = init
        self.solver = solver
        self.solver_options = solver_options
        self.batch_size = batch_size
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.model = model
        self.n_jobs = n_jobs
        self.verbose = verbose

    @one_blas_thread()
    def partial_fit(self, X: RowsLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Take one step of online EM with a batch of rows.

        The first batch determines the start, the mean and the noise and variance floors. It needs at least K rows and
        should be typical.

        Parameters
        ----------
        X : array-like of shape (b, D)
        y : ignored
        sample_weight : array-like of shape (b,), optional

        Raises
        ------
        ValueError
            For the reasons of `fit`, and if sizes, family, `prepare` or `normalize_z` differ from the settings of the
            first batch.
        """
        if self.rows != "orthonormal":
            raise ValueError(f"partial_fit does not support rows={quoted(self.rows)}: use fit, or rows='orthonormal'")
        first = "batches_" not in self.__dict__
        rows, weight = self._checked_fit(X, sample_weight, reset=first)
        if first:
            data = self._prepared(rows, weight)
            self.scale_ = data.mean_square
            problem = self._stated(data, more=True)
            x = self._begun(problem, self._initializer(problem))
            running, batches = None, 0
            self.n_seen_, self.second_moment_ = 0.0, np.zeros_like(data.S)
            self.structure_ = self._structure(problem)
        else:
            K, D = self.n_components, rows.shape[1]
            if self._unit:
                rows, weight = with_direction(rows, weight)
            rows = self._scaled(rows)
            n = float(len(rows)) if weight is None else float(weight.sum())
            data = Data(rows, weight, second_moment(rows, weight), n, checked=True)
            name, params = self._asked(K, D, D)
            problem = self._problem(name, data, **params)
            self._check_structure(problem)
            model = self._model()
            x = (model.U.T, model.weights, *model.parameters)
            running = Statistics(1.0, self.running_counts_, self.running_sums_, None, 0.0)
            batches = self.batches_
        self.n_seen_ += data.n
        self.second_moment_ = self.second_moment_ + data.S
        seen = replace(data, S=self.second_moment_, n=self.n_seen_)
        # the problem of all rows so far, asked for the sums of this batch
        kind = replace(problem.data.model, data=replace(seen, X=None))
        additive = self._with(problem, kind)
        share = share_of_batch(batches)
        x, running = learned(additive, x, running, additive.sums(x), share)
        noise = kind.rows.noise
        self._remember(kind.at(x), seen)
        self.running_counts_, self.running_sums_, self.batches_ = running.counts, running.sums, batches + 1
        self.noise_variance_ = noise.variance(self.components_, seen.S, seen.n)
        radius = self._radius()
        if radius is not None:
            of_batch = radius.statistics(data.X, data.weight)
            before = of_batch if first else self.running_radius_
            self.running_radius_ = before + share * (of_batch - before)
            self.radius_ = radius.law(self.running_radius_)
        else:
            self.radius_ = None
        now = threshold_of(self._expectation(data.X), data, self.threshold, self.quantile)
        self.threshold_ = now if first else self.threshold_ + share * (now - self.threshold_)
        return self

    def _with(self, problem: Any, kind: Any) -> Any:
        """Return the sums over the rows of a problem for another model of these rows."""
        from functools import partial

        from ._likelihood import carry, polar

        additive = problem.objective.additive
        damped = tuple(replace(u, apply=partial(polar, kind)) for u in additive.damped)
        return replace(additive, damped=damped, carry=partial(carry, kind))

    def _structure(self, problem: Any) -> dict[str, Any]:
        """Return the settings that determine the shapes and the meaning of the arrays of a model."""
        return {
            "n_components": problem.data.model.kind.n_components,
            "n_latent": problem.data.model.kind.M,
            "family": "-".join(self.family.names) if isinstance(self.family, Family) else self.family,
            "prepare": "center" if self._centred else "unit" if self._unit else None,
            "normalize_z": self._normalize_z,
        }

    def _check_structure(self, problem: Any) -> None:
        """Raise ValueError for settings other than those of the model of the earlier batches."""
        for name, value in self._structure(problem).items():
            if value != self.structure_[name]:
                raise ValueError(
                    f"{name}={quoted(value)} differs from {quoted(self.structure_[name])}, the value in the first "
                    "call of partial_fit: fit again, or restore that value"
                )

    @property
    def _directional(self) -> bool:
        return self.family.directional if isinstance(self.family, Family) else self.family == "movmf"

    @property
    def _centred(self) -> bool:
        return self.prepare == "center" or (self.prepare == "auto" and not self._directional)

    @property
    def _unit(self) -> bool:
        return self.prepare == "unit" or (self.prepare == "auto" and self._directional)

    @property
    def _normalize_z(self) -> bool:
        return self._directional if self.normalize_z is None else bool(self.normalize_z)

    def _family(self, scale: float) -> Family:
        if isinstance(self.family, Family):
            return self.family
        check_choice("family", self.family, FAMILIES)
        if self.family == "movmf":
            return von_mises_fisher(self.bessel, self.kappa, self.largest_kappa)
        check_number("variance_floor", self.variance_floor, open_=True)
        return gaussian("diag" if self.family == "gmm" else "full", float(self.variance_floor) * scale)

    def _asked(self, N: int, D: int, most: int) -> tuple[str, dict[str, Any]]:
        M = latent_dimension(self.n_latent, D, most)
        check_sizes(N, D, M, self.n_components)
        check_parameters(self, _RULES)
        Noise(self.noise_variance)
        options = {} if self.solver_options is None else self.solver_options
        if not isinstance(options, dict):
            raise ValueError(f"solver_options={quoted(options)} is not valid: pass a dict of options of the solver")
        if options and self.solver in ("em", "online-em"):
            raise ValueError(
                f"solver_options={quoted(options)} is not supported by solver={quoted(self.solver)}: remove "
                "solver_options, or choose a solver of ms.minimize"
            )
        free, em = self.rows == "free", self.solver in ("em", "online-em")
        bounded = not (self._directional or self._normalize_z or (free and self.jacobian == "printed"))
        if self.rows != "orthonormal" and (em or not bounded):
            with_free = "jacobian='density' and solver='augmented-lagrangian'" if free else "solver='lbfgs'"
            raise ValueError(
                f"rows={quoted(self.rows)} needs family='gmm', normalize_z=False and {with_free}: EM learns "
                "orthonormal rows only, and other likelihoods have no upper bound"
            )
        params = {name: getattr(self, name) for name in _PASSED}
        params |= {"n_latent": M, "normalize_z": self._normalize_z}
        if isinstance(self.family, Family):
            return self.model or "hope.family", {**params, "family": self.family}
        check_choice("family", self.family, FAMILIES)
        if self.family == "movmf":
            return self.model or "hope.movmf", {
                **params,
                **{n: getattr(self, n) for n in ("kappa", "largest_kappa", "bessel")},
            }
        kind = "diag" if self.family == "gmm" else "full"
        return self.model or "hope.gmm", {**params, "covariance_type": kind, "variance_floor": self.variance_floor}

    def _initializer(self, problem: Any) -> Any:
        if isinstance(self.init, str):
            check_choice("init", self.init, tuple(problem.initializers))
            return self.init
        kind = problem.data.model.kind
        U = _orthonormal(self.init, *kind.U.shape)
        return lambda problem, rng: starting(problem, U, rng)


def _orthonormal(U: Any, M: int, D: int) -> Array:
    U = np.array(U, dtype=np.float64)
    if U.shape != (M, D) or not np.allclose(U @ U.T, np.eye(M), atol=1e-6):
        raise ValueError(f"init has shape {U.shape}: pass 'pca', 'random' or a ({M}, {D}) array with orthonormal rows")
    return U
