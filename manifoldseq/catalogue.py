"""What the core itself offers, in the records that plugins use too; strings, so listing imports no code."""

from typing import Any

from . import hooks


def _stiefel(rng: Any) -> Any:
    from .manifolds import Stiefel

    return Stiefel(7, 3)


def _orthogonal(rng: Any) -> Any:
    from .manifolds import Orthogonal

    return Orthogonal(4)


def _euclidean(rng: Any) -> Any:
    from .manifolds import Euclidean

    return Euclidean(3, 2)


def _bounded_diagonal(rng: Any) -> Any:
    from .manifolds import BoundedDiagonal

    return BoundedDiagonal(5)


def _product(rng: Any) -> Any:
    from .manifolds import Euclidean, Product, Stiefel

    return Product(Stiefel(5, 2), Euclidean(3))


def _canonical_lds(rng: Any) -> Any:
    from .manifolds import CanonicalLDS

    return CanonicalLDS(8, 3)


RECORDS = (
    hooks.Manifold(
        "euclidean", "manifoldseq.manifolds:Euclidean", _euclidean, summary="Arrays of a given shape, unconstrained"
    ),
    hooks.Manifold(
        "stiefel", "manifoldseq.manifolds:Stiefel", _stiefel, summary="n × p matrices with orthonormal columns"
    ),
    hooks.Manifold(
        "orthogonal", "manifoldseq.manifolds:Orthogonal", _orthogonal, summary="Orthogonal matrices, both components"
    ),
    hooks.Manifold(
        "bounded-diagonal",
        "manifoldseq.manifolds:BoundedDiagonal",
        _bounded_diagonal,
        summary="Diagonals with entries between -bound and bound",
    ),
    hooks.Manifold(
        "product", "manifoldseq.manifolds:Product", _product, summary="Tuples of points, one of each factor"
    ),
    hooks.Manifold(
        "canonical-lds",
        "manifoldseq.manifolds:CanonicalLDS",
        _canonical_lds,
        summary="Stable linear dynamical systems in canonical form: bounded diagonal × orthogonal × Stiefel",
    ),
    hooks.Solver(
        "lbfgs", "manifoldseq.solvers:LBFGS", summary="Riemannian limited-memory BFGS (the default)"
    ),
    hooks.Solver(
        "pgd",
        "manifoldseq.solvers:PGD",
        summary="Projected gradient descent with one step size per factor (Algorithm 1 of the LDS paper)",
    ),
    hooks.Reader("npz", ("*.npz",), "manifoldseq.storage:read_npz", summary="NumPy archives of arrays"),
    hooks.Reader("npy", ("*.npy",), "manifoldseq.storage:read_npy", summary="One NumPy array"),
    hooks.Reader(
        "mat", ("*.mat",), "manifoldseq.storage:read_mat", summary="MATLAB files, version 5 to 7.3: cells or arrays"
    ),
    hooks.Reader("ts", ("*.ts",), "manifoldseq.storage:read_ts", summary="Text files of aeon and sktime"),
    hooks.Reader(
        "csv", ("*.csv",), "manifoldseq.storage:read_csv", summary="Text in the long format: id, time, channels, label"
    ),
    hooks.Reader(
        "parquet", ("*.parquet",), "manifoldseq.storage:read_parquet", summary="Parquet in the long format, as .csv"
    ),
    hooks.Reader(
        "directory", ("*/",), "manifoldseq.storage:read_directory", summary="A folder of .npy or .csv, one per sequence"
    ),
)  # fmt: skip

hooks.add_core(RECORDS)
