"""The records of this package; targets are strings, so that listing the records does not import jax.

The modules, in which each module uses the modules below it:

* `_solver`: the solvers of `ms.minimize` and `ms.minimize_batch`
* `_pure`: `minimize`, a pure function with derivatives
* `_run`: one loop with its stopping rule; `_methods`: one pass of the loop; `_trust_region`: a pass of trust regions
* `_ahead`: the curvature ahead of a point, and the exit from a saddle
* `_rules`: stopping rules in jax; `_hessian`: evaluations and Hessian products
* `_geometry`: manifolds in jax; `_small_matrices`: their products and polar factors
"""

from collections.abc import Iterator

import manifoldseq as ms
from manifoldseq import hooks


@ms.hookimpl
def manifoldseq_solvers() -> Iterator[hooks.SolverSpec]:
    """Solvers whose loop is compiled, for objectives of jax."""
    for name, factory, summary in (
        ("lbfgs", "lbfgs", "Limited-memory BFGS"),
        ("bb", "bb", "Barzilai-Borwein steps with a nonmonotone search"),
        ("tr", "tr", "Trust regions with truncated conjugate gradients and exact Hessian-vector products"),
    ):
        yield hooks.SolverSpec(
            f"jax:{name}",
            f"manifoldseq_jax._solver:{factory}",
            needs=("traced",),
            summary=f'{summary} in one compiled loop, for ms.objective(…, backend="jax")',
        )
