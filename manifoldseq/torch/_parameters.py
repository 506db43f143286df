"""Parameters with orthonormal rows (or columns, where these are fewer), of any shape."""

from importlib import import_module
from typing import Any

from ._retractions import RETRACTIONS, polar_rows

torch: Any = import_module("torch")

_NEAR = 1e-5
"""Entries of W W' - I up to this are left: a copy of a parameter is the same to the last bit."""


class OrthonormalParameter(torch.nn.Parameter):  # pyright: ignore[reportUntypedBaseClass]
    """A parameter that is orthonormal: a matrix of shape[0] rows, orthonormal, or its columns where these are fewer.

    A kernel of a convolution, (out, in, height, width), is the matrix (out, in * height * width). It is an ordinary
    `torch.nn.Parameter` of a module otherwise: in its `state_dict` under its own name, moved by ``to(device)``, cast
    by autocast in products while it stays as it is. `RiemannianSGD` and `RiemannianAdam` keep it orthonormal,
    optimizers of torch with `keep_orthonormal`.

    Parameters
    ----------
    data : torch.Tensor
        float32 or float64, of two or more dimensions; the nearest orthonormal tensor is taken.
    requires_grad : bool

    Raises
    ------
    ValueError
        For another dtype (keep parameters in float32 and use autocast), a vector, or NaN.

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
        if data.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"a parameter of {data.dtype} cannot be orthonormal to 1e-6: keep it in float32, and use torch.autocast"
            )
        if data.ndim < 2 or 0 in data.shape:
            raise ValueError(f"a parameter of shape {tuple(data.shape)} is no matrix: pass two dimensions or more")
        with torch.no_grad():
            data = data.detach()
            gap = orthonormality(data)
            if gap != gap:
                raise ValueError(f"a parameter of shape {tuple(data.shape)} has NaN or infinity: pass finite numbers")
            if gap > _NEAR:
                data = restored(polar_rows(rows_of(data)), data)
        return torch.Tensor._make_subclass(cls, data, requires_grad)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Keep the class in copies by pickle."""
        return OrthonormalParameter, (self.data, self.requires_grad)

    def __repr__(self) -> str:
        """Say what it is."""
        return f"Orthonormal{super().__repr__()}"


def orthonormalize(module: Any, name: str = "weight") -> Any:
    """Make a parameter of a module orthonormal, at the nearest orthonormal tensor, and return the module.

    It replaces `torch.nn.utils.parametrizations.orthogonal`: nothing is computed in a forward pass, and the name in
    the `state_dict` stays. Train the parameter with `RiemannianSGD`, `RiemannianAdam`, or `keep_orthonormal`.

    Parameters
    ----------
    module : torch.nn.Module
    name : str

    Raises
    ------
    ValueError
        If the module has no such parameter, or as `OrthonormalParameter` does.

    Examples
    --------
    >>> import torch
    >>> from manifoldseq.torch import orthonormality, orthonormalize
    >>> convolution = orthonormalize(torch.nn.Conv2d(8, 16, 3))
    >>> convolution.weight.shape, orthonormality(convolution.weight) < 1e-6
    (torch.Size([16, 8, 3, 3]), True)
    """
    own = dict(module.named_parameters(recurse=False))
    if name not in own:
        has = ", ".join(own) or "none"
        raise ValueError(f"{type(module).__name__} has no parameter {name!r} of its own (it has: {has})")
    setattr(module, name, OrthonormalParameter(own[name], own[name].requires_grad))
    return module


def keep_orthonormal(optimizer: Any, retraction: str = "polar") -> Any:
    """Return an optimizer of torch after whose steps every `OrthonormalParameter` is orthonormal again.

    The step itself is that of flat space: `RiemannianSGD` and `RiemannianAdam` move along the manifold.

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
    if retraction not in RETRACTIONS:
        raise ValueError(f"retraction={retraction!r} is not known: choose {' or '.join(map(repr, RETRACTIONS))}")

    def back(optimizer: Any, *_: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if isinstance(p, OrthonormalParameter):
                        with torch.autocast(p.device.type, enabled=False):
                            p.copy_(restored(RETRACTIONS[retraction](rows_of(p.detach())), p))

    optimizer.register_step_post_hook(back)
    return optimizer


def orthonormality(W: Any) -> float:
    """Return the largest entry of ``|W W' - I|``, of the shorter side, computed in float64; NaN if W is not finite.

    Examples
    --------
    >>> import torch
    >>> from manifoldseq.torch import orthonormality
    >>> orthonormality(2 * torch.eye(3)[:2])
    3.0
    """
    with torch.no_grad(), torch.autocast(W.device.type, enabled=False):
        rows = rows_of(W.detach()).double()
        gap = rows @ rows.T
        gap.diagonal().sub_(1)
        return float(gap.abs().max()) if bool(torch.isfinite(gap).all()) else float("nan")


def rows_of(W: Any) -> Any:
    """Return a tensor as a matrix with no more rows than columns: a view where it can be."""
    matrix = W.reshape(W.shape[0], -1)
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T


def restored(rows: Any, like: Any) -> Any:
    """Return what `rows_of` made of a tensor in its shape."""
    return (rows if rows.shape[0] == like.shape[0] else rows.T).reshape(like.shape)
