"""A kernel on systems (A, C) in ten lines."""

import autograd.numpy as np

import manifoldseq as ms


def Gain():
    return ms.kernel(gain, domain="lds", name="acme-gain")


def gain(one, two):
    (A1, C1), (A2, C2) = one[:2], two[:2]
    return np.sum((C1 @ A1 @ C1.T) * (C2 @ A2 @ C2.T))


def rotated(item):
    """Return the item in another orthonormal basis of the state."""
    A, C = item[:2]
    P = np.linalg.qr(np.random.default_rng(0).standard_normal(A.shape))[0]
    return P.T @ A @ P, C @ P
