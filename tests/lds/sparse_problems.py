"""Generated systems for the tests of sparse coding."""

import numpy as np

from manifoldseq_lds import AtomProblem, Systems


def clustered(N=24, m=6, n=2, clusters=3, noise=0.3, seed=0):
    """Noisy, rotated copies of a few systems; system i belongs to i % clusters."""
    rng = np.random.default_rng(seed)
    base = [(rng.standard_normal((n, n)), np.linalg.qr(rng.standard_normal((m, n)))[0]) for _ in range(clusters)]
    A, C = [], []
    for i in range(N):
        a, c = base[i % clusters]
        u, s, vt = np.linalg.svd(a + noise * rng.standard_normal((n, n)))
        P = np.linalg.qr(rng.standard_normal((n, n)))[0]
        A.append(P.T @ (u * np.tanh(s)) @ vt @ P)
        C.append(np.linalg.qr(c + noise * rng.standard_normal((m, n)))[0] @ P)
    return Systems(A, C)


def violation(gram, cross, alpha, Z):
    """Return the largest violation of the optimality conditions of the Lasso, one code after the other.

    The slope of ``z' K z - 2 z' k`` by z_j is ``-alpha sign(z_j)`` where z_j is not zero, else at most alpha.
    """
    worst = 0.0
    for z, k in zip(Z.T, cross.T, strict=True):
        for j, slope in enumerate(2 * gram @ z - 2 * k):
            worst = max(worst, abs(slope + alpha * np.sign(z[j])) if z[j] else abs(slope) - alpha)
    return worst


def oscillations(N=18, seed=0, T=40):
    """Sequences of three frequencies; sequence i has number i % 3."""
    rng = np.random.default_rng(seed)
    t = np.arange(T)[:, None]
    return [
        np.cos(t * (0.2, 0.7, 1.5)[i % 3] + rng.uniform(0, 6) + np.arange(4) * (1, 2, 3)[i % 3])
        + 0.1 * rng.standard_normal((T, 4))
        for i in range(N)
    ]


def atom_problem(family, systems, J=3, r=1, seed=0):
    """The problem of atom r, with the codes it comes from."""
    rng = np.random.default_rng(seed)
    atoms, packed = family.chosen(systems[:J]), family.pack(systems)
    Z = rng.standard_normal((J, len(systems)))
    overlap = Z @ Z.T / len(systems)
    gamma = np.where(np.arange(J) == r, 0.0, overlap[r])
    made = AtomProblem(packed, -Z[r] / len(systems), family.pack_atoms(atoms), gamma, overlap[r, r] / 2)
    return made, atoms, Z
