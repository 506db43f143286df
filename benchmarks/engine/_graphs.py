"""Pose graphs of known truth, with noise and outliers: a sphere, a torus, and streets of Manhattan; random graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.transform import Rotation

import manifoldseq as ms

ROTATION, TRANSLATION, OUTLIERS = 0.02, 0.05, 0.05


def rotations(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return random rotations of space."""
    return np.asarray(ms.manifolds.Power(ms.manifolds.SpecialOrthogonal(3), n).random_point(rng))


def turns(angles: np.ndarray) -> np.ndarray:
    """Return rotations of the plane."""
    c, s = np.cos(angles), np.sin(angles)
    return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)


def sphere(n: int, edges: int) -> ms.poses.PoseGraph:
    """Return a spiral on a sphere, poses looking outward."""
    rng = np.random.default_rng(0)
    width = int(np.sqrt(n))
    k = np.arange(n)
    theta = 2 * np.pi * (k % width) / width
    phi = np.pi * (k // width + 0.5 + (k % width) / width) / (-(-n // width) + 1)
    out = np.stack([np.sin(phi) * np.cos(theta), np.sin(phi) * np.sin(theta), np.cos(phi)], -1)
    along = np.stack([-np.sin(theta), np.cos(theta), 0 * theta], -1)
    return measured(np.stack([along, np.cross(out, along), out], -1), 10 * out, 10 * out, edges, rng)


def torus(n: int, edges: int) -> ms.poses.PoseGraph:
    """Return a curve that winds around a torus."""
    rng = np.random.default_rng(0)
    a, b = 2 * np.pi * np.arange(n) / int(np.sqrt(n)), 2 * np.pi * np.arange(n) / n
    t = np.stack([(6 + 2 * np.cos(a)) * np.cos(b), (6 + 2 * np.cos(a)) * np.sin(b), 2 * np.sin(a)], -1)
    return measured(Rotation.from_euler("zy", np.stack([b, -a], -1)).as_matrix(), t, t, edges, rng)


def manhattan(n: int, edges: int) -> ms.poses.PoseGraph:
    """Return a random walk of unit steps with right angles, in the plane."""
    rng = np.random.default_rng(0)
    steps, heading, place = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]]), 0, np.zeros(2)
    headings, places, limit = np.zeros(n, int), np.zeros((n, 2)), max(8, int(np.sqrt(n) / 2))
    for k in range(n):
        headings[k], places[k] = heading, place
        if k % 4 == 3:
            heading = (heading + rng.choice([-1, 0, 1])) % 4
            while np.any(np.abs(place + 4 * steps[heading]) > limit):
                heading = (heading + 1) % 4
        place = place + steps[heading]
    near = places + 1e-3 * rng.standard_normal(places.shape)
    return measured(turns(headings * np.pi / 2), places, near, edges, rng)


def measured(
    R: np.ndarray, t: np.ndarray, near: np.ndarray, edges: int, rng: np.random.Generator
) -> ms.poses.PoseGraph:
    """Return the graph of the chain and of edges between neighbours, some of them wrong; odometry is the start."""
    n, d = t.shape
    neighbours = np.asarray(KDTree(near).query(near, k=14)[1])
    a, b = np.repeat(np.arange(n), 13), neighbours[:, 1:].ravel()
    key = np.unique((a * n + b)[b > a + 1])
    key = key[np.sort(rng.permutation(len(key))[: edges - (n - 1)])]
    i, j = np.r_[np.arange(n - 1), key // n], np.r_[np.arange(1, n), key % n]
    Z, p = R[i].mT @ R[j], np.einsum("kab,ka->kb", R[i], t[j] - t[i])
    if d == 3:
        Z = Z @ Rotation.from_rotvec(ROTATION * rng.standard_normal((len(i), 3))).as_matrix()
    else:
        Z = Z @ turns(ROTATION * rng.standard_normal(len(i)))
    p = p + TRANSLATION * rng.standard_normal(p.shape)
    bad = n - 1 + rng.permutation(len(i) - (n - 1))[: int(OUTLIERS * len(i))]
    wrong = rng.uniform(-np.pi, np.pi, len(bad))
    Z[bad] = rotations(len(bad), rng) if d == 3 else turns(wrong)
    p[bad] = rng.uniform(-5, 5, (len(bad), d))
    R0, t0 = np.empty_like(R), np.array(t, float)
    R0[0] = R[0]
    for k in range(n - 1):
        R0[k + 1], t0[k + 1] = R0[k] @ Z[k], t0[k] + R0[k] @ p[k]
    weights = np.r_[np.full(d * (d - 1) // 2, 1 / ROTATION), np.full(d, 1 / TRANSLATION)]
    information = np.broadcast_to(np.diag(weights**2), (len(i), len(weights), len(weights)))
    return ms.poses.PoseGraph((R0, t0), i, j, Z, p, information)


def expander(n: int, edges: int) -> tuple[Any, ...]:
    """Return a chain of rotations with random pairs, a tenth of them wrong: start, pairs and relative rotations."""
    rng = np.random.default_rng(0)
    R = rotations(n, rng)
    i, j = np.r_[np.arange(n - 1), rng.integers(n, size=edges)], np.r_[np.arange(1, n), rng.integers(n, size=edges)]
    i, j = i[i != j], j[i != j]
    Z = R[i].mT @ R[j] @ Rotation.from_rotvec(0.05 * rng.standard_normal((len(i), 3))).as_matrix()
    bad = (rng.random(len(i)) < 0.1) & (np.arange(len(i)) >= n - 1)
    Z[bad] = rotations(int(bad.sum()), rng)
    start = np.empty_like(R)
    start[0] = R[0]
    for k in range(n - 1):
        start[k + 1] = start[k] @ Z[k]
    return start, i, j, Z


def bundle(cameras: int, points: int, seen: int = 8) -> tuple[Any, ...]:
    """Return a ring of cameras and a cloud of points: start, pairs (camera, point) and pixels, 3 % of them wrong."""
    rng = np.random.default_rng(0)
    a = 2 * np.pi * np.arange(cameras) / cameras
    C = np.stack([10 * np.cos(a), 10 * np.sin(a), rng.standard_normal(cameras)], -1)
    z = -C / np.linalg.norm(C, axis=1, keepdims=True)
    x = np.cross(z, [0, 0, 1.0])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    R, P = np.stack([x, np.cross(z, x), z], -1), 1.5 * rng.standard_normal((points, 3))
    camera = np.concatenate([(rng.integers(cameras) + np.arange(seen)) % cameras for _ in range(points)])
    point = np.repeat(np.arange(points), seen)
    q = np.einsum("kba,kb->ka", R[camera], P[point] - C[camera])
    pixels = 500 * q[:, :2] / q[:, 2:] + rng.standard_normal((len(camera), 2))
    bad = rng.random(len(camera)) < 0.03
    pixels[bad] += rng.uniform(-100, 100, (bad.sum(), 2))
    turned = R @ Rotation.from_rotvec(0.01 * rng.standard_normal((cameras, 3))).as_matrix()
    start = (turned, C + 0.05 * rng.standard_normal(C.shape)), P + 0.05 * rng.standard_normal(P.shape)
    start[0][0][:2], start[0][1][:2] = R[:2], C[:2]
    return start, camera, point, pixels
