"""The optimizer of projections under its old name, for one release."""

from collections.abc import Iterable
from typing import Any


def StiefelSGD(params: Iterable[Any], lr: float = 0.1, momentum: float = 0.0, retraction: str = "polar") -> Any:
    """Return `manifoldseq.torch.RiemannianSGD` of parameters that are all orthonormal."""
    from manifoldseq.torch import RiemannianSGD

    return RiemannianSGD(
        [{"params": list(params), "orthonormal": True}], lr=lr, momentum=momentum, retraction=retraction
    )
