"""Optimizers of torch for orthonormal and other parameters."""

import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from ..estimators import check_choice, check_number, check_positive
from ._parameters import FAR, OrthonormalParameter, check_tensor, orthonormality, restored, rows_of, uncompiled
from ._retractions import RETRACTIONS

torch: Any = import_module("torch")

# A trick of speed: with a retraction in every step an epoch on MNIST at lr=0.001 takes 1.07, 1.17 and 2.07 times as
# long with 50, 200 and 400 rows, at lr=0.05 as long (`python -m benchmarks.tricks skip`).
_SLACK = 8
"""Deviation of rows from orthonormality, in units of rounding, above which a step retracts: below 1e-6 in float32."""


class _Riemannian(torch.optim.Optimizer):  # pyright: ignore[reportUntypedBaseClass]
    """Base class of both optimizers: the selection of orthonormal parameters, and the retraction."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self._seen: dict[Any, tuple[Any, ...]] = {}  # what parameters were after their last step
        super().__init__(params, {**defaults, "orthonormal": None})
        self._uncompiled = uncompiled(self._step)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own settings, which are validated like those of the constructor."""
        super().add_param_group(param_group)
        try:
            _check_group(self.param_groups[-1])
        except ValueError:
            self.param_groups.pop()
            raise

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a saved state, also of an optimizer of torch; every parameter is checked before its next step."""
        super().__setstate__(state)
        self._seen = {}
        self._uncompiled = uncompiled(self._step)
        for group in self.param_groups:
            group.update({name: value for name, value in self.defaults.items() if name not in group})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; `closure`, if given, computes the loss and its gradients anew, and the loss is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._uncompiled()
        return loss

    def _step(self) -> None:
        with torch.no_grad():
            for group in self.param_groups:
                moved = [p for p in group["params"] if p.grad is not None]
                if moved:
                    with torch.autocast(moved[0].device.type, enabled=False):
                        for p in moved:
                            if _kept(group, p):
                                self._notice_changes(p, self.state[p])
                                self._move(group, p, self.state[p])
                                self._seen[p] = _identity(p)
                            else:
                                self._move_freely(group, p, self.state[p])

    def _notice_changes(self, p: Any, state: dict[str, Any]) -> None:
        """Check a parameter that was changed from outside, for example by a file, because `gap` is then outdated.

        If it is equally orthonormal, `gap` stays, so that training continues bit-identically from a file.
        """
        if self._seen.get(p) == _identity(p):
            return
        check_tensor(p)
        gap, before = orthonormality(p), state.get("gap", float("inf"))
        if gap > FAR:
            warnings.warn(
                f"a parameter of shape {tuple(p.shape)} was changed and is not orthonormal (error {gap:.1g}): it is "
                "replaced by the nearest orthonormal tensor",
                stacklevel=6,  # the caller of `step`
            )
            p.copy_(restored(RETRACTIONS["polar"](rows_of(p.detach())), p))
        if not gap <= before + 2 * _SLACK * torch.finfo(p.dtype).eps:
            state["gap"] = float("inf")

    def _move(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        raise NotImplementedError

    def _move_freely(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        raise NotImplementedError


class RiemannianSGD(_Riemannian):
    """Stochastic gradient descent with momentum, along the manifold for orthonormal parameters.

    For an `OrthonormalParameter` a step moves along ``V <- P(m V + G)`` to ``R(W - lr V)``: P projects onto the tangent
    space at W, so that momentum stays tangent, and R is the retraction to orthonormal rows. A step costs two products
    in addition to the retraction. The retraction is skipped if a step is so short that the rows stay orthonormal up to
    rounding errors. Other parameters take the steps of `torch.optim.SGD`.

    Parameters
    ----------
    params : iterable of torch.nn.Parameter, or of dict
        Groups may have ``orthonormal=True`` or ``False``, which overrides the type of their parameters.
    lr : float, or torch.Tensor of one number
    momentum : float
        Below 1.
    weight_decay : float
        Weight decay of other parameters. Orthonormal parameters have none.
    retraction : {"polar", "qr"}
        Both retractions keep float32 parameters orthonormal up to 2e-6 (largest entry of ``W W' - I``).

    Raises
    ------
    ValueError
        If a setting, also of a group, is invalid, or if a parameter that should be orthonormal is not or is in half
        precision.

    References
    ----------
    Absil, Mahony, Sepulchre, Optimization algorithms on matrix manifolds, 2008.

    Examples
    --------
    The leading eigenvectors of a matrix:

    >>> import torch
    >>> from manifoldseq.torch import OrthonormalParameter, RiemannianSGD
    >>> S = torch.diag(torch.arange(5.0))
    >>> U = OrthonormalParameter(torch.ones(2, 5) + torch.eye(5)[:2])
    >>> optimizer = RiemannianSGD([U], lr=0.05, momentum=0.5)
    >>> for _ in range(200):
    ...     loss = -torch.trace(U @ S @ U.T)
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    >>> round(float(loss.detach()), 4)
    -7.0
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.1,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        retraction: str = "polar",
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "retraction": retraction}
        super().__init__(params, defaults)

    def _move(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        U, G, V = rows_of(p.detach()), rows_of(_dense(p.grad)), state.get("momentum_buffer")
        V = G.clone() if V is None else rows_of(V).to(G.dtype).mul_(float(group["momentum"])).add_(G)
        V = _tangent(U, V)
        _go(p, U, V, float(group["lr"]), state, group["retraction"])
        state["momentum_buffer"] = restored(V, p)

    def _move_freely(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        G, V = p.grad, state.get("momentum_buffer")
        if group["weight_decay"]:
            G = G.add(p, alpha=float(group["weight_decay"]))
        V = G.clone() if V is None else V.mul_(float(group["momentum"])).add_(G)
        p.add_(V, alpha=-float(group["lr"]))
        state["momentum_buffer"] = V


class RiemannianAdam(_Riemannian):
    """Adam, along the manifold for orthonormal parameters.

    An `OrthonormalParameter` has a single second moment, the running mean of the squares of its Riemannian gradient. A
    step is therefore parallel to the running mean of the gradient, which is a tangent vector, and does not depend on
    the coordinates. The mean is transported to the tangent space of the next point. Other parameters take the steps of
    `torch.optim.Adam`.

    Parameters
    ----------
    params : iterable of torch.nn.Parameter, or of dict
        As for `RiemannianSGD`.
    lr : float, or torch.Tensor of one number
    betas : (float, float)
        Below 1.
    eps : float
    weight_decay : float
        Weight decay of other parameters, added to their gradients.
    retraction : {"polar", "qr"}

    References
    ----------
    Bécigneul, Ganea, Riemannian adaptive optimization methods, ICLR 2019.

    Examples
    --------
    >>> import torch
    >>> from manifoldseq.torch import RiemannianAdam, orthonormality, orthonormalize
    >>> layer = orthonormalize(torch.nn.Linear(6, 3))
    >>> optimizer = RiemannianAdam(layer.parameters(), lr=0.05)
    >>> x, target = torch.eye(6), torch.eye(6)[:, :3]
    >>> for _ in range(300):
    ...     loss = (layer(x) - target).square().sum()
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    >>> float(loss.detach()) < 0.01, orthonormality(layer.weight) < 1e-5
    (True, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        retraction: str = "polar",
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "retraction": retraction}
        super().__init__(params, defaults)

    def _move(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        U = rows_of(p.detach())
        G = _tangent(U, rows_of(_dense(p.grad)).clone())
        first, second = group["betas"]
        if "step" not in state:
            state |= {"step": 0, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros((), device=G.device)}
        state["step"] += 1
        mean = _tangent(U, rows_of(state["exp_avg"]).to(G.dtype).mul_(first).add_(G, alpha=1 - first))
        square = state["exp_avg_sq"].mean()  # a parameter that was free until now has one for every entry
        square = square.mul_(second).add_(G.square().mean(), alpha=1 - second)
        state |= {"exp_avg": restored(mean, p), "exp_avg_sq": square}
        scale = float((square / (1 - second ** state["step"])).sqrt()) + group["eps"]
        _go(p, U, mean, float(group["lr"]) / (1 - first ** state["step"]) / scale, state, group["retraction"])

    def _move_freely(self, group: dict[str, Any], p: Any, state: dict[str, Any]) -> None:
        G, (first, second) = _dense(p.grad), group["betas"]
        if group["weight_decay"]:
            G = G.add(p, alpha=float(group["weight_decay"]))
        if "step" not in state:
            state |= {"step": 0, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        state["step"] += 1
        mean = state["exp_avg"].lerp_(G, 1 - first)
        square = state["exp_avg_sq"].mul_(second).addcmul_(G, G, value=1 - second)
        root = (square / (1 - second ** state["step"])).sqrt_().add_(group["eps"])
        p.addcdiv_(mean, root, value=-float(group["lr"]) / (1 - first ** state["step"]))


def _check_betas(name: str, betas: Any) -> None:
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise ValueError(f"{name}={betas!r} is not valid: pass two numbers, such as (0.9, 0.999)")
    for beta in betas:
        _check_fraction(name, beta)


def _check_fraction(name: str, value: Any) -> None:
    check_number(name, value, 0.0, 1.0)
    if value == 1:
        raise ValueError(f"{name}={value!r} is not valid: pass a decay rate below 1")


_SETTINGS: dict[str, Callable[[str, Any], None]] = {
    "lr": check_number,
    "momentum": _check_fraction,
    "betas": _check_betas,
    "eps": check_positive,
    "weight_decay": check_number,
    "retraction": lambda name, value: check_choice(name, value, tuple(RETRACTIONS)),
    "orthonormal": lambda name, value: check_choice(name, value, (None, True, False)),
}


def _check_group(group: dict[str, Any]) -> None:
    """Raise ValueError unless settings of a group are valid, and those of its parameters orthonormal that should be."""
    for name in filter(group.__contains__, _SETTINGS):
        value = group[name]
        # torch takes a learning rate in a tensor of one number, and schedules change it there
        _SETTINGS[name](name, value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value)
    for p in filter(lambda p: _kept(group, p), group["params"]):
        check_tensor(p)
        gap = orthonormality(p)
        if not gap < FAR:
            raise ValueError(
                f"a parameter of shape {tuple(p.shape)} is not orthonormal (error {gap:.1g}): create the "
                "parameter with OrthonormalParameter, orthonormalize or torch.nn.init.orthogonal_"
            )


def _kept(group: dict[str, Any], p: Any) -> bool:
    """Return whether a parameter is kept orthonormal."""
    return isinstance(p, OrthonormalParameter) if group["orthonormal"] is None else bool(group["orthonormal"])


def _dense(G: Any) -> Any:
    """Return a gradient; ValueError if it is sparse."""
    if G.layout != torch.strided:
        raise ValueError(
            f"a parameter of shape {tuple(G.shape)} has a sparse gradient: create the embedding with sparse=False, or "
            "train it with keep_orthonormal(torch.optim.SparseAdam(...))"
        )
    return G


def _identity(p: Any) -> tuple[Any, ...]:
    """Return an identity that changes with a parameter: torch's count of in-place changes, and the address."""
    return p._version, p.data_ptr(), p.dtype


def _tangent(U: Any, V: Any) -> Any:
    """Project V in place on the tangent space at orthonormal rows: V - (V U' + U V') U / 2."""
    S = V @ U.T
    return V.addmm_(S + S.T, U, alpha=-0.5)


def _go(p: Any, U: Any, V: Any, rate: float, state: dict[str, Any], retraction: str) -> None:
    """Move a parameter with rows U to the retraction of U - rate V."""
    Y, eps = U.add(V, alpha=-rate), torch.finfo(U.dtype).eps
    longest = rate * float(torch.linalg.vector_norm(V, dim=1).max())
    gap = state.get("gap", float("inf")) + longest**2 + eps / 2  # bounds the entries of Y Y' - I: V U' is skew
    if not gap <= _SLACK * eps:
        Y, gap = RETRACTIONS[retraction](Y), 0.0
    p.copy_(restored(Y, p))
    state["gap"] = gap
