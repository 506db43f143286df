"""Means over all stable systems against medoids and the paper's problem (12), on random groups of systems."""

import time
import warnings

import numpy as np
from scipy.linalg import expm

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSKMeans, Systems, solve_common_problem

from .._report import Report

GROUPS = 10
Set = tuple[Systems, np.ndarray, int]


def masses(N: int = 60, T: int = 200, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Return positions of six masses between springs, one of them weaker in two of three classes, and the classes."""
    rng, X = np.random.default_rng(seed), []
    for i in range(N):
        springs = np.ones(7)
        if i % 3:
            springs[2 * (i % 3)] = 0.5
        K = np.diag(springs[:-1] + springs[1:]) - np.diag(springs[1:-1], 1) - np.diag(springs[1:-1], -1)
        A = expm(0.5 * np.block([[np.zeros((6, 6)), np.eye(6)], [-K, -0.02 * np.eye(6)]]))
        x, Y = rng.standard_normal(12), np.zeros((T, 6))
        for t in range(T):
            Y[t] = x[:6]
            x = A @ x
            x[6:] += 0.3 * rng.standard_normal(6)
        X.append(Y + 0.1 * rng.standard_normal(Y.shape))
    return X, np.arange(N) % 3


def sets(stabilizer: str) -> dict[str, Set]:
    """Return the systems of three data sets, their classes, and the number of classes."""
    found = {}
    for name, n, center, K in (("japanese-vowels", 3, False, 9), ("basic-motions", 5, True, 4)):
        data = ms.hooks.get_dataset(name).loader()
        systems = LDSIdentifier(n, center=center, stabilizer=stabilizer).fit_transform(data.sequences)
        found[name] = Systems(systems.A, systems.C), np.unique(data.labels, return_inverse=True)[1], K
    X, classes = masses()
    systems = LDSIdentifier(12, delay=4, stabilizer=stabilizer).fit_transform(X)
    return {**found, "masses": (Systems(systems.A, systems.C), classes, 3)}


def run(report: Report) -> None:
    """Measure."""
    kernel = ms.get_kernel("projection")
    for stabilizer in ("SN", "CG"):
        for name, (systems, classes, K) in sets(stabilizer).items():
            report.title(f"means of {GROUPS} random groups: {name}, stabilizer {stabilizer}")
            rng, values, seconds = np.random.default_rng(7), [], []
            for _ in range(GROUPS):
                own = np.flatnonzero(classes == rng.integers(classes.max() + 1))
                others = rng.choice(len(classes), rng.integers(7), replace=False)
                group = systems[np.concatenate([rng.choice(own, 12, replace=False), others])]
                packed = kernel.pack(group)
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the bound's cost is what is measured
                    within = ms.minimize(ms.get_model("lds.mean").problem(group))
                middle = time.process_time()
                stable = solve_common_problem(group)
                seconds.append((middle - began, time.process_time() - middle))
                medoid = kernel.cross(packed, packed).mean(axis=0).max()
                values.append((medoid, -within.fun / 2, -stable.fun / 2))
            found = np.array(values)
            for what, value in zip(("medoid", "problem (12)", "all stable systems"), found.mean(axis=0), strict=True):
                report.row(f"mean kernel value, {what}", value, ".4f")
            report.row("groups where (12) ends below the medoid", int((found[:, 1] < found[:, 0]).sum()), "d")
            below = int((found[:, 2] < found[:, :2].max(axis=1) - 1e-6).sum())
            report.row("groups where all stable systems end below either", below, "d", most=0)
            report.row("times faster than (12)", float(np.divide(*np.sum(seconds, axis=0))))
            below = 0
            for seed in range(3):
                labels = np.random.default_rng(seed).permutation(len(classes)) % K
                exact, medoids = (LDSKMeans(K, mean=mean, init=labels).fit(systems) for mean in ("exact", "medoid"))
                below += exact.mean_kernel_value_ < medoids.mean_kernel_value_
            report.row("starts of three where k-means ends below k-medoids", below, "d", most=0)
