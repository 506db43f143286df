"""What the distribution registers."""

import manifoldseq as ms


@ms.hookimpl
def manifoldseq_solvers():
    yield ms.hooks.SolverSpec(
        "heavy-ball", "heavy_ball.solver:HeavyBall", summary="Gradients with momentum, line search"
    )
