"""Atoms of a dictionary: systems under a kernel (10), (11), and the two families that the paper compares them with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

import manifoldseq as ms

from ..clustering._epoch import as_systems, chosen
from ..means import _stable_systems as stable
from ..means._centre_rules import observability_bases
from ..means._common_problem import beyond, items_of, items_on
from ..systems._canonical_form import canonical_form
from ..systems._record import Systems

Array = NDArray[np.floating[Any]]
Leaves = tuple[Array, ...]

_EQUAL = 1e-12
"""Objectives that differ by a smaller share count as equal."""


@dataclass(frozen=True)
class AtomProblem:
    """The problem of one atom with all codes fixed: minimize ``sum_i beta_i k(S, S_i) + sum_j gamma_j k(S, D_j)``.

    Parameters
    ----------
    packed : packed data
    beta : array of shape (N,)
        ``-z_ir / N`` of (10).
    others : packed atoms
    gamma : array of shape (J,)
        ``sum_i z_ir z_ij / N``, zero for the atom itself.
    own : float
        The weight of k(S, S), for kernels where it is not constant: ``sum_i z_ir^2 / 2 N``.
    """

    packed: Any
    beta: Array
    others: Any
    gamma: Array
    own: float


class AtomFamily(Protocol):
    """What learning asks of a kind of atoms; J atoms are stacked arrays."""

    def pack(self, systems: Systems) -> Any:
        """Return data as the family compares them."""
        ...

    def chosen(self, systems: Systems) -> Leaves:
        """Return atoms that equal systems."""
        ...

    def pack_atoms(self, atoms: Leaves) -> Any:
        """Return atoms as the family compares them."""
        ...

    def cross(self, P: Any, Q: Any) -> Array:
        """Return the kernel matrix of two packed sets."""
        ...

    def diag(self, P: Any) -> Array:
        """Return k(x, x) of a packed set."""
        ...

    def updated(self, atom: Leaves, problem: AtomProblem, scale: float) -> tuple[Leaves, float]:
        """Return a better atom, and the evaluations spent; `scale` multiplies step sizes."""
        ...

    def within(self, atoms: Leaves) -> Leaves | None:
        """Return where updates of atoms begin, if some atoms are none that an update can find; else None."""
        ...

    def better(self, atom: Leaves, other: Leaves, problem: AtomProblem) -> Leaves:
        """Return the one of two atoms with the lower objective."""
        ...


@dataclass(frozen=True)
class SystemAtoms:
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

    def pack_atoms(self, atoms: Leaves) -> Any:
        return self.kernel.pack(as_systems(atoms))

    def cross(self, P: Any, Q: Any) -> Array:
        return self.kernel.cross(P, Q)

    def diag(self, P: Any) -> Array:
        return self.kernel.diag(P)

    def updated(self, atom: Leaves, problem: AtomProblem, scale: float) -> tuple[Leaves, float]:
        both = ms.objectives.last_point(partial(weighted, self.kernel, problem))
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

    def better(self, atom: Leaves, other: Leaves, problem: AtomProblem) -> Leaves:
        first, second = (weighted(self.kernel, problem, one)[0] for one in (atom, other))
        return atom if first <= second + _EQUAL * abs(second) else other


def weighted(kernel: Any, problem: AtomProblem, point: Leaves) -> tuple[float, Leaves]:
    """Return the value and the gradient of an atom's problem (10)."""
    value, gradient = kernel.weighted(point, problem.packed, problem.beta)
    parts = [kernel.weighted(point, problem.others, problem.gamma)] if problem.gamma.any() else []
    if not kernel.constant_diagonal:
        own, own_gradient = kernel.self_term(point)
        parts.append((problem.own * own, tuple(problem.own * g for g in own_gradient)))
    for more, more_gradient in parts:
        value += more
        gradient = tuple(g + h for g, h in zip(gradient, more_gradient, strict=True))
    return value, gradient


@dataclass(frozen=True)
class StableAtoms:
    """All stable systems, as points ``[A; C]`` with orthonormal columns, under a kernel of observability subspaces.

    Parameters
    ----------
    kernel : kernel object
        That `means._stable_systems.covers`.
    inner_iter : int
        Iterations of L-BFGS per update.
    rate : float, optional
        Of the first step along the negative gradient, for mini-batches; it is shortened until the objective falls.
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

    def cross(self, P: Any, Q: Any) -> Array:
        return self.kernel.cross(P, Q)

    def diag(self, P: Any) -> Array:
        return self.kernel.diag(P)

    def updated(self, atom: Leaves, problem: AtomProblem, scale: float) -> tuple[Leaves, float]:
        N = len(problem.packed)
        with_others = _WithOthers(self.kernel, problem.others, problem.gamma)
        steps = None if self.rate is None else np.array([scale * self.rate])
        (point,), _, spent, _ = stable.descended(
            with_others, problem.packed, problem.beta, [(0, N)], atom[0][None], self.inner_iter, steps=steps
        )
        return (point,), spent / N

    def within(self, atoms: Leaves) -> Leaves | None:
        return None

    def better(self, atom: Leaves, other: Leaves, problem: AtomProblem) -> Leaves:
        return atom


@dataclass(frozen=True)
class _WithOthers:
    """A kernel whose weighted sums have the other atoms in them, ``sum_j gamma_j k(S, D_j)``."""

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


@dataclass(frozen=True)
class GrassmannAtoms:
    """Subspaces of n_steps-step observability: Grass-L of Harandi et al. (2015), as the paper compares it.

    The kernel of two orthonormal bases is ``norm(O1' O2)^2``; an atom is spanned by the n eigenvectors of
    ``sum_i beta_i O_i O_i' + sum_j gamma_j D_j D_j'`` with the smallest eigenvalues, its exact minimizer. Data and
    atoms are arrays (N, n, n_steps m) of transposed bases.
    """

    n_steps: int = 3

    def pack(self, systems: Systems) -> Array:
        return np.ascontiguousarray(observability_bases(systems.A, systems.C, self.n_steps).swapaxes(1, 2))

    def chosen(self, systems: Systems) -> Leaves:
        return (self.pack(systems),)

    def pack_atoms(self, atoms: Leaves) -> Array:
        return atoms[0]

    def cross(self, P: Array, Q: Array) -> Array:
        (J, n, size), N = P.shape, len(Q)
        products = P.reshape(J * n, size) @ Q.reshape(N * n, size).T
        return np.einsum("janb,janb->jn", *2 * (products.reshape(J, n, N, n),))

    def diag(self, P: Array) -> Array:
        return np.full(len(P), float(P.shape[1]))

    def within(self, atoms: Leaves) -> Leaves | None:
        return None

    def better(self, atom: Leaves, other: Leaves, problem: AtomProblem) -> Leaves:
        return atom

    def updated(self, atom: Leaves, problem: AtomProblem, scale: float) -> tuple[Leaves, float]:
        n, size = atom[0].shape
        # the objective is tr(O' S O) with S = sum_i beta_i O_i O_i' + sum_j gamma_j D_j D_j', (L m, L m): its least
        # eigenvectors are the minimizer
        S = sum(
            _weighted_gram(bases.reshape(-1, size), np.repeat(weights, n))
            for bases, weights in ((problem.packed, problem.beta), (problem.others, problem.gamma))
        )
        smallest = eigh(S, subset_by_index=(0, n - 1))[1]
        return (np.ascontiguousarray(smallest.T),), 1.0


@dataclass(frozen=True)
class SymmetricSystems:
    """N systems with symmetric transition matrices, in their eigenbasis: eigenvalues a (N, n), outputs Ct (N, n, m)."""

    a: Array
    Ct: Array

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, rows: Any) -> SymmetricSystems:
        return SymmetricSystems(self.a[rows], self.Ct[rows])


@dataclass(frozen=True)
class SymmetricAtoms:
    """Systems with symmetric transition matrices: LDSST of Huang et al. (2016), as the paper compares it.

    Of a datum's transition matrix the symmetric part is used. Columns of C and eigenvalues are updated one at a time:
    the column is the eigenvector with the smallest eigenvalue of the weighted kernel matrix on the complement of the
    other columns, the eigenvalue takes a gradient step in the variable s of the soft normalization ``tanh(1.25 s)``.
    """

    rate: float = 1e-4

    def pack(self, systems: Systems) -> SymmetricSystems:
        a, W = np.linalg.eigh((systems.A + systems.A.swapaxes(1, 2)) / 2)
        return SymmetricSystems(np.clip(a, -0.999, 0.999), np.ascontiguousarray((systems.C @ W).swapaxes(1, 2)))

    def chosen(self, systems: Systems) -> Leaves:
        packed = self.pack(systems)
        return packed.a, packed.Ct

    def pack_atoms(self, atoms: Leaves) -> SymmetricSystems:
        return SymmetricSystems(*atoms)

    def cross(self, P: SymmetricSystems, Q: SymmetricSystems) -> Array:
        (J, n, m), N = P.Ct.shape, len(Q)
        squares = (P.Ct.reshape(J * n, m) @ Q.Ct.reshape(N * n, m).T).reshape(J, n, N, n) ** 2
        weights = _symmetric_weights(P.a[:, :, None, None], Q.a)
        return np.einsum("janb,janb->jn", squares, weights)

    def diag(self, P: SymmetricSystems) -> Array:
        return np.full(len(P), float(P.a.shape[1]))

    def within(self, atoms: Leaves) -> Leaves | None:
        return None

    def better(self, atom: Leaves, other: Leaves, problem: AtomProblem) -> Leaves:
        return atom

    def updated(self, atom: Leaves, problem: AtomProblem, scale: float) -> tuple[Leaves, float]:
        a, Ct = atom[0].copy(), atom[1].copy()
        n, m = Ct.shape
        sets = ((problem.packed, problem.beta), (problem.others, problem.gamma))
        b = np.concatenate([part.a for part, _ in sets])
        beta = np.concatenate([weights for _, weights in sets])[:, None]
        outputs = np.concatenate([part.Ct.reshape(-1, m) for part, _ in sets])
        for k in range(n):
            # column k: the eigenvector of least eigenvalue of sum w c c' across the other columns, (m - n + 1) square
            weights = (beta * _symmetric_weights(a[k], b)).ravel()
            others = np.delete(Ct, k, axis=0).T
            free = np.linalg.qr(others, mode="complete")[0][:, n - 1 :]
            M = free.T @ _weighted_gram(outputs, weights) @ free
            Ct[k] = free @ eigh(M, subset_by_index=(0, 0))[1][:, 0]
            # eigenvalue k: d/da (1 - a²)(1 - b²)/(1 - ab)² = 2 (1 - b²)(b - a)/(1 - ab)³, chained with a = tanh(1.25 s)
            squares = ((outputs @ Ct[k]) ** 2).reshape(b.shape)
            slope = float(np.sum(beta * squares * 2 * (1 - b**2) * (b - a[k]) / (1 - a[k] * b) ** 3))
            s = np.arctanh(a[k]) / 1.25 - scale * self.rate * len(problem.beta) * slope * 1.25 * (1 - a[k] ** 2)
            a[k] = np.clip(np.tanh(1.25 * s), -0.999, 0.999)
        return (a, Ct), 1.0


def _symmetric_weights(a: Any, b: Array) -> Array:
    """Return the factor of ``(c_i' c_j)^2`` in the kernel of two systems with real eigenvalues a and b."""
    return (1 - a**2) * (1 - b**2) / (1 - a * b) ** 2


def _weighted_gram(rows: Array, weights: Array) -> Array:
    """Return ``sum_i w_i x_i x_i'``."""
    return rows.T @ (weights[:, None] * rows)
