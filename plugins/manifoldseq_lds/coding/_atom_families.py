"""Atoms of a dictionary: the base of their families, and systems under a kernel (10), (11)."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

from ..clustering._epoch import as_systems, chosen
from ..means import _stable_systems as stable
from ..means._common_problem import beyond, items_of, items_on
from ..systems._canonical_form import canonical_form
from ..systems._record import Systems

Array = NDArray[np.floating[Any]]
Leaves = tuple[Array, ...]

_EQUAL = 1e-12
"""Objectives with a smaller relative difference count as equal."""


@dataclass(frozen=True)
class AtomProblem:
    """The problem of one atom with all codes fixed: minimize ``sum_i beta_i k(S, S_i) + sum_j gamma_j k(S, D_j)``.

    Parameters
    ----------
    packed : packed data
        The N data that use the atom, or all data.
    beta : array of shape (N,)
        ``-z_ir / N`` of (10).
    others : packed atoms
    gamma : array of shape (J,)
        ``sum_i z_ir z_ij / N``, which is zero for the atom itself.
    own : float
        The weight of k(S, S), for kernels whose k(S, S) is not constant: ``sum_i z_ir^2 / 2 N``.
    """

    packed: Any
    beta: Array
    others: Any
    gamma: Array
    own: float


class AtomFamily(ABC):
    """Base class of families of atoms, which ``LDSDictionaryLearning(method=...)`` accepts by name or as an object.

    A family defines a kernel of systems. J atoms are a tuple of arrays with J rows each; one atom is a tuple of arrays
    without the leading axis. Packed data have a length and can be indexed by rows. A family that is a frozen dataclass
    is saved with the model. Register its class by `manifoldseq.hooks.RuleSpec` with ``estimator="lds-dictionary",
    parameter="method"``.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> family = ms.hooks.get_rule("papers:symmetric", estimator="lds-dictionary", parameter="method")
    >>> isinstance(family, AtomFamily)
    True
    """

    @abstractmethod
    def pack(self, systems: Systems) -> Any:
        """Return N systems in the representation of the family."""

    @abstractmethod
    def chosen(self, systems: Systems) -> Leaves:
        """Return atoms that equal systems."""

    @abstractmethod
    def systems(self, atoms: Leaves) -> Systems:
        """Return the systems of atoms, or the nearest systems."""

    @abstractmethod
    def cross(self, P: Any, Q: Any) -> Array:
        """Return the kernel matrix of two packed sets, (J, N)."""

    @abstractmethod
    def diag(self, P: Any) -> Array:
        """Return k(x, x) of a packed set, (N,)."""

    @abstractmethod
    def updated(self, atom: Leaves, problem: AtomProblem, scale: float) -> tuple[Leaves, float]:
        """Return a better atom, and the number of evaluations; `scale` multiplies step sizes."""

    def pack_atoms(self, atoms: Leaves) -> Any:
        """Return atoms in the packed form of their systems, for comparisons."""
        return self.pack(self.systems(atoms))

    def atoms(self, systems: Systems, n_atoms: int) -> ms.manifolds.Manifold:
        """Return the manifold of atoms for given data; by default a Euclidean space without constraints."""
        shapes = [leaf.shape[1:] for leaf in self.chosen(systems[[0]])]
        return ms.manifolds.Product(*[ms.manifolds.Euclidean(n_atoms, *shape) for shape in shapes])

    def weighted(self, atom: Leaves, problem: AtomProblem) -> tuple[float, Leaves]:
        """Return the value and the gradient of an atom's problem (10), for solvers that use gradients."""
        raise TypeError(
            f"{type(self).__name__} has no gradient: define its method weighted, or use solver='alternating'"
        )

    def within(self, atoms: Leaves) -> Leaves | None:
        """Return feasible starting points of updates if some atoms are infeasible; else None."""
        return None

    def better(self, atom: Leaves, other: Leaves, problem: AtomProblem) -> Leaves:
        """Return the atom with the lower objective of two atoms; used if `within` returns atoms."""
        first, second = (self.weighted(one, problem)[0] for one in (atom, other))
        return atom if first <= second + _EQUAL * abs(second) else other


@dataclass(frozen=True)
class SystemAtoms(AtomFamily):
    """Linear dynamical systems on the canonical manifold, under any kernel.

    Parameters
    ----------
    kernel : kernel object
    manifold : Manifold
    solver : {"pgd", "lbfgs"}
        ``"pgd"``: Algorithm 1 at the rates `step_size`, without a line search.
    step_size : tuple of float
        One rate per factor of a point.
    inner_iter : int
        Iterations per update.
    """

    kernel: Any
    manifold: Any
    solver: str
    step_size: tuple[float, ...]
    inner_iter: int

    def pack(self, systems: Systems) -> Any:
        return self.kernel.pack(items_of(self.kernel, systems))

    def chosen(self, systems: Systems) -> Leaves:
        used = items_on(self.manifold, systems)
        whole = canonical_form(used.A, used.C, used.x1)
        near = self.manifold.nearest(whole)
        if self.solver == "pgd":  # Algorithm 1 as printed: within the bound of (12)
            return near
        return chosen(beyond(self.manifold, whole), whole, near)

    def systems(self, atoms: Leaves) -> Systems:
        return as_systems(atoms)

    def cross(self, P: Any, Q: Any) -> Array:
        return self.kernel.cross(P, Q)

    def diag(self, P: Any) -> Array:
        return self.kernel.diag(P)

    def updated(self, atom: Leaves, problem: AtomProblem, scale: float) -> tuple[Leaves, float]:
        both = ms.objectives.last_point(lambda one: self.weighted(one, problem))
        of_atom = ms.Problem(self.manifold, ms.objective(value_and_gradient=both))
        if self.solver == "pgd":
            rates = [scale * rate for rate in self.step_size]
            *_, atom = ms.solvers.fixed_steps(of_atom, atom, rates, self.inner_iter)
            return atom, float(self.inner_iter)
        result = ms.minimize(of_atom, atom, solver=self.solver, stop=ms.MaxIterations(self.inner_iter))
        if result.status is ms.Status.INTERRUPTED:
            raise KeyboardInterrupt  # the outer loop ends with its last complete state
        return result.x, float(result.nfev)

    def within(self, atoms: Leaves) -> Leaves | None:
        return self.manifold.nearest(atoms) if beyond(self.manifold, atoms).any() else None

    def atoms(self, systems: Systems, n_atoms: int) -> ms.manifolds.Manifold:
        return self.manifold**n_atoms

    def weighted(self, atom: Leaves, problem: AtomProblem) -> tuple[float, Leaves]:
        kernel = self.kernel
        value, gradient = kernel.weighted(atom, problem.packed, problem.beta)
        parts = [kernel.weighted(atom, problem.others, problem.gamma)] if problem.gamma.any() else []
        if not kernel.constant_diagonal:
            own, own_gradient = kernel.self_term(atom)
            parts.append((problem.own * own, tuple(problem.own * g for g in own_gradient)))
        for more, more_gradient in parts:
            value += more
            gradient = tuple(g + h for g, h in zip(gradient, more_gradient, strict=True))
        return value, gradient


@dataclass(frozen=True)
class StableAtoms(AtomFamily):
    """All stable systems, as points ``[A; C]`` with orthonormal columns, under a kernel of observability subspaces.

    Parameters
    ----------
    kernel : kernel object
        A kernel that `means._stable_systems.covers` accepts.
    inner_iter : int
        Iterations of L-BFGS per update.
    rate : float, optional
        Length of the first step along the negative gradient, for mini-batches; it is reduced until the objective
        decreases.
    """

    kernel: Any
    inner_iter: int
    rate: float | None = None

    def pack(self, systems: Systems) -> Any:
        return self.kernel.pack(systems)

    def chosen(self, systems: Systems) -> Leaves:
        return (stable.points_of(self.kernel.pack(systems)),)

    def pack_atoms(self, atoms: Leaves) -> Any:
        return self.kernel.pack_points(atoms[0])

    def systems(self, atoms: Leaves) -> Systems:
        systems, deficient = stable.orthonormal(atoms[0])
        if deficient.any():
            warnings.warn(
                f"the outputs C of atoms {np.flatnonzero(deficient).tolist()} are rank-deficient, so no equivalent "
                "system has orthonormal outputs. systems_ contains the nearest systems: choose fewer states",
                stacklevel=5,
            )
        return systems

    def cross(self, P: Any, Q: Any) -> Array:
        return self.kernel.cross(P, Q)

    def diag(self, P: Any) -> Array:
        return self.kernel.diag(P)

    def updated(self, atom: Leaves, problem: AtomProblem, scale: float) -> tuple[Leaves, float]:
        N, with_others = len(problem.packed), _WithOthers(self.kernel, problem.others, problem.gamma)
        steps = None if self.rate is None else np.array([scale * self.rate])
        (point,), _, spent, _ = stable.descended(
            with_others, problem.packed, problem.beta, [(0, N)], atom[0][None], self.inner_iter, steps=steps
        )
        return (point,), spent / N

    def atoms(self, systems: Systems, n_atoms: int) -> ms.manifolds.Manifold:
        return ms.manifolds.Product(stable.manifold(systems.n_outputs, systems.n_states) ** n_atoms)

    def weighted(self, atom: Leaves, problem: AtomProblem) -> tuple[float, Leaves]:
        with_others = _WithOthers(self.kernel, problem.others, problem.gamma)
        values, gradients = with_others.weighted_groups(
            atom[0][None], problem.packed, problem.beta, [(0, len(problem.packed))]
        )
        return float(values[0]), (gradients[0],)


@dataclass(frozen=True)
class _WithOthers:
    """A kernel whose weighted sums include the other atoms, ``sum_j gamma_j k(S, D_j)``."""

    kernel: Any
    others: Any
    gamma: Array

    def pack(self, systems: Systems) -> Any:
        return self.kernel.pack(systems)

    def weighted_groups(self, points: Array, packed: Any, beta: Array, groups: Any) -> tuple[Array, Array]:
        values, gradients = self.kernel.weighted_groups(points, packed, beta, groups)
        if not self.gamma.any():
            return values, gradients
        everyone = [(0, len(self.others))] * len(points)
        more, more_gradients = self.kernel.weighted_groups(points, self.others, self.gamma, everyone)
        return values + more, gradients + more_gradients
