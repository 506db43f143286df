from dataclasses import dataclass

import numpy as np

import manifoldseq as ms


@dataclass(frozen=True)
class Momentum(ms.solvers.Descent):
    """The negative gradient, and a share of the last step (Polyak 1964)."""

    share: float = 0.6

    def begin(self, problem, at):
        return {"last": np.zeros_like(at.grad), "step": problem.axis.filled(at.x, np.nan)}

    def query(self, problem, at, kept):
        d, dot = self.share * kept["last"] - at.grad, ms.solvers.inner_product(problem, at.x)
        return ms.solvers.Direction(d, dot(at.grad, d), dot(d, d) ** 0.5, first=kept["step"], plain=False)

    def simpler(self, problem, at, kept):
        return self.begin(problem, at), np.any(kept["last"] != 0, axis=-1)

    def learn(self, problem, at, new, went, t, kept):
        manifold, axis = problem.manifold, problem.axis
        last = axis.flatten(manifold.transport(at.x, new.x, axis.tree(manifold.shape)(went.vector)))
        dot, change = ms.solvers.inner_product(problem, new.x), new.grad - at.grad
        curvature = dot(last, change) / dot(last, last) / t
        return {"last": last, "step": 1.2 * t}, curvature


@dataclass(frozen=True)
class HeavyBall(ms.solvers.LineSearch):
    descent = Momentum()
    search = ms.solvers.Armijo()
