"""The closed form against the full eigendecomposition of Sigma."""

import numpy as np

from manifoldseq_hierarchical import SubspaceEncoder

from .._report import Report
from ._problems import frames, printed_sigma

SIZES = ((2000, 64, 10), (2000, 256, 50), (4000, 1024, 50), (1000, 40, 60))


def run(report: Report) -> None:
    """Measure."""
    report.title("closed form against numpy.linalg.eigh of the d x d matrix Sigma")
    errors = {"F, relative": [], "projector": [], "orthogonality": []}
    for N, d, h in SIZES:
        X, codes = frames(N, d, h)
        model = SubspaceEncoder().fit(X, codes)
        Sigma, S_0 = printed_sigma(X, codes, h)
        eigenvalues, Q = np.linalg.eigh(Sigma)
        V, m = model.components_.T, len(model.components_)
        F = np.trace(S_0) + eigenvalues[:m].sum()
        errors["F, relative"].append(abs(model.energy_ / F - 1))
        errors["projector"].append(np.abs(V @ V.T - Q[:, :m] @ Q[:, :m].T).max())
        errors["orthogonality"].append(np.abs(V.T @ V - np.eye(m)).max())
    for (what, values), target in zip(errors.items(), (1e-12, 1e-12, 1e-13), strict=True):
        report.row(f"largest difference of {len(SIZES)} problems, {what}", max(values), ".1e", most=target)
