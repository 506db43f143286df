"""Identification under output noise: eigenvalues against nfoursid, coverage of forecast intervals."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from manifoldseq_lds import LDSIdentifier

from .._report import Report

POLES = np.array([0.95 * np.exp(0.4j), 0.9 * np.exp(1.1j)])
SEEDS = 20


def run(report: Report) -> None:
    """Measure."""
    _eigenvalues(report)
    _coverage(report)


def damped_pairs(T: int, noise: float, seed: int, *, m: int = 6, q: float = 0.3) -> np.ndarray:
    """Return outputs (T, m) of two damped pairs in state noise q and output noise `noise`, begun in equilibrium."""
    rng = np.random.default_rng([seed, T, round(1000 * noise)])
    A = np.zeros((4, 4))
    for j, pole in enumerate(POLES):
        A[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = [[pole.real, -pole.imag], [pole.imag, pole.real]]
    C = np.linalg.qr(rng.standard_normal((m, 4)))[0]
    x, Y = np.zeros(4), np.empty((T + 200, m))
    for t in range(T + 200):
        x = A @ x + q * rng.standard_normal(4)
        Y[t] = C @ x + noise * rng.standard_normal(m)
    return Y[200:]


def _error(A: np.ndarray) -> float:
    distance = np.abs(np.linalg.eigvals(A)[:, None] - np.concatenate([POLES, POLES.conj()]))
    return float(distance[linear_sum_assignment(distance)].mean())


def _eigenvalues(report: Report) -> None:
    report.title(f"eigenvalue error, two damped pairs, m=6, q=.3: median of {SEEDS} seeds, over the better nfoursid")
    try:
        import pandas as pd
        from nfoursid.nfoursid import NFourSID
    except ImportError:
        report.note("skipped: nfoursid is not installed")
        return
    within = 0
    for T in (200, 1000):
        for noise in (0.0, 0.3, 1.0):
            X = [damped_pairs(T, noise, seed) for seed in range(SEEDS)]
            peers = []
            for rows in (5, 10):
                errors = []
                for x in X:
                    frame = pd.DataFrame(x - x.mean(axis=0), columns=[f"y{j}" for j in range(x.shape[1])])
                    peer = NFourSID(frame, output_columns=list(frame.columns), num_block_rows=rows)
                    peer.subspace_identification()
                    errors.append(_error(peer.system_identification(rank=4)[0].a))
                peers.append(float(np.median(errors)))
            for method, most in (("pca", None), ("n4sid", 1.1), ("em", None)):
                identifier = LDSIdentifier(4, stabilizer="CG", scale=False, method=method)
                error = float(np.median([_error(A) for A in identifier.fit_transform(X).A]))
                name = f"T={T} noise={noise}: {method}, error {error:.4f} against {peers[0]:.4f}, {peers[1]:.4f}"
                if most is None:
                    report.row(name, error / min(peers))
                else:
                    report.row(name, error / min(peers), most=most)
                within += method == "em" and error <= min(peers)
    report.row("em: cells of six with at most the error of nfoursid", within, least=5)


def _coverage(report: Report) -> None:
    report.title("coverage of 90 % forecast intervals, h = 1 to 20 after T = 200, 20 seeds")
    for noise in (0.0, 0.3, 1.0):
        X = [damped_pairs(220, noise, 100 + seed) for seed in range(SEEDS)]
        seen, ahead = [x[:200] for x in X], np.stack([x[200:] for x in X])
        for method in ("n4sid", "em"):
            identifier = LDSIdentifier(4, stabilizer="CG", method=method).fit(seen)
            mean, std = identifier.forecast(seen, 20, return_std=True)
            share = float(np.mean(np.abs(ahead - mean) < 1.6449 * std))
            report.row(f"noise={noise}: {method}", share, least=0.86, most=0.94)
