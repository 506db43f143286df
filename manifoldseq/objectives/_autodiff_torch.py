"""Derivatives by torch, on the device of the cost's own tensors."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._result import Tree
from ..linalg import leaves, tree_map
from ._cost import Differentiated, like


class ByTorch(Differentiated):
    """Derivatives of a cost written with torch, which receives the point as tensors of `dtype` on `device`."""

    library = "torch"
    advice = (
        "torch ({cause}): write it with torch functions, without float(), .item(), .detach(), .numpy() or in-place "
        "assignment into the point, or pass its gradient"
    )

    def value(self, rest: tuple[Any, ...], x: Tree) -> float:
        with _torch().no_grad():
            return float(self._scalar(self._tensors(x), rest))

    def value_and_gradient(self, rest: tuple[Any, ...], x: Tree) -> tuple[float, Tree]:
        at = self._tensors(x, requires_grad=True)
        value = self._scalar(at, rest)
        return float(value.detach()), _arrays(self._gradients(value, at), x)

    def hessian_product(self, rest: tuple[Any, ...], x: Tree, u: Tree) -> Tree:
        at = self._tensors(x, requires_grad=True)
        gradients = self._gradients(self._scalar(at, rest), at, create_graph=True)
        along = zip(gradients, leaves(self._tensors(like(u, x))), strict=True)
        slopes = [(g * v).sum() for g, v in along if g is not None and g.requires_grad]
        return _arrays(self._gradients(sum(slopes), at) if slopes else [None] * len(gradients), x)

    def _tensors(self, x: Tree, requires_grad: bool = False) -> Any:
        torch = _torch()
        own = {"device": self.device, "dtype": self.dtype and getattr(torch, self.dtype)}
        return tree_map(lambda leaf: torch.tensor(leaf, requires_grad=requires_grad, **own), x)

    def _scalar(self, at: Any, rest: tuple[Any, ...]) -> Any:
        torch = _torch()
        try:
            value = self.cost(at, *rest)
        except (TypeError, ValueError, AttributeError, RuntimeError) as error:
            if library := self.other_library(error):
                raise self.written_with(library) from error
            if not isinstance(error, RuntimeError):
                raise
            if "requires grad" in str(error):
                raise self.explained(error) from error
            if "dtype" in str(error) or "scalar type" in str(error):
                own = sorted({str(leaf.dtype) for leaf in leaves(at)})
                raise ValueError(
                    f"the cost {getattr(self.cost, '__name__', 'function')} multiplies tensors of several dtypes, "
                    f"while the point has {' and '.join(own)}: convert the tensors of the cost, or pass "
                    "objective(dtype='float32')"
                ) from error
            raise
        self.check_library(value)
        if not isinstance(value, torch.Tensor):
            if isinstance(value, int | float):
                raise self.explained(f"it returned {type(value).__name__}, which torch cannot differentiate")
            raise self.returned(type(value).__name__)
        if value.is_complex():
            raise self.returned("a complex number")
        if value.numel() != 1:
            raise self.returned(f"a tensor of shape {tuple(value.shape)}", tuple(value.shape))
        if torch.is_grad_enabled() and not value.requires_grad:
            raise self.explained("its return value does not depend on the point")
        return value.reshape(())

    def _gradients(self, value: Any, at: Any, create_graph: bool = False) -> Any:
        return _torch().autograd.grad(value, list(leaves(at)), create_graph=create_graph, allow_unused=True)


def _arrays(gradients: Any, x: Tree) -> Tree:
    """Return tensors as arrays in the structure and dtype of the point; None, for an unused leaf, becomes zero."""
    rest = iter(gradients)

    def array(leaf: Any) -> Any:
        tensor = next(rest)
        return leaf * 0 if tensor is None else tensor.detach().cpu().numpy()

    return like(tree_map(array, x), x)


def _torch() -> Any:
    return import_module("torch")
