"""From frames and labels to V: the closed form, clustpy's update, and Sigma with a partial eigendecomposition."""

import subprocess
import sys

import numpy as np
import scipy.linalg

from manifoldseq_hierarchical import SubspaceEncoder

from .._report import Report, interleaved
from ._problems import frames, printed_sigma

N, D, H = 10_000, 1024, 50

PEAK = """
import numpy as np, tracemalloc
from manifoldseq_hierarchical import SubspaceEncoder
X, y = np.random.default_rng(0).standard_normal((2000, 3000)), np.arange(2000) % 50
SubspaceEncoder().fit(X[:100], y[:100])
tracemalloc.start()
SubspaceEncoder().fit(X, y)
print(tracemalloc.get_traced_memory()[1])
"""


def run(report: Report) -> None:
    """Measure."""
    report.title(f"from frames and labels to V: N={N}, d={D}, h={H}")
    X, codes = frames(N, D, H)
    encoder = SubspaceEncoder()

    def partial() -> np.ndarray:
        return scipy.linalg.eigh(printed_sigma(X, codes, H)[0], subset_by_index=(0, H - 2))[1]

    functions = {
        "ours": lambda: encoder.fit(X, codes),
        "ours, full": lambda: encoder.fit(X, codes).rotation(),
        "partial": partial,
    }
    peers = _clustpy(X, codes)
    if peers is None:
        report.note("clustpy is not installed (pip install --no-deps clustpy, and pandas): its rows are left out")
        report.skipped.append("clustpy's update")
    seconds = interleaved({**functions, **(peers or {})}, repeat=9)
    ours = seconds["ours"]
    report.row("milliseconds, SubspaceEncoder.fit: V_m, means, m", 1e3 * np.median(ours))
    report.row("milliseconds, the whole V as well", 1e3 * np.median(seconds["ours, full"]))
    for name, what, target in (
        ("clustpy", "clustpy's update in its loop: means, S_w, V (full; S_0 known)", 40),
        ("clustpy, S_0 too", "clustpy's update with S_0 too", None),
        ("partial", "Sigma and eigh with subset_by_index, the same m columns", 30),
    ):
        if name in seconds:
            report.row(f"milliseconds, {what}", 1e3 * np.median(seconds[name]))
            report.row("times faster than that", float(np.median(seconds[name] / ours)), least=target)
    if peers:
        report.row("times faster with the whole V", float(np.median(seconds["clustpy"] / seconds["ours, full"])))
    gap = np.abs(encoder.fit(X, codes).components_.T @ encoder.components_ - (V := partial()) @ V.T).max()
    report.row("difference of the projectors", gap, ".1e", most=1e-12)
    peak = int(subprocess.run([sys.executable, "-c", PEAK], check=True, capture_output=True, text=True).stdout)
    report.row("peak megabytes of a fit at d=3000, h=50 (3000 x 3000 doubles: 72)", peak / 1e6, ".1f", most=36)


def _clustpy(X: np.ndarray, codes: np.ndarray) -> dict | None:
    """Return the update of its SubKmeans, as its own loop calls it, with a rotation to start from."""
    try:
        from clustpy.alternative import nrkmeans
    except ImportError:
        return None
    V = np.linalg.qr(np.random.default_rng(1).standard_normal((D, D)))[0]
    P = [np.arange(D // 2), np.arange(D // 2, D)]
    _, S_0 = nrkmeans._update_centers_and_scatter_matrix(X, 1, np.zeros(N, int))

    def update(S_0: np.ndarray = S_0) -> None:
        _, S_w = nrkmeans._update_centers_and_scatter_matrix(X, H, codes)
        nrkmeans._update_rotation(X, V, 0, 1, [H, 1], P, [S_w, S_0], -1e-7, False, False, np.zeros(2), None, None)

    def both() -> None:
        update(nrkmeans._update_centers_and_scatter_matrix(X, 1, np.zeros(N, int))[1])

    return {"clustpy": update, "clustpy, S_0 too": both}
