"""Private latent vectors compared with the other kinds of noise: imputation, the power of the gate, many columns.

MANIFOLDSEQ_SPLITS random halves (2 by default) of two pairs of views of the UCI numerals, as in `imputation`.
"""

import os
import time
import warnings
from typing import Any

import numpy as np

from manifoldseq_mpcca import MixturePCCA
from manifoldseq_mpcca._choice import GATES
from manifoldseq_mpcca._numerals import multiple_features

from .._report import Report
from ._imputation import SPLITS, halves, score

Array = np.ndarray

PAIRS = ("fou->kar", "zer->fou")
TYPES = ("shrunk", "low-rank", "diag", "full")
FIXED: dict[str, tuple[str, dict[str, Any]]] = {
    "shrunk": ("shrunk", {"shrinkage": 200.0, "diagonal": 0.2}),
    **{
        f"low-rank, {q} private dimensions": ("low-rank", {"n_private": q, "shrinkage": 200.0, "diagonal": 0.2})
        for q in (0, 5, 20)
    },
    "low-rank, 20 private dimensions, no prior": ("low-rank", {"n_private": 20, "shrinkage": 0.0, "diagonal": 0.0}),
    "diag": ("diag", {}),
}
"""Settings whose R² is measured at each power of the gate; K is 20 and d is 5."""
COLUMNS = 300


def run(report: Report) -> None:
    """Measure."""
    folder = os.environ.get("MANIFOLDSEQ_DATA")
    mfeat, _ = multiple_features(None if folder is None else f"{folder}/mfeat")
    for pair in PAIRS:
        splits = [halves(pair, mfeat, seed) for seed in range(SPLITS)]
        report.title(f"{pair}: R² at powers of the gate, K = 20, d = 5, mean of {SPLITS} splits")
        for name, (kind, options) in FIXED.items():
            found = np.mean([of_gates(kind, options, *split) for split in splits], axis=0)
            for gate, value in zip(GATES, found, strict=True):
                report.row(f"{name}, gate {gate:g}", float(value), ".3f")
        report.title(f"{pair}: R² with all settings chosen, mean of {SPLITS} splits")
        for kind in TYPES:
            begin = time.process_time()
            found = []
            for X, Y, X_test, Y_test in splits:
                model = MixturePCCA(covariance_type=kind, target=1, random_state=0).fit(X, Y)
                found.append(score(model.impute(X_test, None)[1], Y_test))
                report.note(f"{kind}: {model.mixture_!r}, gate {model.gate_:g}, R² {found[-1]:.4f}")
            report.row(kind, float(np.mean(found)), ".3f")
            report.row(f"{kind}, CPU seconds of a fit", (time.process_time() - begin) / SPLITS, ".1f")
    X, Y, X_test, Y_test = wide(COLUMNS)
    report.title(f"{COLUMNS} + {COLUMNS} columns that share ten dimensions, 300 rows: CPU seconds of a fit, R²")
    for kind in TYPES[:3]:  # "full" was not done after minutes
        begin = time.process_time()
        model = MixturePCCA(covariance_type=kind, random_state=0).fit(X, Y)
        report.row(f"{kind}, CPU seconds with all settings chosen", time.process_time() - begin, ".1f")
        report.row(f"{kind}, R²", score(model.impute(X_test, None)[1] - Y.mean(axis=0), Y_test - Y.mean(axis=0)), ".3f")
    report.title("one fit of K = 5, d = 5, 15 iterations to 300 rows: CPU seconds")
    for columns in (300, 1000, 3000):
        X, Y, *_ = wide(columns)
        for name, kind, options in (
            ("shrunk", "shrunk", {"shrinkage": 200.0, "diagonal": 0.2}),
            ("low-rank, 5 private dimensions", "low-rank", {"n_private": 5, "shrinkage": 200.0, "diagonal": 0.2}),
            ("diag", "diag", {}),
        ):
            if kind == "shrunk" and columns > 300:
                continue  # 15 iterations with matrices of all columns
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # components of one Gaussian may empty
                MixturePCCA(5, 5, covariance_type=kind, gate=1.0, max_iter=15, random_state=0, **options).fit(X, Y)
            report.row(f"{columns} + {columns} columns, {name}", time.process_time() - begin, ".1f")


def of_gates(kind: str, options: dict[str, Any], X: Array, Y: Array, X_test: Array, Y_test: Array) -> list[float]:
    """Return R² at each power of the gate."""
    model = MixturePCCA(20, 5, covariance_type=kind, gate=1.0, max_iter=15, random_state=0, **options).fit(X, Y)
    found = []
    for gate in GATES:
        model.gate_ = gate  # the fit does not depend on it
        found.append(score(model.impute(X_test, None)[1], Y_test))
    return found


def wide(columns: int) -> list[Array]:
    """Return X and Y of 300 rows to fit to, and of 300 others."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((600, 10))
    views = [z @ rng.standard_normal((10, columns)) + 0.3 * rng.standard_normal((600, columns)) for _ in range(2)]
    return [views[0][:300], views[1][:300], views[0][300:], views[1][300:]]
