"""Orthonormal parameters of any shape for torch networks, and optimizers that keep them orthonormal.

Import the package explicitly, ``import manifoldseq.torch``: the library itself never imports torch.
"""

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ImportError(
        "manifoldseq.torch needs torch, which is not installed: pip install torch "
        "(without a GPU: pip install torch --index-url https://download.pytorch.org/whl/cpu)"
    )

from ._optimizers import RiemannianAdam, RiemannianSGD
from ._parameters import OrthonormalParameter, keep_orthonormal, orthonormality, orthonormalize
from ._retractions import RETRACTIONS, polar_rows, qr_rows

__all__ = [
    "RETRACTIONS",
    "OrthonormalParameter",
    "RiemannianAdam",
    "RiemannianSGD",
    "keep_orthonormal",
    "orthonormality",
    "orthonormalize",
    "polar_rows",
    "qr_rows",
]
