"""Families of atoms for comparison in the paper: subspaces (Grass-L) and symmetric systems (LDSST)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from manifoldseq.estimators import check_positive, check_whole
from manifoldseq_lds import AtomFamily, AtomProblem, Systems, canonical_form

from ._observability import observability_bases, spanning_system

Array = NDArray[np.floating[Any]]
Leaves = tuple[Array, ...]


@dataclass(frozen=True)
class GrassmannAtoms(AtomFamily):
    """Finite-horizon observability subspaces: Grass-L of Harandi et al. (2015), as used in the paper's comparison.

    The kernel of two orthonormal bases is ``norm(O1' O2)^2``; an atom is spanned by the n eigenvectors of ``sum_i
    beta_i O_i O_i' + sum_j gamma_j D_j D_j'`` with the smallest eigenvalues, which is the exact minimizer. Data and
    atoms are arrays (N, n, n_steps m) of transposed bases. Atoms are converted to systems by the shift structure of the
    bases, within the bound 0.99. The family is registered as ``"papers:grassmann"``.

    Parameters
    ----------
    n_steps : int
        Number of blocks of the observability matrix.

    Examples
    --------
    >>> GrassmannAtoms().n_steps
    3
    """

    n_steps: int = 3

    def __post_init__(self) -> None:
        check_whole("n_steps", self.n_steps)

    def pack(self, systems: Systems) -> Array:
        return np.ascontiguousarray(observability_bases(systems.A, systems.C, self.n_steps).swapaxes(1, 2))

    def chosen(self, systems: Systems) -> Leaves:
        return (self.pack(systems),)

    def pack_atoms(self, atoms: Leaves) -> Array:
        return atoms[0]

    def systems(self, atoms: Leaves) -> Systems:
        n_outputs = atoms[0].shape[2] // self.n_steps
        A, C = zip(*(spanning_system(basis.T, n_outputs) for basis in atoms[0]), strict=True)
        lam, V, U = canonical_form(np.stack(A), np.stack(C), bound=0.99)  # subspaces need not be of stable systems
        return Systems(lam[:, :, None] * V, U)

    def cross(self, P: Array, Q: Array) -> Array:
        (J, n, size), N = P.shape, len(Q)
        products = P.reshape(J * n, size) @ Q.reshape(N * n, size).T
        return np.einsum("janb,janb->jn", *2 * (products.reshape(J, n, N, n),))

    def diag(self, P: Array) -> Array:
        return np.full(len(P), float(P.shape[1]))

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
class SymmetricAtoms(AtomFamily):
    """Systems with symmetric transition matrices: LDSST of Huang et al. (2016), as used in the paper's comparison.

    The symmetric part of each transition matrix of the data is used. Columns of C and eigenvalues are updated one at a
    time. The new column is the eigenvector with the smallest eigenvalue of the weighted kernel matrix on the complement
    of the other columns. The eigenvalue takes a gradient step in the variable s of the soft normalization ``tanh(1.25
    s)``. The family is registered as ``"papers:symmetric"``.

    Parameters
    ----------
    rate : float
        Step size of the gradient step on the sum over the data.

    Examples
    --------
    >>> SymmetricAtoms(rate=1e-3)
    SymmetricAtoms(rate=0.001)
    """

    rate: float = 1e-4

    def __post_init__(self) -> None:
        check_positive("rate", self.rate)

    def pack(self, systems: Systems) -> SymmetricSystems:
        a, W = np.linalg.eigh((systems.A + systems.A.swapaxes(1, 2)) / 2)
        return SymmetricSystems(np.clip(a, -0.999, 0.999), np.ascontiguousarray((systems.C @ W).swapaxes(1, 2)))

    def chosen(self, systems: Systems) -> Leaves:
        packed = self.pack(systems)
        return packed.a, packed.Ct

    def pack_atoms(self, atoms: Leaves) -> SymmetricSystems:
        return SymmetricSystems(*atoms)

    def systems(self, atoms: Leaves) -> Systems:
        a, Ct = atoms
        return Systems(a[:, :, None] * np.eye(a.shape[1]), Ct.swapaxes(1, 2))

    def cross(self, P: SymmetricSystems, Q: SymmetricSystems) -> Array:
        (J, n, m), N = P.Ct.shape, len(Q)
        squares = (P.Ct.reshape(J * n, m) @ Q.Ct.reshape(N * n, m).T).reshape(J, n, N, n) ** 2
        weights = _symmetric_weights(P.a[:, :, None, None], Q.a)
        return np.einsum("janb,janb->jn", squares, weights)

    def diag(self, P: SymmetricSystems) -> Array:
        return np.full(len(P), float(P.a.shape[1]))

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
