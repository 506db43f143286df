"""What the distribution registers."""

import manifoldseq as ms


@ms.hookimpl
def manifoldseq_solvers():
    yield ms.hooks.SolverSpec(
        "newton-line", "newton_line.solver:TruncatedNewton", summary="Truncated Newton directions, line search"
    )
