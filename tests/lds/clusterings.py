"""Systems, sequences and kernels that the tests of clustering share."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import subspace_angles

from manifoldseq_lds import CentreRule, Systems

CLASSES = 3


@dataclass(frozen=True)
class FirstMember(CentreRule):
    """A rule that knows systems (A, C) only."""

    on_AC_only = True

    def __call__(self, task, centre, rows, inner):
        return task.point(int(rows[0])), 0.0


def generated(N=30, m=8, n=3, noise=0.15, seed=0):
    """Noisy, randomly rotated copies of three systems; system i belongs to class i % 3."""
    rng = np.random.default_rng(seed)
    base = [(0.6 * rng.standard_normal((n, n)), np.linalg.qr(rng.standard_normal((m, n)))[0]) for _ in range(CLASSES)]
    A, C = [], []
    for i in range(N):
        a, c = base[i % CLASSES]
        u, s, vt = np.linalg.svd(a + noise * rng.standard_normal((n, n)))
        P = np.linalg.qr(rng.standard_normal((n, n)))[0]
        A.append(P.T @ (u * np.tanh(s)) @ vt @ P)
        C.append(np.linalg.qr(c + noise * rng.standard_normal((m, n)))[0] @ P)
    return Systems(A, C)


def oscillations(N=24, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(60)[:, None]
    return [
        np.cos(t * (0.2, 0.7, 1.5)[i % 3] + rng.uniform(0, 6) + np.arange(4) * (1, 2, 3)[i % 3])
        + 0.1 * rng.standard_normal((60, 4))
        for i in range(N)
    ]


def projection(first, second, steps=600):
    """The kernel by its definition: squared cosines between truncated observability subspaces."""

    def observability(A, C):
        blocks = [C]
        for _ in range(steps):
            blocks.append(blocks[-1] @ A)
        return np.vstack(blocks)

    return float(np.sum(np.cos(subspace_angles(observability(*first[:2]), observability(*second[:2]))) ** 2))


def linear_kernel(first, second):
    """Not constant on the diagonal: the inner product of the first three outputs' maps."""
    (A1, C1), (A2, C2) = first, second
    total = 0.0
    for _ in range(3):
        total = total + (C1 * C2).sum()
        C1, C2 = C1 @ A1, C2 @ A2
    return total
