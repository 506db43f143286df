"""Parameters with orthonormal rows (or columns, where these are fewer), of any shape."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..estimators import check_choice
from ._retractions import RETRACTIONS, polar_rows

torch: Any = import_module("torch")

_DTYPES = (torch.float32, torch.float64)
_NEAR = 1e-5
"""Entries of W W' - I up to this value are not corrected, so that copies of a parameter are bit-identical."""
FAR = 1e-3
"""Entries of W W' - I above this value exceed rounding, so that a tensor is not orthonormal."""


class OrthonormalParameter(torch.nn.Parameter):  # pyright: ignore[reportUntypedBaseClass]
    """An orthonormal parameter: a matrix of shape[0] orthonormal rows, or of orthonormal columns if these are fewer.

    A kernel of a convolution, (out, in, height, width), is the matrix (out, in * height * width). In all other respects
    it is an ordinary `torch.nn.Parameter` of a module: it is in the `state_dict` under its own name, ``to(device)``
    moves it, and autocast casts it in products without changing it. `RiemannianSGD`, `RiemannianAdam` and torch
    optimizers with `keep_orthonormal` keep it orthonormal. For a parameter of a module use `orthonormalize`, which also
    handles ``load_state_dict``.

    Parameters
    ----------
    data : torch.Tensor
        float32 or float64, of two or more dimensions; it is replaced by the nearest orthonormal tensor.
    requires_grad : bool

    Raises
    ------
    ValueError
        If the tensor has another dtype (keep parameters in float32 and use autocast), is a vector, contains NaN, or has
        no values.

    Examples
    --------
    >>> import torch
    >>> from manifoldseq.torch import OrthonormalParameter
    >>> W = OrthonormalParameter(torch.arange(12.0).reshape(4, 3) % 5)
    >>> bool(torch.allclose(W.T @ W, torch.eye(3), atol=1e-6))
    True
    """

    def __new__(cls, data: Any, requires_grad: bool = True) -> Any:
        """Return the parameter."""
        return torch.Tensor._make_subclass(cls, _nearest(data), requires_grad)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Keep the class in copies by pickle."""
        return OrthonormalParameter, (self.data, self.requires_grad)

    def __repr__(self) -> str:
        """Return the representation with the type."""
        return f"Orthonormal{super().__repr__()}"


def orthonormalize(module: Any, name: str = "weight") -> Any:
    """Make a parameter of a module orthonormal, at the nearest orthonormal tensor, and return the module.

    It replaces `torch.nn.utils.parametrizations.orthogonal`: a forward pass needs no additional computation, and the
    name in the `state_dict` does not change. Train the parameter with `RiemannianSGD`, `RiemannianAdam`, or
    `keep_orthonormal`. The parameter object is the same as before, so that existing optimizers continue with it. A
    tensor from ``load_state_dict`` is replaced by the nearest orthonormal tensor, with a warning if it is far from
    orthonormal.

    Parameters
    ----------
    module : torch.nn.Module
    name : str

    Raises
    ------
    ValueError
        If the module has no such parameter, or for the reasons of `OrthonormalParameter`.

    Examples
    --------
    >>> import torch
    >>> from manifoldseq.torch import orthonormality, orthonormalize
    >>> convolution = orthonormalize(torch.nn.Conv2d(8, 16, 3))
    >>> convolution.weight.shape, orthonormality(convolution.weight) < 1e-6
    (torch.Size([16, 8, 3, 3]), True)
    """
    own = _own_parameters(module)
    if name not in own:
        kind, has = type(module).__name__, ", ".join(own) or "none"
        if torch.nn.utils.parametrize.is_parametrized(module, name):
            raise ValueError(
                f"{name!r} of {kind} is computed by a parametrization: call "
                f"torch.nn.utils.parametrize.remove_parametrizations(layer, {name!r}) first"
            )
        raise ValueError(f"{kind} has no parameter {name!r} of its own (it has: {has})")
    p = own[name]
    if type(p) is torch.nn.Parameter:  # in place, as torch does where lazy parameters get their shape
        p.data = _nearest(p)
        p.__class__ = OrthonormalParameter
    elif not isinstance(p, OrthonormalParameter):
        setattr(module, name, OrthonormalParameter(p, p.requires_grad))
    module.register_load_state_dict_pre_hook(_Loading(name))
    return module


@dataclass(frozen=True)
class _Loading:
    """Hook of a module before `load_state_dict`: what is loaded into an `OrthonormalParameter` is orthonormal.

    A class, and not a function inside another, so that modules with it can be pickled.
    """

    name: str

    def __call__(self, module: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        key, own = prefix + self.name, _own_parameters(module).get(self.name)
        new: Any = state_dict.get(key)
        if not isinstance(own, OrthonormalParameter) or not isinstance(new, torch.Tensor) or new.shape != own.shape:
            return  # free by now, or an error that torch reports
        new = new.detach()
        if not new.is_meta and own.dtype in _DTYPES:
            new = new if new.dtype in _DTYPES else new.to(own.dtype)
            gap = orthonormality(new)
            if gap != gap:
                raise ValueError(f"the tensor loaded as {key!r} has NaN or infinity: the layer keeps its weight")
            if gap > FAR:
                warnings.warn(
                    f"the tensor loaded as {key!r} is not orthonormal (error {gap:.1g}): it is replaced by the nearest "
                    "orthonormal tensor",
                    stacklevel=2,
                )
            new = _nearest(new)
        # of this class, so that it keeps it where torch takes the tensor itself (assign=True)
        state_dict[key] = torch.Tensor._make_subclass(OrthonormalParameter, new, own.requires_grad)


def keep_orthonormal(optimizer: Any, retraction: str = "polar") -> Any:
    """Return a torch optimizer that makes every `OrthonormalParameter` orthonormal again after each step.

    The step itself is the Euclidean step, whereas `RiemannianSGD` and `RiemannianAdam` move along the manifold.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
    retraction : {"polar", "qr"}

    Examples
    --------
    >>> import torch
    >>> from manifoldseq.torch import keep_orthonormal, orthonormality, orthonormalize
    >>> layer = orthonormalize(torch.nn.Linear(5, 3))
    >>> optimizer = keep_orthonormal(torch.optim.AdamW(layer.parameters(), lr=0.1))
    >>> layer(torch.ones(4, 5)).square().sum().backward()
    >>> optimizer.step()
    >>> orthonormality(layer.weight) < 1e-6
    True
    """
    check_choice("retraction", retraction, tuple(RETRACTIONS))

    @uncompiled
    def back(optimizer: Any, *_: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if isinstance(p, OrthonormalParameter):
                        check_tensor(p)
                        with torch.autocast(p.device.type, enabled=False):
                            p.copy_(restored(RETRACTIONS[retraction](rows_of(p.detach())), p))

    optimizer.register_step_post_hook(back)
    return optimizer


def orthonormality(W: Any) -> float:
    """Return the largest entry of ``|W W' - I|`` (tall W: ``|W' W - I|``) in float64; NaN if W is not finite.

    Raises
    ------
    ValueError
        If W is not a tensor of two or more dimensions, or is complex.

    Examples
    --------
    >>> import torch
    >>> from manifoldseq.torch import orthonormality
    >>> orthonormality(2 * torch.eye(3)[:2])
    3.0
    """
    if not isinstance(W, torch.Tensor):
        raise ValueError(f"W is of type {type(W).__name__}: pass a tensor, torch.as_tensor(W)")
    if W.ndim < 2 or W.is_complex():
        raise ValueError(f"W of shape {tuple(W.shape)}, {W.dtype}, is not a real matrix: pass two dimensions or more")
    with torch.no_grad(), torch.autocast(W.device.type, enabled=False):
        rows = rows_of(W.detach()).double()
        gap = rows @ rows.T
        gap.diagonal().sub_(1)
        return float(gap.abs().max()) if bool(torch.isfinite(gap).all()) else float("nan")


def check_tensor(data: Any) -> None:
    """Raise ValueError unless a parameter can be orthonormal: a matrix, or more, of numbers in enough precision."""
    if not isinstance(data, torch.Tensor):
        raise ValueError(f"a parameter of type {type(data).__name__} is not a tensor: pass torch.as_tensor(array)")
    if isinstance(data, torch.nn.parameter.UninitializedParameter):
        raise ValueError("a parameter of a lazy layer has no shape yet: call the network once on data first")
    if data.is_meta:
        raise ValueError(
            "a parameter on the device 'meta' has no values: call to_empty(device='cpu') and initialize it first"
        )
    if data.dtype not in _DTYPES:
        raise ValueError(
            f"a parameter of {data.dtype} cannot be orthonormal to 1e-6: keep it in float32 (net.float()), and use "
            "torch.autocast"
        )
    if data.ndim < 2 or 0 in data.shape:
        raise ValueError(f"a parameter of shape {tuple(data.shape)} is not a matrix: pass two dimensions or more")


def _nearest(data: Any) -> Any:
    """Return the nearest orthonormal tensor, or the tensor itself if it is orthonormal."""
    check_tensor(data)
    data = data.detach()
    gap = orthonormality(data)
    if gap != gap:
        raise ValueError(f"a parameter of shape {tuple(data.shape)} has NaN or infinity: pass finite numbers")
    if gap <= _NEAR:
        return data
    with torch.no_grad(), torch.autocast(data.device.type, enabled=False):
        return restored(polar_rows(rows_of(data)), data)


def _own_parameters(module: Any) -> dict[str, Any]:
    return dict(module.named_parameters(recurse=False))


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that `torch.compile` does not compile.

    In a compiled step of an optimizer, the compiler treats an `OrthonormalParameter` as a plain parameter: `isinstance`
    is False. The number of products in a retraction also depends on the values. Call this function when an optimizer is
    created, not when a module is imported, because it imports the compiler, as the optimizers of torch do.
    """
    return torch.compiler.disable(function)


def rows_of(W: Any) -> Any:
    """Return a tensor as a matrix with no more rows than columns: a view where it can be."""
    matrix = W.reshape(W.shape[0], -1)
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T


def restored(rows: Any, like: Any) -> Any:
    """Return the result of `rows_of` in the shape of the original tensor."""
    return (rows if rows.shape[0] == like.shape[0] else rows.T).reshape(like.shape)
