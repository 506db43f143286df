"""Records of the core: manifolds, solvers, estimators, plots and readers. Targets are strings: nothing is imported."""

from . import hooks
from .hooks._lookup import add_core


def _manifold(name: str, factory: str, summary: str, example: str = "") -> hooks.ManifoldSpec:
    """Return the record of a class in `manifolds`; `example` is the class that defines its example."""
    package = "manifoldseq.manifolds"
    path = f"{package}.{example}" if example else f"{package}:{factory}"
    return hooks.ManifoldSpec(name, f"{package}:{factory}", f"{path}.example", summary=summary)


RECORDS = (
    _manifold("euclidean", "Euclidean", "Arrays of a given shape, unconstrained"),
    _manifold("stiefel", "Stiefel", "n × p matrices with orthonormal columns"),
    _manifold("stiefel-canonical", "Stiefel", "Orthonormal columns, canonical metric", "_stiefel:_Canonical"),
    _manifold("orthogonal", "Orthogonal", "Orthogonal matrices, both components"),
    _manifold("grassmann", "Grassmann", "Linear subspaces, represented by orthonormal bases"),
    _manifold("special-orthogonal", "SpecialOrthogonal", "Rotations: orthogonal matrices of determinant one"),
    _manifold("sphere", "Sphere", "Arrays of norm one"),
    _manifold("oblique", "Oblique", "Matrices whose columns have norm one"),
    _manifold("simplex", "Simplex", "Positive rows that sum to one, Fisher metric"),
    _manifold("positive", "Positive", "Positive numbers, affine-invariant metric"),
    _manifold(
        "symmetric-positive-definite", "SymmetricPositiveDefinite", "Covariance matrices, affine-invariant metric"
    ),
    _manifold(
        "log-euclidean", "SymmetricPositiveDefinite",
        "Covariance matrices, metric of matrix logarithms", "_log_euclidean:_LogEuclidean",
    ),
    _manifold(
        "bures-wasserstein", "SymmetricPositiveDefinite",
        "Covariance matrices, metric of optimal transport", "_bures_wasserstein:_BuresWasserstein",
    ),
    _manifold("hyperbolic", "Hyperbolic", "Hyperbolic space on the hyperboloid"),
    _manifold("generalized-stiefel", "GeneralizedStiefel", "n × p matrices X with X' B X = I"),
    _manifold("bounded-diagonal", "BoundedDiagonal", "Diagonals with entries between -bound and bound"),
    _manifold("box", "Box", "Arrays whose entries have individual bounds, which may be infinite"),
    _manifold("open-box", "OpenBox", "Vectors with entries inside (-bound, bound), metric of an unbounded coordinate"),
    _manifold("product", "Product", "Tuples of points, one of each factor"),
    _manifold("power", "Power", "Points of one manifold along a leading axis"),
    _manifold("special-euclidean", "SpecialEuclidean", "Rigid motions: a rotation and a translation"),
    _manifold("frozen", "Frozen", "Points that the solver does not change: a frozen factor"),
    _manifold(
        "canonical-lds", "CanonicalLDS",
        "Stable linear dynamical systems in canonical form: bounded diagonal × orthogonal × Stiefel",
    ),
    hooks.SolverSpec(
        "lbfgs-tr",
        "manifoldseq.solvers:LBFGSTR",
        summary="L-BFGS, followed by trust regions if L-BFGS is slow (the default for most problems)",
    ),
    hooks.SolverSpec("lbfgs", "manifoldseq.solvers:LBFGS", summary="Riemannian limited-memory BFGS"),
    hooks.SolverSpec(
        "bb", "manifoldseq.solvers:BB", summary="Riemannian Barzilai-Borwein: gradient steps with nonmonotone search"
    ),
    hooks.SolverSpec(
        "cg", "manifoldseq.solvers:CG", summary="Riemannian nonlinear conjugate gradients, with five formulas for beta"
    ),
    hooks.SolverSpec("gd", "manifoldseq.solvers:GD", summary="Steepest descent with a line search or given step sizes"),
    hooks.SolverSpec(
        "pgd",
        "manifoldseq.solvers:PGD",
        summary="Projected gradient descent with one step size per factor (Algorithm 1 of the LDS paper)",
    ),
    hooks.SolverSpec(
        "tr",
        "manifoldseq.solvers:TR",
        summary="Riemannian trust regions with truncated conjugate gradients; Hessians can be finite differences",
    ),
    hooks.SolverSpec(
        "sgd",
        "manifoldseq.solvers:SGD",
        needs=("value_and_gradient", "terms"),
        summary="Stochastic gradient descent with momentum on mini-batches of a sum over data",
    ),
    hooks.SolverSpec(
        "stochastic-pgd",
        "manifoldseq.solvers:StochasticPGD",
        needs=("value_and_gradient", "terms"),
        summary="Projected gradient descent at given rates on mini-batches (Algorithm 1 of the LDS paper, stochastic)",
    ),
    hooks.SolverSpec(
        "adam",
        "manifoldseq.solvers:Adam",
        needs=("value_and_gradient", "terms"),
        summary="Riemannian Adam on mini-batches of a sum over data",
    ),
    hooks.SolverSpec(
        "alternating",
        "manifoldseq.solvers:Alternating",
        needs=("updates",),
        summary="Closed-form updates of some factors in turn, and an inner solver for the others (EM, block descent)",
    ),
    hooks.SolverSpec(
        "em",
        "manifoldseq.solvers:EM",
        needs=("additive",),
        summary="Expectation maximization: closed-form updates from sums over the data, safeguarded",
    ),
    hooks.SolverSpec(
        "online-em",
        "manifoldseq.solvers:OnlineEM",
        needs=("additive",),
        summary="Expectation maximization on mini-batches, with running sums (Cappé and Moulines 2009)",
    ),
    hooks.SolverSpec(
        "lm",
        "manifoldseq.solvers:LM",
        needs=("residuals",),
        summary="Levenberg-Marquardt method with sparse normal equations, for least squares with robust losses",
    ),
    hooks.SolverSpec(
        "sqp",
        "manifoldseq.solvers:SQP",
        constraints=True,
        summary="Sequential quadratic programming for equalities and inequalities; needs the extra [constraints]",
    ),
    hooks.SolverSpec(
        "augmented-lagrangian",
        "manifoldseq.solvers:AugmentedLagrangian",
        constraints=True,
        summary="Augmented Lagrangian method for equalities and inequalities, with an inner solver",
    ),
    hooks.SolverSpec(
        "pymanopt:steepest-descent",
        "manifoldseq.solvers:Pymanopt.steepest_descent",
        summary=(
            "pymanopt's SteepestDescent; as with all solvers of pymanopt, a resumed run restarts from the stored point"
        ),
    ),
    hooks.SolverSpec(
        "pymanopt:conjugate-gradient",
        "manifoldseq.solvers:Pymanopt.conjugate_gradient",
        summary="pymanopt's ConjugateGradient",
    ),
    hooks.SolverSpec(
        "pymanopt:trust-regions",
        "manifoldseq.solvers:Pymanopt.trust_regions",
        needs=("value_and_gradient", "hessian_product"),
        summary="pymanopt's TrustRegions",
    ),
    hooks.SolverSpec(
        "pymanopt:particle-swarm",
        "manifoldseq.solvers:Pymanopt.particle_swarm",
        needs=(),
        summary="pymanopt's ParticleSwarm, for objectives without a gradient",
    ),
    hooks.SolverSpec(
        "pymanopt:nelder-mead",
        "manifoldseq.solvers:Pymanopt.nelder_mead",
        needs=(),
        summary="pymanopt's NelderMead, for objectives without a gradient and few variables",
    ),
    hooks.EstimatorSpec(
        "statistics", "manifoldseq.evaluation:ChannelStatistics",
        summary="Mean and standard deviation of each channel: a baseline",
    ),
    hooks.EstimatorSpec(
        "autocovariance", "manifoldseq.evaluation:LaggedAutocovariance",
        summary="Autocovariances of the channels: a baseline",
    ),
    hooks.EstimatorSpec(
        "statistics-kmeans", "manifoldseq.evaluation:StatisticsKMeans",
        summary="k-means of channel means and standard deviations: a baseline",
    ),
    hooks.EstimatorSpec(
        "autocovariance-kmeans", "manifoldseq.evaluation:AutocovarianceKMeans",
        summary="k-means of lagged autocovariances: a baseline",
    ),
    hooks.EstimatorSpec(
        "statistics-classifier", "manifoldseq.evaluation:StatisticsClassifier",
        summary="Logistic regression on channel means and standard deviations: a baseline",
    ),
    hooks.EstimatorSpec(
        "autocovariance-classifier", "manifoldseq.evaluation:AutocovarianceClassifier",
        summary="Logistic regression on lagged autocovariances: a baseline",
    ),
    hooks.EstimatorSpec(
        "spectrum-kmeans", "manifoldseq.evaluation:SpectrumKMeans",
        summary="k-means of logarithms of spectra: a baseline",
    ),
    hooks.EstimatorSpec(
        "curves-kmeans", "manifoldseq.evaluation:CurvesKMeans",
        summary="k-means of resampled and standardized curves: a baseline",
    ),
    hooks.EstimatorSpec(
        "convolutions-kmeans", "manifoldseq.evaluation:ConvolutionsKMeans",
        summary="k-means of random convolutions: a baseline",
    ),
    hooks.EstimatorSpec(
        "warping-kmedoids", "manifoldseq.evaluation:WarpingKMedoids",
        summary="k-medoids under dynamic time warping: a baseline",
    ),
    hooks.EstimatorSpec(
        "spectrum-classifier", "manifoldseq.evaluation:SpectrumClassifier",
        summary="Support vector machines on logarithms of spectra: a baseline",
    ),
    hooks.EstimatorSpec(
        "convolutions-classifier", "manifoldseq.evaluation:ConvolutionsClassifier",
        summary="Ridge regression on random convolutions: a baseline",
    ),
    hooks.EstimatorSpec(
        "warping-classifier", "manifoldseq.evaluation:WarpingClassifier",
        summary="The class of the nearest sequence under dynamic time warping: a baseline",
    ),
    hooks.EstimatorSpec(
        "kmeans", "manifoldseq.evaluation:RowKMeans", input="samples",
        summary="k-means of standardized rows: a baseline",
    ),
    hooks.EstimatorSpec(
        "normalized-kmeans", "manifoldseq.evaluation:NormalizedKMeans", input="samples",
        summary="k-means of rows divided by their lengths: a baseline",
    ),
    hooks.EstimatorSpec(
        "linear-classifier", "manifoldseq.evaluation:RowClassifier", input="samples",
        summary="Logistic regression on standardized rows: a baseline",
    ),
    hooks.EstimatorSpec(
        "nearest-rows", "manifoldseq.evaluation:RowNeighbors", input="samples",
        summary="Nearest rows by standardized columns: a baseline",
    ),
    hooks.EstimatorSpec(
        "pca", "manifoldseq.evaluation:PrincipalComponents", input="samples",
        summary="Principal components of rows: a baseline",
    ),
    hooks.PlotSpec(
        "choice",
        accepts="manifoldseq.models._choice:accepts",
        draw="manifoldseq.models._choice:draw",
        summary="Compared settings with the deciding measure and its standard error; the chosen settings are circled",
    ),
    hooks.ReaderSpec("npz", ("*.npz",), "manifoldseq.storage:read_npz", summary="NumPy archives of arrays"),
    hooks.ReaderSpec("npy", ("*.npy",), "manifoldseq.storage:read_npy", summary="One NumPy array"),
    hooks.ReaderSpec(
        "mat", ("*.mat",), "manifoldseq.storage:read_mat", summary="MATLAB files, version 5 to 7.3: cells or arrays"
    ),
    hooks.ReaderSpec("ts", ("*.ts",), "manifoldseq.storage:read_ts", summary="Text files of aeon and sktime"),
    hooks.ReaderSpec(
        "csv", ("*.csv", "*.tsv", "*.txt"), "manifoldseq.storage:read_csv",
        summary="Text: columns id, time, channels, label, or one series per row"
    ),
    hooks.ReaderSpec(
        "parquet", ("*.parquet",), "manifoldseq.storage:read_parquet", summary="Parquet tables with columns as in .csv"
    ),
    hooks.ReaderSpec(
        "directory", ("*/",), "manifoldseq.storage:read_directory", summary="A folder of arrays or tables"
    ),
)  # fmt: skip

add_core(RECORDS)
