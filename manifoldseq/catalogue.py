"""Records of the core's own manifolds, solvers and readers; targets are strings, so that listing imports no code."""

from typing import Any

from . import hooks
from .hooks._lookup import add_core


def _stiefel(rng: Any) -> Any:
    from .manifolds import Stiefel

    return Stiefel(7, 3)


def _canonical(rng: Any) -> Any:
    from .manifolds import Stiefel

    return Stiefel(7, 3, metric="canonical")


def _orthogonal(rng: Any) -> Any:
    from .manifolds import Orthogonal

    return Orthogonal(4)


def _euclidean(rng: Any) -> Any:
    from .manifolds import Euclidean

    return Euclidean(3, 2)


def _grassmann(rng: Any) -> Any:
    from .manifolds import Grassmann

    return Grassmann(7, 3)


def _special_orthogonal(rng: Any) -> Any:
    from .manifolds import SpecialOrthogonal

    return SpecialOrthogonal(4)


def _sphere(rng: Any) -> Any:
    from .manifolds import Sphere

    return Sphere(5)


def _oblique(rng: Any) -> Any:
    from .manifolds import Oblique

    return Oblique(4, 3)


def _simplex(rng: Any) -> Any:
    from .manifolds import Simplex

    return Simplex(3, 4)


def _positive(rng: Any) -> Any:
    from .manifolds import Positive

    return Positive(5)


def _positive_definite(rng: Any) -> Any:
    from .manifolds import SymmetricPositiveDefinite

    return SymmetricPositiveDefinite(3)


def _log_euclidean(rng: Any) -> Any:
    from .manifolds import SymmetricPositiveDefinite

    return SymmetricPositiveDefinite(3, metric="log-euclidean")


def _bures_wasserstein(rng: Any) -> Any:
    from .manifolds import SymmetricPositiveDefinite

    return SymmetricPositiveDefinite(3, metric="bures-wasserstein")


def _open_box(rng: Any) -> Any:
    from .manifolds import OpenBox

    return OpenBox(5)


def _bounded_diagonal(rng: Any) -> Any:
    from .manifolds import BoundedDiagonal

    return BoundedDiagonal(5)


def _product(rng: Any) -> Any:
    from .manifolds import Euclidean, Product, Stiefel

    return Product(Stiefel(5, 2), Euclidean(3))


def _power(rng: Any) -> Any:
    from .manifolds import SpecialOrthogonal

    return SpecialOrthogonal(3) ** 4


def _special_euclidean(rng: Any) -> Any:
    from .manifolds import SpecialEuclidean

    return SpecialEuclidean(3)


def _hyperbolic(rng: Any) -> Any:
    from .manifolds import Hyperbolic

    return Hyperbolic(3)


def _generalized_stiefel(rng: Any) -> Any:
    from .manifolds import GeneralizedStiefel

    A = rng.standard_normal((6, 9))
    return GeneralizedStiefel(A @ A.T, 2)


def _frozen(rng: Any) -> Any:
    from .manifolds import Euclidean, Frozen, Product, Stiefel

    return Product(Frozen(Stiefel(5, 2)), Euclidean(3))


def _canonical_lds(rng: Any) -> Any:
    from .manifolds import CanonicalLDS

    return CanonicalLDS(8, 3)


RECORDS = (
    hooks.ManifoldSpec(
        "euclidean", "manifoldseq.manifolds:Euclidean", _euclidean, summary="Arrays of a given shape, unconstrained"
    ),
    hooks.ManifoldSpec(
        "stiefel", "manifoldseq.manifolds:Stiefel", _stiefel, summary="n × p matrices with orthonormal columns"
    ),
    hooks.ManifoldSpec(
        "stiefel-canonical",
        "manifoldseq.manifolds:Stiefel",
        _canonical,
        summary="Orthonormal columns, canonical metric",
    ),
    hooks.ManifoldSpec(
        "orthogonal", "manifoldseq.manifolds:Orthogonal", _orthogonal, summary="Orthogonal matrices, both components"
    ),
    hooks.ManifoldSpec(
        "grassmann", "manifoldseq.manifolds:Grassmann", _grassmann, summary="Subspaces, kept as orthonormal bases"
    ),
    hooks.ManifoldSpec(
        "special-orthogonal",
        "manifoldseq.manifolds:SpecialOrthogonal",
        _special_orthogonal,
        summary="Rotations: orthogonal matrices of determinant one",
    ),
    hooks.ManifoldSpec(
        "sphere", "manifoldseq.manifolds:Sphere", _sphere, summary="Arrays of norm one"
    ),
    hooks.ManifoldSpec(
        "oblique", "manifoldseq.manifolds:Oblique", _oblique, summary="Matrices whose columns have norm one"
    ),
    hooks.ManifoldSpec(
        "simplex", "manifoldseq.manifolds:Simplex", _simplex, summary="Positive rows that sum to one, Fisher metric"
    ),
    hooks.ManifoldSpec(
        "positive", "manifoldseq.manifolds:Positive", _positive, summary="Positive numbers, affine-invariant metric"
    ),
    hooks.ManifoldSpec(
        "symmetric-positive-definite",
        "manifoldseq.manifolds:SymmetricPositiveDefinite",
        _positive_definite,
        summary="Covariance matrices, affine-invariant metric",
    ),
    hooks.ManifoldSpec(
        "log-euclidean",
        "manifoldseq.manifolds:SymmetricPositiveDefinite",
        _log_euclidean,
        summary="Covariance matrices, metric of matrix logarithms",
    ),
    hooks.ManifoldSpec(
        "bures-wasserstein",
        "manifoldseq.manifolds:SymmetricPositiveDefinite",
        _bures_wasserstein,
        summary="Covariance matrices, metric of optimal transport",
    ),
    hooks.ManifoldSpec(
        "hyperbolic", "manifoldseq.manifolds:Hyperbolic", _hyperbolic, summary="Hyperbolic space on the hyperboloid"
    ),
    hooks.ManifoldSpec(
        "generalized-stiefel",
        "manifoldseq.manifolds:GeneralizedStiefel",
        _generalized_stiefel,
        summary="n × p matrices X with X' B X = I",
    ),
    hooks.ManifoldSpec(
        "bounded-diagonal",
        "manifoldseq.manifolds:BoundedDiagonal",
        _bounded_diagonal,
        summary="Diagonals with entries between -bound and bound",
    ),
    hooks.ManifoldSpec(
        "open-box",
        "manifoldseq.manifolds:OpenBox",
        _open_box,
        summary="Vectors with entries inside (-bound, bound), metric of a free coordinate",
    ),
    hooks.ManifoldSpec(
        "product", "manifoldseq.manifolds:Product", _product, summary="Tuples of points, one of each factor"
    ),
    hooks.ManifoldSpec(
        "power", "manifoldseq.manifolds:Power", _power, summary="Points of one manifold along a leading axis"
    ),
    hooks.ManifoldSpec(
        "special-euclidean",
        "manifoldseq.manifolds:SpecialEuclidean",
        _special_euclidean,
        summary="Rigid motions: a rotation and a translation",
    ),
    hooks.ManifoldSpec(
        "frozen", "manifoldseq.manifolds:Frozen", _frozen, summary="Points that no step moves: a factor as it started"
    ),
    hooks.ManifoldSpec(
        "canonical-lds",
        "manifoldseq.manifolds:CanonicalLDS",
        _canonical_lds,
        summary="Stable linear dynamical systems in canonical form: bounded diagonal × orthogonal × Stiefel",
    ),
    hooks.SolverSpec(
        "lbfgs",
        "manifoldseq.solvers:LBFGS",
        summary="Riemannian limited-memory BFGS (the default where there is no Hessian)",
    ),
    hooks.SolverSpec(
        "bb", "manifoldseq.solvers:BB", summary="Riemannian Barzilai-Borwein: gradient steps with nonmonotone search"
    ),
    hooks.SolverSpec(
        "cg", "manifoldseq.solvers:CG", summary="Riemannian nonlinear conjugate gradients, five beta rules"
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
        summary="Riemannian trust regions with truncated conjugate gradients (exact or differenced Hessian products)",
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
        summary="Closed-form updates of some factors in turn, an inner solver on the others (EM, block descent)",
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
        "augmented-lagrangian",
        "manifoldseq.solvers:AugmentedLagrangian",
        constraints=True,
        summary="Equalities and inequalities by multipliers and a penalty around an inner solver",
    ),
    hooks.SolverSpec(
        "pymanopt:steepest-descent",
        "manifoldseq.solvers:Pymanopt.steepest_descent",
        summary="pymanopt's SteepestDescent, in one step to its end; not resumable, as the four below",
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
        summary="Mean and deviation of each channel: a control",
    ),
    hooks.EstimatorSpec(
        "autocovariance", "manifoldseq.evaluation:LaggedAutocovariance",
        summary="Covariances of channels some steps apart: a control",
    ),
    hooks.EstimatorSpec(
        "statistics-kmeans", "manifoldseq.evaluation:StatisticsKMeans",
        summary="k-means of channel means and deviations: a control",
    ),
    hooks.EstimatorSpec(
        "autocovariance-kmeans", "manifoldseq.evaluation:AutocovarianceKMeans",
        summary="k-means of lagged autocovariances: a control",
    ),
    hooks.EstimatorSpec(
        "statistics-classifier", "manifoldseq.evaluation:StatisticsClassifier",
        summary="Logistic regression on channel means and deviations: a control",
    ),
    hooks.EstimatorSpec(
        "autocovariance-classifier", "manifoldseq.evaluation:AutocovarianceClassifier",
        summary="Logistic regression on lagged autocovariances: a control",
    ),
    hooks.EstimatorSpec(
        "kmeans", "manifoldseq.evaluation:RowKMeans", input="samples",
        summary="k-means of standardized rows: a control",
    ),
    hooks.EstimatorSpec(
        "linear-classifier", "manifoldseq.evaluation:RowClassifier", input="samples",
        summary="Logistic regression on standardized rows: a control",
    ),
    hooks.EstimatorSpec(
        "nearest-rows", "manifoldseq.evaluation:RowNeighbors", input="samples",
        summary="Nearest rows by standardized columns: a control",
    ),
    hooks.EstimatorSpec(
        "pca", "manifoldseq.evaluation:PrincipalComponents", input="samples",
        summary="Principal components of rows: a control",
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
        "parquet", ("*.parquet",), "manifoldseq.storage:read_parquet", summary="Parquet in the long format, as .csv"
    ),
    hooks.ReaderSpec(
        "directory", ("*/",), "manifoldseq.storage:read_directory", summary="A folder of arrays or tables"
    ),
)  # fmt: skip

add_core(RECORDS)
