from dataclasses import dataclass

import manifoldseq as ms


@dataclass(frozen=True)
class TruncatedNewton(ms.solvers.Solver):
    """Newton directions from conjugate gradients, and a line search (Nash 2000)."""

    max_products: int = 50

    def init(self, problem, point):
        at = ms.solvers.evaluate(problem, point)
        return at.state(), at.measures(problem.manifold)

    def step(self, problem, state):
        at, dot = ms.solvers.Iterate.of(state), ms.solvers.inner_product(problem, state["x"])
        if ms.solvers.stationary(at):
            return ms.solvers.leave_saddle(problem, state, at, None, lambda new: new.state())
        direction = self.direction(at, ms.solvers.hessian_product(problem, at)[0], dot)
        found = ms.solvers.armijo(ms.solvers.Line(problem, at, direction))
        if found is None:
            return state, at.measures(problem.manifold, status=ms.Status.NO_DECREASE)
        new, step = found
        return new.state(), new.measures(problem.manifold, step * dot(direction, direction) ** 0.5)

    def direction(self, at, product, dot):
        """Solve H d = -g until the residual is a quarter of the first, or the curvature is not positive."""
        d, r, p, first = 0 * at.grad, -at.grad, -at.grad, at.grad_norm**2
        square = first
        for _ in range(self.max_products):
            hp = product(p)
            curvature = dot(p, hp)
            if not curvature > 0:
                return d if d.any() else -at.grad
            d, r = d + square / curvature * p, r - square / curvature * hp
            last, square = square, dot(r, r)
            if square <= min(0.25, at.grad_norm) ** 2 * first:
                break
            p = r + square / last * p
        return d
