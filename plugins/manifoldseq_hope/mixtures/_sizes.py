"""Sizes of a model, K components in M dimensions."""

from typing import Any

SPARSE_AXES = 100
"""The most axes that ``n_latent="auto"`` takes of sparse rows: what scikit-learn recommends for text."""


def latent_dimension(n_latent: Any, D: int, most: int) -> Any:
    """Return M for rows of D columns: half of them for ``"auto"``, but at most so many as the rows allow."""
    return max(1, min(D // 2, most)) if isinstance(n_latent, str) and n_latent == "auto" else n_latent
