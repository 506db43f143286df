"""geoopt in the race, tuned: every optimizer that it has for full gradients, over learning rates, within a budget."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import geoopt
import numpy as np
import torch
from numpy.typing import NDArray

from manifoldseq.manifolds import BoundedDiagonal

from ._measure import Ended, Oracle, Outcome, factors, like, parts
from ._problems import Case
from ._pymanopt import Squashed

Array = NDArray[Any]

SGD_RATES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01)  # of the norm of the start over that of its gradient
ADAM_RATES = (0.1, 0.03, 0.01, 0.003, 0.001)
MOMENTA = (0.0, 0.9)
DIRECTIONS = ("steepest", "fr", "pr")
SEARCHES = ("armijo", "wolfe")

Make = Callable[[list[Any]], Any]


def candidates(case: Case) -> Iterator[tuple[str, Make]]:
    """Yield every setting that is tried, with a name: 12 of RiemannianSGD, 5 of RiemannianAdam, 6 line searches."""
    egrad = parts(case.gradient(case.start))
    unit = sum(map(np.vdot, parts(case.start), parts(case.start))) ** 0.5 / sum(map(np.vdot, egrad, egrad)) ** 0.5
    for momentum in MOMENTA:
        for rate in SGD_RATES:
            lr = float(rate * unit)
            yield (
                f"SGD lr={lr:.2g} momentum={momentum}",
                lambda p, lr=lr, m=momentum: geoopt.optim.RiemannianSGD(p, lr=lr, momentum=m),
            )
    for lr in ADAM_RATES:
        yield f"Adam lr={lr}", lambda p, lr=lr: geoopt.optim.RiemannianAdam(p, lr=lr)
    for search in SEARCHES:
        for direction in DIRECTIONS:
            yield (
                f"line search {search}, {direction}",
                lambda p, s=search, d=direction: geoopt.optim.RiemannianLineSearch(
                    p, line_search_method=s, cg_method=d, transport_grad=d == "pr"
                ),
            )


def tuned(case: Case, trial: float) -> str:
    """Return the setting that reaches the tolerance soonest, or the smallest gradient, in trials of CPU seconds."""
    results = [(name, run(case, trial, name)) for name, _ in candidates(case)]
    return min(results, key=lambda r: (not r[1].solved, r[1].seconds if r[1].solved else r[1].relative))[0]


class _Fused(torch.autograd.Function):
    """The same numpy oracle as everybody's, so that differentiation costs geoopt nothing."""

    @staticmethod
    def forward(ctx: Any, both: Any, *z: torch.Tensor) -> torch.Tensor:
        value, ctx.gradient = both([part.detach().numpy() for part in z])
        return torch.tensor(value, dtype=torch.float64)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> Any:
        return None, *(upstream * torch.from_numpy(g) for g in ctx.gradient)


def run(case: Case, limit: float, setting: str) -> Outcome:
    """Run one setting; bounded factors are behind tanh, since geoopt has no box, and Grassmann is its Stiefel."""
    make = dict(candidates(case))[setting]
    chart, manifold = Squashed(case.manifold), geoopt.EuclideanStiefel()
    parameters: list[Any] = []
    for factor, z in zip(factors(case.manifold), chart.out(case.start), strict=True):
        tensor = torch.tensor(z, dtype=torch.float64)
        free = isinstance(factor, BoundedDiagonal)
        parameters.append(torch.nn.Parameter(tensor) if free else geoopt.ManifoldParameter(tensor, manifold=manifold))
    oracle = Oracle(case, limit)

    def both(z: list[Array]) -> tuple[float, list[Array]]:
        x = chart.back(z)
        value, egrad = oracle.fused(like(case.start, x))
        return value, [np.array(g) for g in chart.gradient(x, egrad)]

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            optimizer = make(parameters)

            def closure(*_: Any) -> torch.Tensor:
                optimizer.zero_grad()
                loss = _Fused.apply(both, *parameters)
                loss.backward()
                return loss

            while True:
                before = oracle.gradients
                optimizer.step(closure)
                if oracle.gradients == before or not all(bool(torch.isfinite(p).all()) for p in parameters):
                    break
    except (Ended, RuntimeError, ValueError, np.linalg.LinAlgError):  # a setting that diverges is one that lost
        pass
    return oracle.outcome(setting)
