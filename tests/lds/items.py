"""Systems as the tests write them down: the example of the domain, points as items, other bases of the states."""

import numpy as np

import manifoldseq as ms

example = ms.hooks.get_domain("lds").example


def to_item(point):
    """Return (diag(lam) V, U), and what follows of a point (Theorem 1)."""
    lam, V, U, *rest = point
    return (np.einsum("...i,...ij->...ij", lam, V), U, *rest)


def change_state_basis(item, seed=0):
    """Return (P' A P, C P) and P' x1, with a random rotation or reflection P of the states (3)."""
    A, C, *first = item
    P = np.linalg.qr(np.random.default_rng(seed).standard_normal(A.shape))[0]
    return (P.T @ A @ P, C @ P, *(P.T @ x for x in first[:1]))
