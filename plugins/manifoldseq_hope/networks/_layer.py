"""A HOPE layer of a network in torch: a projection with orthonormal rows followed by rectified units."""

from numbers import Integral
from typing import Any, Self

import numpy as np

from manifoldseq.estimators import check_number, check_whole, quoted

from ..mixtures._dense import Dense, decomposed
from ._torch import check_input, load_torch, module_base


class HOPELayer(module_base()):  # pyright: ignore[reportUntypedBaseClass]
    """A layer ``eta = max(0, (x U') mu' + b)`` of two matrices; the first is a projection (Figure 1 (a)).

    The two matrices are learned separately, and `merged` combines them into an ordinary layer with weights ``w_k = U'
    mu_k`` (Figure 1 (b)). z is not scaled to unit length (footnote 4). Train U by `manifoldseq.torch.RiemannianSGD`, or
    add `penalty` to the loss.

    Parameters
    ----------
    n_features : int
        The number D of inputs.
    n_latent : int
        The number M of rows of U, at most D.
    n_units : int
        The number K of units.
    gamma : float
        Scale of the initial weights (41). U is the orthonormal factor of such a random matrix, and the bias is zero.
    orthonormal : bool
        If False, U is drawn by (41) without orthonormalization.

    Attributes
    ----------
    U : manifoldseq.torch.OrthonormalParameter of shape (M, D)
        U is a plain `torch.nn.Parameter` if `orthonormal` is False, or after `from_dense`.
    mu : torch.nn.Parameter of shape (K, M)
    bias : torch.nn.Parameter of shape (K,)

    Raises
    ------
    ValueError
        For an invalid size.
    ImportError
        If torch is not installed.

    References
    ----------
    Zhang, Jiang, equations (37)-(39), (41), section 5.1, Figure 1.

    Examples
    --------
    >>> import torch
    >>> from manifoldseq_hope import HOPELayer
    >>> layer, x = HOPELayer(30, 5, 100), torch.ones(2, 30)
    >>> layer(x).shape, layer.n_parameters(), layer.n_parameters(merged=True)
    (torch.Size([2, 100]), 750, 3100)
    >>> bool(torch.allclose(layer(x), torch.relu(layer.merged()(x)), atol=1e-5))
    True
    """

    def __init__(
        self, n_features: int, n_latent: int, n_units: int, *, gamma: float = 0.5, orthonormal: bool = True
    ) -> None:
        torch = load_torch()
        super().__init__()
        for name, value in (
            ("n_features", n_features),
            ("n_latent", n_latent),
            ("n_units", n_units),
        ):
            check_whole(name, value)
        check_number("gamma", gamma)
        if n_latent > n_features:
            raise ValueError(f"n_latent={n_latent} exceeds n_features={n_features}: lower n_latent")
        U = _uniform(torch, n_latent, n_features, gamma or 1.0 if orthonormal else gamma)
        self.U = torch.nn.Parameter(U)
        if orthonormal:
            from manifoldseq.torch import orthonormalize, qr_rows

            self.U.data = qr_rows(U)
            orthonormalize(self, "U")
        self.mu = torch.nn.Parameter(_uniform(torch, n_units, n_latent, gamma))
        self.bias = torch.nn.Parameter(torch.zeros(n_units))

    @classmethod
    def from_linear(cls, W: Any, b: Any = None, n_latent: int | None = None) -> Self:
        """Decompose the weights of an ordinary layer by its leading singular vectors.

        Parameters
        ----------
        W : torch.nn.Linear, or array-like of shape (K, D)
        b : array-like of shape (K,), optional
            The bias; by default the bias of the layer, or zero.
        n_latent : int, optional
            The number M; by default the rank of W. If M is at least the rank, the layer computes the same function;
            otherwise it is the nearest layer of rank M.

        Returns
        -------
        HOPELayer

        Examples
        --------
        >>> import torch
        >>> from manifoldseq_hope import HOPELayer
        >>> linear, x = torch.nn.Linear(8, 20), torch.ones(1, 8)
        >>> layer = HOPELayer.from_linear(linear)
        >>> bool(torch.allclose(layer(x), torch.relu(linear(x)), atol=1e-5))
        True
        """
        torch = load_torch()
        if isinstance(b, Integral):
            raise ValueError(
                f"b={quoted(b)} is not a bias: pass the number of projections by name, n_latent={quoted(b)}"
            )
        if isinstance(W, torch.nn.Linear):
            b = W.bias if b is None else b
            W = W.weight
        return cls.from_dense(decomposed(_array(W), None if b is None else _array(b), n_latent))

    @classmethod
    def from_dense(cls, dense: Dense) -> Self:
        """Return the layer with the arrays of a `Dense` with a projection, in their dtype."""
        torch = load_torch()
        if dense.U is None:
            raise ValueError("the layer has no projection: use from_linear")
        layer = cls.__new__(cls)  # nothing is drawn
        torch.nn.Module.__init__(layer)
        for name, array in (("U", dense.U), ("mu", dense.weight), ("bias", dense.bias)):
            setattr(layer, name, torch.nn.Parameter(torch.tensor(array)))
        return layer

    def to_dense(self) -> Dense:
        """Return the parameters as arrays."""
        return Dense(_array(self.U), _array(self.mu), _array(self.bias))

    def forward(self, x: Any) -> Any:
        """Return eta (39) of rows x, (N, D) -> (N, K)."""
        torch = load_torch()
        check_input("rows", x, self.U)
        linear = torch.nn.functional.linear
        return torch.relu(linear(linear(x, self.U), self.mu, self.bias))

    def merged(self) -> Any:
        """Return the ordinary layer with weights ``w_k = U' mu_k``, a `torch.nn.Linear` (before its ReLU)."""
        torch = load_torch()
        with torch.no_grad():
            sizes = self.U.shape[1], len(self.mu)
            made = torch.nn.utils.skip_init(torch.nn.Linear, *sizes, dtype=self.U.dtype, device=self.U.device)
            made.weight.copy_(self.mu @ self.U)
            made.bias.copy_(self.bias)
        return made

    def penalty(self) -> Any:
        """Return D(U) (15) as a tensor. Autograd computes its derivative (18)."""
        torch = load_torch()
        # (15): the sum over i < j of |u_i' u_j| / (|u_i| |u_j|)
        unit = self.U / self.U.norm(dim=1, keepdim=True)
        return torch.triu(unit @ unit.T, 1).abs().sum()

    def orthonormality(self) -> float:
        """Return the largest entry of ``|U U' - I|``, summed in float64."""
        return self.to_dense().orthonormality()

    def n_parameters(self, merged: bool = False) -> int:
        """Return the number of parameters of the two parts, M (D + K) + K, or of the merged layer, K (D + 1)."""
        return self.to_dense().n_parameters(merged)

    def extra_repr(self) -> str:
        """Describe the sizes, as torch prints them."""
        return f"n_features={self.U.shape[1]}, n_latent={len(self.U)}, n_units={len(self.mu)}"


def _uniform(torch: Any, n_out: int, n_in: int, gamma: float) -> Any:
    """Return weights drawn by (41)."""
    most = gamma * (6 / (n_in + n_out)) ** 0.5
    return (2 * torch.rand(n_out, n_in) - 1) * most


def _array(values: Any) -> np.ndarray:
    """Return a copy in host memory of a tensor or an array-like."""
    torch = load_torch()
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    return np.array(values)
