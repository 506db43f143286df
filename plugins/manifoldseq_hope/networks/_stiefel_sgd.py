"""Stochastic gradient steps that keep the rows of a projection orthonormal, in torch."""

from collections.abc import Callable, Iterable
from typing import Any

from manifoldseq.estimators import check_choice, check_number

from ._retractions import RETRACTIONS
from ._torch import load_torch, optimizer_base

# A trick of speed: with a retraction in every step an epoch on MNIST at lr=0.001 takes 1.07, 1.17 and 2.07 times as
# long with 50, 200 and 400 rows, at lr=0.05 as long (`python -m benchmarks.tricks skip`).
_SLACK = 8
"""How many roundings rows may be from orthonormal before a step makes them so again: below 1e-6 in float32."""


class StiefelSGD(optimizer_base()):  # pyright: ignore[reportUntypedBaseClass]
    """Stochastic gradient descent with momentum for matrices with orthonormal rows; an optimizer of torch.

    A step moves along ``V <- P(m V + G)`` to ``R(U - rate V)``: P projects on the tangent space at U, so that momentum
    stays tangent, R goes back to orthonormal rows. It costs two products more than the retraction, which is left out
    while steps are so short that rows stay orthonormal to rounding.

    Parameters
    ----------
    params : iterable of torch.nn.Parameter of shape (M, D)
        With M <= D and orthonormal rows.
    lr : float
        Rate.
    momentum : float
    retraction : {"polar", "qr"}
        Both keep float32 rows orthonormal to 2e-6 (largest entry of U U' - I).

    Raises
    ------
    ValueError
        For an invalid setting, or a matrix without orthonormal rows.

    References
    ----------
    Zhang, Jiang, equation (13), kept exactly instead of by the penalty (15); Absil, Mahony, Sepulchre, 2008.

    Examples
    --------
    The leading eigenvectors of a matrix:

    >>> import torch
    >>> from manifoldseq_hope import StiefelSGD
    >>> S = torch.diag(torch.arange(5.0))
    >>> U = torch.nn.Parameter(torch.linalg.qr(torch.ones(5, 1) + torch.eye(5)[:, :2])[0].T.contiguous())
    >>> optimizer = StiefelSGD([U], lr=0.05, momentum=0.5)
    >>> for _ in range(200):
    ...     loss = -torch.trace(U @ S @ U.T)
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    >>> round(float(loss.detach()), 4)
    -7.0
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 0.1, momentum: float = 0.0, retraction: str = "polar"
    ) -> None:
        torch = load_torch()
        check_number("lr", lr)
        check_number("momentum", momentum, 0.0, 1.0)
        check_choice("retraction", retraction, tuple(RETRACTIONS))
        super().__init__(params, {"lr": lr, "momentum": momentum, "retraction": retraction})
        for group in self.param_groups:
            for U in group["params"]:
                if U.ndim != 2 or U.shape[0] > U.shape[1]:
                    raise ValueError(f"a parameter has shape {tuple(U.shape)}: pass matrices (M, D) with M <= D")
                gap = float((U.detach() @ U.detach().T - torch.eye(len(U), dtype=U.dtype, device=U.device)).abs().max())
                if not gap < 1e-3:
                    raise ValueError(
                        f"the rows of a parameter of shape {tuple(U.shape)} are not orthonormal (error {gap:.1g}): "
                        "begin for example with torch.nn.init.orthogonal_"
                    )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; `closure`, if given, computes the loss and its gradients anew, and the loss is returned."""
        torch = load_torch()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                retract = RETRACTIONS[group["retraction"]]
                for U in group["params"]:
                    if U.grad is not None:
                        self._move(U, float(group["lr"]), float(group["momentum"]), retract)
        return loss

    def _move(self, U: Any, rate: float, momentum: float, retract: Callable[[Any], Any]) -> None:
        torch, state = load_torch(), self.state[U]
        V = state.get("momentum_buffer")
        V = U.grad.clone() if V is None else V.mul_(momentum).add_(U.grad)
        # P(V) = V - (V U' + U V') U / 2, the tangent space at orthonormal rows
        S = V @ U.T
        V.addmm_(S + S.T, U.detach(), alpha=-0.5)
        Y, eps = U.detach().add(V, alpha=-rate), torch.finfo(U.dtype).eps
        longest = rate * float(torch.linalg.vector_norm(V, dim=1).max())
        gap = state.get("gap", float("inf")) + longest**2 + eps / 2  # bounds the entries of Y Y' - I: V U' is skew
        if not gap <= _SLACK * eps:
            Y, gap = retract(Y), 0.0
        U.copy_(Y)
        state["momentum_buffer"], state["gap"] = V, gap
