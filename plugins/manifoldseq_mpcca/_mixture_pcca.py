"""A mixture of probabilistic canonical correlation analysers of two or more views."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    ViewsLike,
    check_choice,
    check_number,
    check_parameters,
    check_sample_weight,
    check_whole,
    quoted,
    random_generator,
    row_blocks,
)
from manifoldseq.execution import one_blas_thread
from manifoldseq.hooks import get_solver
from manifoldseq.models import ModelEstimator
from manifoldseq.solvers import learned, share_of_batch

from . import _objective, _shrunk
from ._choice import CRITERIA, GATES, SIZES, Setting, choose
from ._expectation import Conditional, Expectation
from ._maximization import UPDATES
from ._objective import log_likelihood, private_sizes
from ._parameters import COVARIANCE_TYPES, Array, Mixture, check_fits
from ._patterns import Mask, kinds, observed_views, patterns
from ._shrunk import Scatter
from ._starts import check_init
from ._statistics import Statistics
from ._views import (
    CheckedViews,
    Moments,
    Names,
    View,
    as_list,
    as_view,
    check_names,
    check_sizes,
    check_values,
    check_views,
    given_names,
)

ACCELERATIONS = ("lbfgs", None)
MISSING = ("error", "em")
AUTO = "auto"
_RULES = {
    "covariance_type": (check_choice, ("shrunk", "low-rank", *COVARIANCE_TYPES)),
    "criterion": (check_choice, CRITERIA),
    "update": (check_choice, UPDATES),
    "acceleration": (check_choice, ACCELERATIONS),
    "noise_floor": (check_number, 0.0, 1.0, True),
}

_GRID: dict[str, Sequence[Any]] = {
    "n_components": (1, 2, 5, 10, 20, 40),
    "n_latent": (1, 2, 5, 10, 20, 50, 100),
    "n_private": (0, 5, 20),
    "shrinkage": (15.0, 50.0, 200.0, 800.0),
    "diagonal": (0.02, 0.1, 0.2, 0.5, 0.8),
    "gate": GATES,
}
"""Values that "auto" compares, in this order."""
_MOST_ITERATIONS, _TRIED_TOL = 15, 1e-5
"""Maximum number of iterations and minimum tolerance of a fit in the comparison."""
_MOST_PATTERNS = 16
"""Maximum number of patterns of missing values in the fits of the comparison."""
_LEAST_ROWS = 20
"""Minimum number of rows for a choice; with fewer rows, "auto" uses the first values and warns."""
_MOST_COVARIANCES = 2**30
"""Maximum number of bytes of covariances; an iteration needs several times as much memory."""


_OF_FIT = (
    *("objective_", "log_likelihood_", "n_iter_", "n_evaluations_", "repairs_", "history_", "status_"),
    "provenance_",
)
_OF_BATCHES = ("moments_", "pooled_", "weight_", "statistics_", "batches_")
"""Attributes that only one of `fit` and `partial_fit` sets, and that the other removes."""


def _numbers(N: int) -> list[int]:
    """Return the numbers of components that "auto" compares for N rows."""
    return [k for k in _GRID["n_components"] if k == 1 or 20 * k <= N]


class MixturePCCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, ModelEstimator):
    """Model paired views by a mixture of probabilistic canonical correlation analysers.

    In component k the views of a sample share a latent vector ``z ~ N(0, I)`` and have independent noise: ``x = W_x z +
    mu_x + e_x``, ``y = W_y z + mu_y + e_y``, (7), (8). Three and more views are modelled in the same way. The model is
    fitted by expectation maximization (13)-(41), without a matrix over the columns of all views.

    Parameters
    ----------
    n_components : int or "auto"
        The number K of components. Parameters that are "auto" are chosen by the error of predictions of held-out rows
        (see `criterion`). A quarter of the rows is held out; with fewer than 1000 rows, each quarter is held out in
        turn. In this case, n_components, n_latent and n_private are the smallest numbers whose error is within one
        standard error of the smallest error. With more rows, this rule decides only between one component and several
        components.
    n_latent : int or "auto"
        The latent dimension d, at most the number of columns of the smallest view; 0 is a mixture of Gaussians.
    covariance_type : {"shrunk", "low-rank", "diag", "full"}
        ``"shrunk"``: full noise in each view, and the covariance of all columns of a component shrunk towards the
        pooled covariance of the components, ``S_k <- (N_k S_k + nu S_0) / (N_k + nu)``: the mode of the posterior under
        an inverse Wishart prior. ``"diag"``, ``"full"``: maximum likelihood as printed (30)-(36), with diagonal or full
        noise in each view. ``"low-rank"``: noise ``V V' + diag(psi)`` in each view, with `n_private` latent dimensions
        that belong to this view only, fitted by EM in all latent dimensions at once. Covariances are shrunk as for
        ``"shrunk"``, towards the covariance S_0 of a low-rank model with one component. The model needs no D × D matrix
        for D columns and is suitable for views with many columns.
    n_private : int or "auto"
        The number of private latent dimensions of each view for ``"low-rank"``, smaller than the number of columns
        of the view.
    shrinkage : float or "auto"
        The weight nu of S_0 in each component, as a number of rows, for ``"shrunk"`` and ``"low-rank"``. For
        ``"low-rank"``, 0 is maximum likelihood.
    diagonal : float or "auto"
        The weight of the diagonal of the covariance within components in S_0; the full covariance has the remaining
        weight. It is used for ``"shrunk"`` and ``"low-rank"``.
    gate : float or "auto"
        The power p in the weights ``w_k p(x|k)^p`` with which the components contribute to imputed values, given the
        observed values x. Densities of many columns are overconfident, and p below one tempers them. 1 is Bayes' rule,
        which ``"auto"`` uses for ``"diag"`` and ``"full"``.
    criterion : {"imputation", "likelihood"}
        The criterion that "auto" minimizes on the held-out rows, for each view given the others: the squared error of
        `impute` in units of the variances of the columns, or minus the conditional log-density. (The joint density of
        all views favours too many components.)
    target : int, optional
        The view of the criterion. By default the criterion is the mean over all views.
    init : {"auto", "cca", "factors", "random"} or Mixture
        ``"cca"``: k-means on standardized columns, then canonical correlations per cluster, the closed form of Bach and
        Jordan. ``"factors"``: k-means, then principal factors. ``"random"``: means at random rows, random loadings.
        ``"auto"``: ``"cca"`` for full noise, else ``"factors"``; for ``"shrunk"`` the closed form of the M-step in
        the clusters of k-means. ``"low-rank"`` starts from k-means or from a Mixture with the same private latent
        dimensions. The name of another initializer of the `model` is allowed too, see `manifoldseq.hooks`.
    update : {"expanded", "joint", "conditional"}
        The M-step: ``"conditional"`` as printed (equations 31 to 36), ``"joint"`` for loadings and means together,
        ``"expanded"`` with an additional latent mean and covariance (parameter expansion). ``"shrunk"`` has a
        closed-form M-step and ignores it. On mini-batches, ``"expanded"`` is the same as ``"joint"``, because running
        sums keep their latent axes.
    model : str, optional
        The registered model that is minimized, by default ``"mpcca"``, or ``"mpcca.shrunk"`` for ``"shrunk"``.
    solver : str
        ``"em"``, or another solver of `manifoldseq.minimize`, such as ``"online-em"`` or ``"lbfgs"``. Only EM keeps the
        noise above its floor.
    acceleration : {"lbfgs", None}
        The acceleration of ``solver="em"``. ``"lbfgs"``: after three iterations of EM, L-BFGS maximizes the likelihood
        in the units of EM; a step that does not increase the likelihood is replaced by a step of EM. None: EM alone.
        ``"shrunk"`` ignores it.
    n_init : int
        The number of starts. The result with the highest likelihood is kept. A Mixture as `init` gives one start.
    max_iter : int
        The largest number of iterations of a start.
    tol : float
        A start ends when the mean log-likelihood of a row, l, changes by at most ``tol * max(1, |l|)``; for
        ``"shrunk"`` and ``"low-rank"`` l is the log-posterior over the rows.
    noise_floor : float
        The lower bound of the noise variance of a column, relative to the variance of the column.
    missing : {"error", "em"}
        The treatment of NaN in `fit`: an error, or the exact likelihood of the observed values. With full noise, a view
        must be complete or missing as a whole in each row.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the random choices.
    n_jobs : int or None
        The number of threads for the starts, -1 for one per core; None uses the executor of the context.
    verbose : int
        1 logs the end of every start, 2 logs every iteration, to the logger ``"manifoldseq"``.

    Attributes
    ----------
    n_components_, n_latent_, n_private_ : int
    shrinkage_, diagonal_, gate_ : float
        The given or chosen values. ``n_private_`` is the value of the view with the most columns, and 0 except for
        ``"low-rank"``. The first two floats are NaN for ``"diag"`` and ``"full"``.
    choice_ : manifoldseq.models.Choice
        The compared settings with their losses (with the best gate of each): ``print(model.choice_)``. It exists only
        if a parameter was "auto".
    mixture_ : Mixture
        The fitted mixture. Its latent axes are the axes of the posterior in descending order of information, and the
        largest loading of each axis is positive.
    objective_ : float
        The smallest value of the cost: minus the mean log-likelihood, or for ``"shrunk"`` and ``"low-rank"`` minus the
        log-posterior over the rows, up to a constant.
    log_likelihood_ : float
        The mean of (12) over the rows. It does not exist if `model` has another cost.
    provenance_ : dict of str to str
        The plugins that provide the model, its initializer, its updates and the solver.
    n_iter_ : int
        Iterations of the best start.
    n_evaluations_ : int
        Evaluations of the EM map (an E-step with the statistics for an M-step) of the best start.
    repairs_ : int
        The number of collapsed components (fewer than two rows) that were moved to rows of smallest density.
    history_ : dict of str to ndarray
        Columns of equal length for the best start: ``nit``, ``time``, ``fun`` (see `objective_`), ``nfev`` (evaluations
        of the EM map so far), ``repairs`` (of EM) and further columns.
    status_ : manifoldseq.Status
    n_features_in_ : int
        Columns of all views together.
    feature_names_in_ : list of ndarray of str of shape (d_v,)
        The column names of each view, if all views have names (data frames, or `feature_names` of `fit`).
    n_rows_ : int
        Rows seen in `fit`.

    Notes
    -----
    Views are given as ``(X, Y)`` or as a list ``[X, Y, …]``, in any real dtype. Sums are computed in float64 over
    blocks of rows, so the required memory, except for the data, does not grow with N. The data may be memory maps.
    Responsibilities up to 1e-14 are omitted from sums if this saves time. All methods except `fit` accept None for a
    view, and NaN. Missing values are averaged over their posterior. Ctrl-C ends `fit` with the best state so far.

    References
    ----------
    Supplementary material of paper 2012, 2013, equations (7)-(41); Liu, Rubin, Wu, 1998 (parameter expansion);
    Jamshidian, Jennrich, 1997 (quasi-Newton acceleration of EM); Bach, Jordan, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z, which = rng.standard_normal((300, 1)), rng.integers(2, size=300)
    >>> X = np.where(which[:, None], z * [1, 2, 1], 6 + z * [2, -1, 1]) + 0.3 * rng.standard_normal((300, 3))
    >>> Y = np.where(which[:, None], z * [1, -1], 5 + z * [1, 1]) + 0.3 * rng.standard_normal((300, 2))
    >>> model = MixturePCCA(2, 1, random_state=0).fit(X, Y)
    >>> model.mixture_
    Mixture(K=2, views=(3, 2), d=1, full)
    >>> labels = model.predict(X, Y)
    >>> bool(max(np.mean(labels == which), np.mean(labels != which)) > 0.99)
    True
    >>> float(np.abs(model.impute(X, None)[1] - Y).mean().round(1))
    0.3
    """

    stored_types = (Mixture, Moments, Statistics, Scatter, ms.models.Choice, ms.models.Step)

    def __init__(
        self,
        n_components: int | str = "auto",
        n_latent: int | str = "auto",
        *,
        covariance_type: str = "shrunk",
        n_private: int | str = "auto",
        shrinkage: float | str = "auto",
        diagonal: float | str = "auto",
        gate: float | str = "auto",
        criterion: str = "imputation",
        target: int | None = None,
        init: str | Mixture = "auto",
        update: str = "expanded",
        model: str | None = None,
        solver: str = "em",
        acceleration: str | None = "lbfgs",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-7,
        noise_floor: float = 1e-6,
        missing: str = "error",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_latent = n_latent
        self.covariance_type = covariance_type
        self.n_private = n_private
        self.shrinkage = shrinkage
        self.diagonal = diagonal
        self.gate = gate
        self.criterion = criterion
        self.target = target
        self.init = init
        self.update = update
        self.model = model
        self.solver = solver
        self.acceleration = acceleration
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.noise_floor = noise_floor
        self.missing = missing
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @one_blas_thread()
    def fit(
        self,
        X: ViewsLike,
        Y: ArrayLike | None = None,
        *more: ArrayLike | None,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
        feature_names: Sequence[Sequence[str]] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the mixture to paired rows.

        Parameters
        ----------
        X, Y, *more : array-like of shape (N, d_v), or one list of them
        observers, checkpoint, resume
            As in `manifoldseq.iterate`, for every start; the state holds ``x``, a point of the model. Each start has
            its own folder in the checkpoint.
        feature_names : sequence of sequence of str, optional
            The names of the columns of each view; by default, the names in data frames.
        sample_weight : array-like of shape (N,), optional
            Nonnegative weights. A row of weight w counts as w rows.

        Raises
        ------
        ValueError
            For an invalid parameter or view. The message says what is wrong, where, and what to do.

        Warns
        -----
        UserWarning
            If a component ends with fewer than two rows, or if the likelihood is not finite (`status_` is then
            NON_FINITE). If a column is constant: its missing values are filled with the constant, and it has no
            influence on other columns. If there are fewer than 20 rows and a parameter is "auto": one component is used
            without a comparison.
        """
        data, names = self._prepared(X, Y, *more, names=feature_names, sample_weight=sample_weight)
        setting = self._setting(data)
        options: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        best, mixture, mean = self._best(setting, data, options)
        self._forget("log_likelihood_", *_OF_BATCHES)
        self.mixture_ = mixture.canonical()
        if mean is not None:
            self.log_likelihood_ = mean
        self.n_evaluations_ = int(best.history["nfev"][-1])
        self.repairs_ = int(best.history["repairs"][-1]) if "repairs" in best.history else 0
        self._remember(data.views, names)
        few = np.flatnonzero(self.mixture_.weights * data.n < 2)
        if len(few) and self.covariance_type in COVARIANCE_TYPES:  # elsewhere the prior describes them
            warnings.warn(
                f"{len(few)} of {self.mixture_.n_components} components describe fewer than two rows: "
                "lower n_components",
                stacklevel=3,  # the decorator is in between
            )
        return self

    @one_blas_thread()
    def partial_fit(
        self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Take one step of online EM with a batch of rows (Cappé and Moulines 2009).

        The first batch determines the start, the lower bound of the noise and the covariance S_0 of the prior. It needs
        at least K rows and should be typical. S_0 counts as nu rows among the rows of all batches. Parameters that are
        "auto" are not chosen but take a default, so pass ``n_components`` and ``n_latent`` as numbers. A batch after
        `fit` is a first batch, too: to continue from a fit, pass its ``mixture_`` as ``init``.

        Parameters
        ----------
        X, Y, *more : array-like of shape (b, d_v), or one list of them
        sample_weight : array-like of shape (b,), optional
            Nonnegative weights. A row of weight w counts as w rows of its batch.
        """
        if not hasattr(self, "batches_"):
            data, names = self._prepared(X, Y, *more, sample_weight=sample_weight)
            setting = self._given_setting(data.views)
            problem, begin = self._stated(setting, data, running=True)
            x, running, batches = self._begun(problem, begin), None, 0
            additive = _additive_of(problem)
            self._keep(setting)
            self._forget(*_OF_FIT)
            self.moments_, self.pooled_, self.weight_ = data.moments, problem.data.model.shrunk_to, data.n
            self._remember(data.views, names)
        else:
            self._check_settings()
            setting = self._setting_of_batches()
            views = self._checked(X, Y, *more, missing=self.missing == "em")
            data = _weighted(CheckedViews(views, self.moments_, holes=kinds(views)), sample_weight, 1)
            weight = self.weight_ + data.n
            data = replace(data, begun=(self.pooled_, weight))
            problem, _ = self._stated(setting, data, running=True)
            x, running, batches = self.mixture_.point, self.statistics_, self.batches_
            additive = _additive_of(problem)
            self.n_rows_, self.weight_ = self.n_rows_ + len(data.views[0]), weight
        share = share_of_batch(batches)
        x, self.statistics_ = learned(additive, x, running, additive.sums(x), share)
        self.batches_ = batches + 1
        self.mixture_ = problem.data.model.mixture(x)
        return self

    def predict(self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None) -> NDArray[np.int64]:
        """Return the likeliest component of each row, (N,)."""
        return self.predict_proba(X, Y, *more).argmax(axis=1)

    @one_blas_thread()
    def predict_proba(self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None) -> Array:
        """Return the responsibilities (13) of the components for each row, (N, K)."""
        views = self._checked(X, Y, *more)
        found = np.empty((len(views[0]), self.mixture_.n_components))
        for rows, expectation, seen in self._parts(views):
            found[rows] = expectation.responsibilities(seen)
        return found

    @one_blas_thread()
    def score_samples(self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None) -> Array:
        """Return the log-density of the observed values of each row, (N,)."""
        views = self._checked(X, Y, *more)
        found = np.zeros(len(views[0]))
        for rows, expectation, seen in self._parts(views):
            found[rows] = expectation.log_density(seen)
        return found

    def score(self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the mean log-density of the rows."""
        return float(self.score_samples(X, Y, *more).mean())

    @one_blas_thread()
    def transform(self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None) -> Array:
        """Return the latent means (18) of each row in each component, multiplied by the responsibilities, (N, K d).

        Latent axes of different components are unrelated, so every component has separate columns.
        """
        views = self._checked(X, Y, *more)
        K, d = self.mixture_.n_components, self.mixture_.n_latent
        found = np.empty((len(views[0]), K, d))
        for rows, expectation, seen in self._parts(views):
            for block in expectation.blocks(seen):
                within = np.arange(len(views[0]))[rows][block.rows]
                shared = expectation.latent(block)[:, :d]
                found[within] = (shared * block.g[:, None, :]).transpose(2, 0, 1)
        return found.reshape(len(found), K * d)

    def fit_transform(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None, **options: Any
    ) -> Array:
        """Equivalent to ``fit(X, Y).transform(X, Y)``."""
        return self.fit(X, Y, *more, **options).transform(X, Y, *more)

    @one_blas_thread()
    def impute(self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None) -> list[Array]:
        """Return all views with missing values replaced by their conditional expectations.

        Parameters
        ----------
        X, Y, *more : array-like of shape (N, d_v) or None, or one list of them
            Views that are None, and values that are NaN, are filled in.

        Returns
        -------
        list of ndarray of shape (N, d_v)
        """
        views = self._checked(X, Y, *more)
        return _filled(self.mixture_, views, self.gate_)

    @one_blas_thread()
    def impute_variance(self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None) -> list[Array]:
        """Return the variances of the imputed values, and zero for observed values.

        They are the variances of the conditional distribution: of the noise and the latent vector within the
        components, and of the expectations between components.

        Parameters
        ----------
        X, Y, *more
            As in `impute`.

        Returns
        -------
        list of ndarray of shape (N, d_v)
        """
        views = self._checked(X, Y, *more)
        whole = np.zeros((len(views[0]), sum(self.mixture_.views)))
        for columns, rows, conditional, seen in _missing(self.mixture_, views, self.gate_):
            for within, gate, mean in conditional.blocks(seen):
                centre = np.einsum("kdb,kb->bd", mean, gate)
                between = np.einsum("kdb,kb->bd", (mean - centre.T) ** 2, gate)
                whole[np.ix_(rows[within], ~columns)] = gate.T @ conditional.variances + between
        return _split(self.mixture_, whole)

    @one_blas_thread()
    def impute_samples(
        self,
        X: ViewsLike,
        Y: ArrayLike | None = None,
        *more: ArrayLike | None,
        n_samples: int = 1,
        random_state: Any = None,
    ) -> list[Array]:
        """Draw missing values from their conditional distribution (multiple imputation).

        Parameters
        ----------
        X, Y, *more
            As in `impute`.
        n_samples : int
        random_state : int, numpy.random.Generator, numpy.random.RandomState or None
            Seed of the random choices.

        Returns
        -------
        list of ndarray of shape (n_samples, N, d_v)
            The views. Observed values are equal in all samples.
        """
        views = self._checked(X, Y, *more)
        check_whole("n_samples", n_samples)
        rng = random_generator(random_state)
        whole = np.repeat(np.concatenate(views, axis=1, dtype=np.float64)[None], n_samples, axis=0)
        for columns, rows, conditional, seen in _missing(self.mixture_, views, self.gate_):
            for within, gate, mean in conditional.blocks(seen):
                for sample in whole:
                    sample[np.ix_(rows[within], ~columns)] = conditional.draw(gate, mean, rng)
        return _split(self.mixture_, whole)

    @one_blas_thread()
    def pair_scores(self, X: ArrayLike, Y: ArrayLike) -> Array:
        """Return ln p(y|x) - ln p(y) of every row x of one view with every row y of the other view, for retrieval.

        Larger scores mean that both rows more likely describe the same object. A y that is likely with any x has no
        advantage. In each row, the scores have the same order as ``p(x, y) / (p(x) p(y))``. `gate_` tempers p(k|x) as
        in `impute`.

        Parameters
        ----------
        X : array-like of shape (N, d_x)
        Y : array-like of shape (M, d_y)

        Returns
        -------
        ndarray of shape (N, M)

        Raises
        ------
        ValueError
            If the mixture has more than two views, or if views have other columns or NaN.

        Examples
        --------
        >>> import numpy as np
        >>> z = np.random.default_rng(0).standard_normal((200, 2))
        >>> model = MixturePCCA(random_state=0).fit(z + 1, -2 * z)
        >>> model.pair_scores(z[:5] + 1, -2 * z[:5]).argmax(axis=1)
        array([0, 1, 2, 3, 4])
        """
        check_is_fitted(self, "mixture_")
        sizes = self.mixture_.views
        if len(sizes) != 2:
            raise ValueError(
                f"pair_scores compares rows of two views, but this mixture has {len(sizes)} views: fit a mixture "
                "to the two views only"
            )
        check_names([X, Y], getattr(self, "feature_names_in_", None), type(self).__name__)
        x, y = (as_view(item, v) for v, item in enumerate((X, Y)))
        for v, (view, size) in enumerate(zip((x, y), sizes, strict=True)):
            if view.shape[1] != size:
                raise ValueError(f"pair_scores was passed {view.shape[1]} columns as view {v}: pass {size} columns")
            remedy = "fill it by impute, or remove the row, because pair_scores compares complete rows"
            check_values(view, f"view {v}", remedy)
        first = np.arange(sum(sizes)) < sizes[0]
        rows = np.asarray(y, np.float64)
        scores = Conditional(self.mixture_, first, self.gate_).pair_log_densities([x], rows)
        return scores - Expectation(self.mixture_.observed(~first)).log_density([y])

    @one_blas_thread()
    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[list[Array], NDArray[np.int64]]:
        """Draw rows from the fitted mixture.

        Returns
        -------
        list of ndarray of shape (n_samples, d_v), ndarray of int of shape (n_samples,)
            The views, and the components of the rows.
        """
        check_is_fitted(self, "mixture_")
        check_whole("n_samples", n_samples)
        rng, mixture = random_generator(random_state), self.mixture_
        labels = rng.choice(mixture.n_components, n_samples, p=mixture.weights / mixture.weights.sum())
        latent = rng.standard_normal((n_samples, mixture.loadings.shape[2]))
        rows = rng.standard_normal((n_samples, mixture.means.shape[1]))
        for k in range(mixture.n_components):
            own = labels == k
            for v, noise in enumerate(mixture.noise):
                columns = mixture.columns(v)
                e = rows[own, columns]
                rows[own, columns] = e @ np.linalg.cholesky(noise[k]).T if mixture.full else e * np.sqrt(noise[k])
            rows[own] += latent[own] @ mixture.loadings[k].T + mixture.means[k]
        return np.split(rows, np.cumsum(mixture.views)[:-1], axis=1), labels

    def fit_predict(
        self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None, **options: Any
    ) -> NDArray[np.int64]:
        """Equivalent to ``fit(X, Y).predict(X, Y)``."""
        return self.fit(X, Y, *more, **options).predict(X, Y, *more)

    def aic(self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None) -> float:
        """Return Akaike's information criterion of rows; smaller is better."""
        return float(-2 * self.score_samples(X, Y, *more).sum() + 2 * self.mixture_.n_parameters)

    def bic(self, X: ViewsLike, Y: ArrayLike | None = None, *more: ArrayLike | None) -> float:
        """Return the Bayesian information criterion of rows; smaller is better."""
        density = self.score_samples(X, Y, *more)
        return float(-2 * density.sum() + self.mixture_.n_parameters * np.log(len(density)))

    @property
    def _model_name(self) -> str:
        return self.model or ("mpcca.shrunk" if self.covariance_type == "shrunk" else "mpcca")

    @property
    def _has_prior(self) -> bool:
        return self.covariance_type not in COVARIANCE_TYPES

    @property
    def _has_full_noise(self) -> bool:
        return self.covariance_type in ("shrunk", "full")

    @property
    def _n_features_out(self) -> int:
        return self.mixture_.n_components * self.mixture_.n_latent

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "em" or hasattr(self, "mixture_")  # once fitted, all methods do
        target = tags.target_tags  # the second view takes the place of y
        target.required = target.two_d_labels = target.multi_output = True
        target.single_output = False
        return tags

    def _prepared(
        self,
        X: ViewsLike,
        Y: ArrayLike | None,
        *more: ArrayLike | None,
        names: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> tuple[CheckedViews, Names | None]:
        """Validate the input of a fit; return the views and the names of their columns."""
        self._check_settings()
        items = _given(X, Y, *more)
        names = given_names(items, names)
        views = check_views(items, missing=self.missing == "em", names=names)
        if self.target is not None and not 0 <= self.target < len(views):
            raise ValueError(
                f"target={self.target} is not one of the {len(views)} views: pass an index from 0 to {len(views) - 1}"
            )
        if self.covariance_type == "full":
            _check_whole_views(views)
        data = _weighted(CheckedViews(views, holes=kinds(views)), sample_weight)
        self._given_setting(data.views)
        return replace(data, moments=Moments.of(data.views, names, data.weights, constant="warn")), names

    def _check_settings(self) -> None:
        check_parameters(self, _RULES)
        rules: dict[str, Any] = {"n_components": (check_whole, 1), "n_latent": (check_whole, 0)}
        # without rows of a prior covariances of low rank are those of the largest likelihood; full ones need some
        rules |= {"n_private": (check_whole, 0), "diagonal": (check_number, 0.0, 1.0)}
        rules |= {"shrinkage": (check_number, 0.0, np.inf, self.covariance_type != "low-rank")}
        rules |= {"gate": (check_number, 0.0, 1.0)}
        for name, (rule, *bounds) in rules.items():
            value = getattr(self, name)
            if isinstance(value, str):
                check_choice(name, value, (AUTO,), "a number")
            else:
                rule(name, value, *bounds)
        if self.target is not None:
            check_whole("target", self.target, 0)
        check_choice("missing", self.missing, MISSING)

    def _checked(self, X: ViewsLike, Y: ArrayLike | None, *more: ArrayLike | None, missing: bool = True) -> list[View]:
        """Validate the views for a fitted estimator; views that are None become NaN."""
        check_is_fitted(self, "mixture_")
        sizes = self.mixture_.views
        items = as_list(X, Y, *more) if Y is not None or more or isinstance(X, (list, tuple)) else [X, None]
        items += [None] * (len(sizes) - len(items))
        check_names(items, getattr(self, "feature_names_in_", None), type(self).__name__)
        items = [None if item is None else as_view(item, v) for v, item in enumerate(items)]
        rows = [len(item) for item in items if item is not None]
        if not rows:
            raise ValueError("every view is None: pass at least one")
        if len(items) != len(sizes):
            raise ValueError(
                f"{len(items)} views were passed, but the mixture was fitted on {len(sizes)} views: pass the same views"
            )
        filled = [np.full((rows[0], n), np.nan) if i is None else i for i, n in zip(items, sizes, strict=True)]
        views = check_views(filled, missing=missing)
        check_sizes(views, sizes, type(self).__name__)
        return views

    def _parts(self, views: list[View]) -> Any:
        """Yield groups of rows with the same observed columns: rows, E-step, and observed views."""
        for columns, rows in patterns(views):
            expectation = Expectation(self.mixture_.observed(columns))
            if rows is None and columns.all():
                yield slice(None), expectation, views
            else:
                every = np.arange(len(views[0])) if rows is None else rows
                yield every, expectation, observed_views(views, columns, every)

    def _given_setting(self, views: list[View]) -> Setting:
        """Return the given setting, with the initial values of a choice in place of "auto"."""
        sizes, N, shrunk = tuple(view.shape[1] for view in views), len(views[0]), self._has_prior
        low_rank = self.covariance_type == "low-rank"
        mixture = self.init if isinstance(self.init, Mixture) else None
        first = {
            "n_components": mixture.n_components if mixture else min(max(_numbers(N)), 10),
            "n_latent": mixture.n_latent if mixture else min(10, *sizes),
            "n_private": max(mixture.private) if mixture and mixture.private else min(5, max(sizes) - 1),
            "shrinkage": 200.0 if shrunk else np.nan,
            "diagonal": 0.2 if shrunk else np.nan,
            "gate": 1.0,
        }
        given = {name: value for name in first if not isinstance(value := getattr(self, name), str)}
        if not shrunk:
            given |= {"shrinkage": np.nan, "diagonal": np.nan}
        given["n_private"] = min(given.get("n_private", first["n_private"]), max(sizes) - 1) if low_rank else 0
        setting = Setting(**(first | given))
        check_fits(sizes, N, setting.n_components, setting.n_latent)
        private = private_sizes(setting.n_private, sizes) if low_rank else ()
        needed = _covariance_bytes(self.covariance_type, sizes, setting.n_components)
        if needed > _MOST_COVARIANCES:
            raise ValueError(
                f"covariance_type={quoted(self.covariance_type)} needs {needed / 2**30:.1f} GiB for the covariances of "
                f"{setting.n_components} components of {sum(sizes)} columns: pass covariance_type='low-rank' or "
                "'diag', which do not store them"
            )
        names = tuple(ms.get_model(self._model_name).initializers)
        check_init(self.init, names, sizes, setting.n_components, setting.n_latent, self._has_full_noise, private)
        return setting

    def _setting_of_batches(self) -> Setting:
        """Return the setting of the first batch; raise an error if the parameters have other numbers now."""
        kept = Setting(**{name: getattr(self, f"{name}_") for name in Setting.__dataclass_fields__})
        # four kinds: a full or a diagonal covariance in each view, with or without a prior
        same = (self.mixture_.full, not np.isnan(kept.shrinkage)) == (self._has_full_noise, self._has_prior)
        names = ("n_components", "n_latent", *(("shrinkage", "diagonal") if self._has_prior else ()))
        given = {name: value for name in names if not isinstance(value := getattr(self, name), str)}
        same = same and all(getattr(kept, name) == value for name, value in given.items())
        if self.covariance_type == "low-rank" and not isinstance(self.n_private, str):
            same = same and private_sizes(self.n_private, self.mixture_.views) == self.mixture_.private
        if not same:
            raise ValueError(
                f"the settings differ from the settings of {quoted(self.mixture_)}, which was fitted to earlier "
                "batches: restore the earlier settings, or use a new estimator"
            )
        return kept

    def _setting(self, data: CheckedViews) -> Setting:
        """Return the setting of a fit, after the choice of the values that are "auto"."""
        views = data.views
        first = self._given_setting(views)
        sizes, N = [view.shape[1] for view in views], len(views[0])
        grid = {name: values for name, values in _GRID.items() if isinstance(getattr(self, name), str)}
        if not self._has_prior:
            grid = {name: values for name, values in grid.items() if name in ("n_components", "n_latent")}
        if self.covariance_type != "low-rank":
            grid.pop("n_private", None)
        if isinstance(self.init, Mixture):
            grid = {name: values for name, values in grid.items() if name not in SIZES}
        if "n_components" in grid:
            kind = self.covariance_type, tuple(sizes)
            grid["n_components"] = [k for k in _numbers(N) if _covariance_bytes(*kind, k) <= _MOST_COVARIANCES]
        if "n_latent" in grid:
            grid["n_latent"] = sorted({min(d, *sizes) for d in grid["n_latent"]})
        if "n_private" in grid:
            grid["n_private"] = sorted({min(q, max(sizes) - 1) for q in grid["n_private"]})
        self.__dict__.pop("choice_", None)
        setting = first
        if grid and N < _LEAST_ROWS:
            taken = ", ".join(f"{name}={getattr(first, name):g}" for name in grid)
            warnings.warn(
                f"{N} rows are too few to choose settings, so the fit uses {taken}: pass numbers, or at least "
                f"{_LEAST_ROWS} rows",
                stacklevel=4,  # the decorator is in between
            )
        if grid and N >= _LEAST_ROWS:
            # each pattern of holes costs each fit a regression per component: many are filled in once, by one component
            known = data
            if data.holes is not None and len(data.holes[0]) > _MOST_PATTERNS:
                filled = _filled(self._best(replace(first, n_components=1), data)[1], views)
                known = replace(data, views=filled, holes=None)

            def fit(setting: Setting, part: CheckedViews) -> Mixture:
                return self._best(setting, part)[1]

            assert data.moments is not None
            about = self.criterion, self.target
            setting, self.choice_ = choose(fit, known, data.moments.variance, first, grid, *about)
        self._keep(setting)
        return setting

    def _keep(self, setting: Setting) -> None:
        self.gate_ = setting.gate
        for name, value in _kept(setting).items():
            setattr(self, name, value)

    def _best(
        self, setting: Setting, data: CheckedViews, options: dict[str, Any] | None = None
    ) -> tuple[Any, Mixture, float | None]:
        """Return the best run, its mixture and its mean log-likelihood; without `options`, a short run with seed 0."""
        stop = ms.CostChange(self.tol) | ms.MaxIterations(self.max_iter)
        if options is None:
            stop = ms.CostChange(max(self.tol, _TRIED_TOL)) | ms.MaxIterations(min(self.max_iter, _MOST_ITERATIONS))
        parts = (*data.views, *([] if data.weights is None else [data.weights]))
        n_starts = 1 if isinstance(self.init, Mixture) else self.n_init
        problem, init = self._stated(setting, data, tried=options is None)
        given = {"accelerated": True} if self.solver == "em" and self.acceleration is not None else {}
        if options is None:
            x0 = self._begun(problem, init, np.random.default_rng(0))
            best = ms.minimize(problem, x0, solver=self.solver, options=given, stop=stop, seed=0, project=True)
            return best, problem.data.model.mixture(best.x), None
        loop: dict[str, Any] = {"n_starts": n_starts, **options}
        best = self._solved(problem, *parts, init=init, solver=self.solver, options=given, **loop)
        of, prior = (_shrunk, _shrunk.log_prior) if self.covariance_type == "shrunk" else (_objective, None)
        mean = log_likelihood(problem, best.x, best.fun, (of.statistics, of.value, of.value_and_gradient), prior)
        return best, problem.data.model.mixture(best.x), mean

    def _stated(
        self, setting: Setting, data: CheckedViews, running: bool = False, tried: bool = False
    ) -> tuple[Any, Any]:
        """Return the problem of the registered model, and the name or the point of the start.

        `running` sums keep their latent axes. Fits that are `tried` have the seed 0.
        """
        within = self.init if isinstance(self.init, Mixture) else None
        begin = self.init if within is None else within.point
        if self.covariance_type == "shrunk":
            names = ("n_components", "n_latent", "shrinkage", "diagonal")
            given: dict[str, Any] = {name: getattr(setting, name) for name in names}
            # the clusters of the starts: the clusters of one start alone would fit their own prior best
            n_starts = 1 if running else self.n_init
            seeds = [np.random.default_rng(0)] if tried else random_generator(self.random_state).spawn(n_starts)
            given |= {"noise_floor": self.noise_floor, "within": within, "seed": seeds}
            return self._problem(self._model_name, data, **given), begin
        running = running or not get_solver(self.solver).deterministic
        params: dict[str, Any] = {
            "n_components": setting.n_components,
            "n_latent": setting.n_latent,
            "covariance_type": "full" if self.covariance_type == "full" else "diag",
            "noise_floor": self.noise_floor,
            "update": "joint" if running and self.update == "expanded" else self.update,
        }
        if self.covariance_type == "low-rank":  # what starts have in common, and the prior, are those of the data
            params |= {name: getattr(setting, name) for name in ("n_private", "shrinkage", "diagonal")}
        return self._problem(self._model_name, data, **params), begin

    def _remember(self, views: list[View], names: Names | None) -> None:
        self.n_features_in_ = sum(view.shape[1] for view in views)
        self.n_rows_ = len(views[0])
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names


def _additive_of(problem: ms.Problem) -> Any:
    """Return the sums and updates of a model that has them."""
    additive: Any = problem.objective.additive
    if additive is None or not additive.plain:
        raise ValueError(
            f"partial_fit requires statistics and updates, but the model {problem.data.spec.name!r} lacks them: use fit"
        )
    return additive


def _missing(
    mixture: Mixture, views: list[View], gate: float
) -> Iterator[tuple[Mask, NDArray[np.intp], Conditional, list[Any]]]:
    """Yield groups of rows with missing values: observed columns, rows, the conditional distribution, the views."""
    for columns, rows in patterns(views):
        if not columns.all():
            every = np.arange(len(views[0])) if rows is None else rows
            yield columns, every, Conditional(mixture, columns, gate), observed_views(views, columns, every)


def _filled(mixture: Mixture, views: list[View], gate: float = 1.0) -> list[Array]:
    """Return the views with conditional expectations in place of NaN."""
    whole = np.concatenate(views, axis=1, dtype=np.float64)
    for columns, rows, conditional, seen in _missing(mixture, views, gate):
        for within, weights, mean in conditional.blocks(seen):
            whole[np.ix_(rows[within], ~columns)] = np.einsum("kdb,kb->bd", mean, weights)
    return _split(mixture, whole)


def _split(mixture: Mixture, whole: Array) -> list[Array]:
    """Return the views of rows (…, D)."""
    return [np.ascontiguousarray(part) for part in np.split(whole, np.cumsum(mixture.views)[:-1], axis=-1)]


def _kept(setting: Setting) -> dict[str, Any]:
    """Return the fitted attributes of a setting."""
    return {f"{name}_": value for name, value in asdict(setting).items()}


def _given(X: ViewsLike, Y: ArrayLike | None, *more: ArrayLike | None) -> list[Any]:
    """Return the views of a fit; raise an error if a view is None."""
    items = as_list(X, Y, *more) if Y is not None or more else as_list(X)
    for v, item in enumerate(items):
        if item is None:
            raise ValueError(f"view {v} is None: pass all views to fit, with NaN where rows are missing")
    return items


def _weighted(data: CheckedViews, sample_weight: ArrayLike | None, least: int = 2) -> CheckedViews:
    """Return the rows with positive weights, and the weights; raise an error if there are too few."""
    weights = check_sample_weight(sample_weight, len(data.views[0]), least=least)
    data = replace(data, weights=weights)
    return data if weights is None or weights.all() else data.of_rows(np.flatnonzero(weights))


def _covariance_bytes(covariance_type: str, sizes: tuple[int, ...], n_components: int) -> int:
    """Return the number of bytes of the covariances of all components, over all views together or over each view."""
    widths = {"shrunk": (sum(sizes),), "full": sizes}.get(covariance_type, ())
    return 8 * n_components * sum(n * n for n in widths)


def _check_whole_views(views: list[View]) -> None:
    """Raise ValueError if a view is partly missing in a row."""
    for v, view in enumerate(views):
        for rows in row_blocks(len(view)):
            holes = np.isnan(view[rows])
            partly = np.flatnonzero(holes.any(axis=1) & ~holes.all(axis=1))
            if len(partly):
                raise ValueError(
                    f"view {v} misses some columns in row {rows.start + partly[0]}, but covariance_type='full' needs "
                    "views that are complete or missing as a whole in each row: use 'diag'"
                )
