"""One atom of a dictionary of systems: model ``lds.atom``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms

from ..identification._identifier import LDSIdentifier, check_bound
from ..kernels._resolved import manifold_of, resolved_kernel
from ..systems._record import Systems, real_array
from ._common_problem import checked_weights, common_problem, items_on, own_weight, start_of
from ._mean import identified

Array = NDArray[np.floating[Any]]
Point = tuple[Array, ...]


def build(
    data: Any,
    *,
    beta: ArrayLike | None = None,
    codes: ArrayLike | None = None,
    atoms: Systems | None = None,
    atom: int = 0,
    kernel: Any = "projection",
    n_states: int | str | None = None,
    identifier: LDSIdentifier | None = None,
    bound: float = 0.99,
) -> ms.Problem:
    """Return the problem of one atom of a dictionary: the common problem (11), (12) with weights of any sign.

    The objective is ``sum_i beta_i k(S, S_i)``. The weights are either given or computed from codes and a dictionary as
    in (10): ``-z_ir / N`` for datum i and ``sum_i z_ir z_ij / N`` for another atom j. If k(S, S) is not constant, it
    has the weight ``sum_i z_ir^2 / (2 N)``, as (9) requires.

    Parameters
    ----------
    data : Systems or list of array-like of shape (T_i, d)
    beta : array-like of shape (N,), optional
        The weights of the data, by default ``-1 / N``.
    codes : array-like of shape (N, J), optional
        The codes z of the data, with `atoms`.
    atoms : Systems, optional
        The J atoms; required with `codes`.
    atom : int
        The number r of the atom to update.
    kernel, n_states, identifier, bound
        As in the model ``lds.mean``.

    Returns
    -------
    manifoldseq.Problem
        A problem on ``kernel.manifold(m, n, bound)`` with mini-batches and the initializers ``"current"`` (the atom
        itself, if there are atoms), ``"medoid"`` (the datum or other atom with the smallest objective) and
        ``"random"``. It has the block update ``"polar"`` of U if no weight is positive.

    Raises
    ------
    ValueError
        If codes, atoms and data do not fit.

    References
    ----------
    Huang et al., Efficient optimization for linear dynamical systems, NIPS 2017, equations (9)-(12).

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> from manifoldseq_lds import Systems
    >>> data = Systems(A=[[[0.5]], [[0.7]]], C=[[[1.0], [0.0]], [[0.6], [0.8]]])
    >>> problem = ms.get_model("lds.atom").problem(data, codes=[[1.0, 0.5], [0.5, 1.0]], atoms=data, atom=1)
    >>> result = ms.minimize(problem)
    >>> result.fun < problem.objective.value(problem.initializers["current"](problem, None))
    True
    """
    kernel = resolved_kernel(kernel)
    check_bound("bound", bound)
    systems = identified(data, n_states, identifier)
    if codes is None or atoms is None:
        if codes is not None or atoms is not None:
            raise ValueError("pass codes and atoms together, or weights: beta")
        N = len(systems)
        weights = np.full(N, -1 / max(N, 1)) if beta is None else checked_weights(beta, N)
        return common_problem(kernel, systems, weights, 0.0, bound)
    if beta is not None:
        raise ValueError("codes and atoms determine the weights: leave out beta")
    Z = _checked_codes(codes, systems, atoms, atom)
    manifold = manifold_of(kernel, systems.n_outputs, systems.n_states, bound)
    dictionary = items_on(manifold, atoms)
    others = np.arange(len(atoms)) != atom
    weights, own = atom_weights(Z, atom)
    if others.any():
        systems = Systems.concatenate([items_on(manifold, systems), dictionary[others]])
    problem = common_problem(kernel, systems, weights, own_weight(kernel, own), bound)
    current = _Current(dictionary, int(atom))
    return ms.Problem(problem.manifold, problem.objective, {"current": current, **problem.initializers})


def atom_weights(Z: Array, atom: int) -> tuple[Array, float]:
    """Return the weights of (10) for the N data and then the J - 1 other atoms, and the weight of k(S, S)."""
    N, J = Z.shape
    z = Z[:, atom]
    others = np.arange(J) != atom
    # (10), half of (9) in atom r: -1/N sum_i z_ir k(S, S_i) + 1/N sum_j (sum_i z_ir z_ij) k(S, D_j) + 1/(2N) sum_i
    # z_ir² k(S, S)
    return np.concatenate([-z / N, (z @ Z)[others] / N]), float(z @ z) / (2 * N)


def _checked_codes(codes: ArrayLike, systems: Systems, atoms: Systems, atom: int) -> Array:
    if not isinstance(atoms, Systems):
        raise ValueError(f"atoms are of type {type(atoms).__name__}: pass Systems")
    Z, size = real_array("codes", codes), (len(systems), len(atoms))
    if Z.shape != size or not np.isfinite(Z).all():
        raise ValueError(f"codes have shape {Z.shape}: pass finite numbers of shape (N, J) = {size}")
    if not 0 <= atom < len(atoms):
        raise ValueError(f"atom={atom} is not one of the {len(atoms)} atoms: pass a number from 0 to {len(atoms) - 1}")
    if (systems.n_outputs, systems.n_states) != (atoms.n_outputs, atoms.n_states):
        raise ValueError(
            f"data have {systems.n_outputs} outputs and {systems.n_states} states, but atoms have {atoms.n_outputs} "
            f"and {atoms.n_states}: pass systems of the same size"
        )
    return Z


@dataclass(frozen=True)
class _Current:
    """The initializer that starts from the current atom."""

    atoms: Systems
    atom: int

    def __call__(self, problem: ms.Problem, rng: Any) -> Point:
        return start_of(problem, self.atoms, self.atom)
