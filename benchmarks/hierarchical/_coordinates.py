"""The number of coordinates m at data scales, dtypes and offsets, compared with the number of negative eigenvalues."""

import numpy as np

from manifoldseq_hierarchical import SubspaceEncoder

from .._report import Report
from ._problems import frames, printed_sigma


def run(report: Report) -> None:
    """Measure."""
    h = 10
    report.title(f"m for {h} classes (right: {h - 1}): scales 1e-3 to 1e3, float64 and float32, offsets 0 and 100")
    for d in (64, 256, 1024, 4096):
        X, codes = frames(2000, d, h)
        wrong, cases = 0, 0
        for dtype in (np.float64, np.float32):
            for scale in (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3):
                for offset in (0, 100):
                    data = (scale * (X + offset)).astype(dtype)
                    wrong += len(SubspaceEncoder().fit(data, codes).components_) != h - 1
                    cases += 1
        report.row(f"d={d}: wrong of {cases}", wrong, "d", most=0)
        if d <= 1024:
            eigenvalues = np.linalg.eigvalsh(printed_sigma(X, codes, h)[0])
            report.row(f"d={d}: negative eigenvalues of Sigma as printed, float64", int((eigenvalues < 0).sum()), "d")
