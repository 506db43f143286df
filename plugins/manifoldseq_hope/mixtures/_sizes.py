"""Sizes of a model, K components in M dimensions."""

from typing import Any

SPARSE_AXES = 100
"""Maximum number of axes of ``n_latent="auto"`` for sparse rows, as scikit-learn recommends for text."""


def latent_dimension(n_latent: Any, D: int, most: int) -> Any:
    """Return M for rows of D columns; ``"auto"`` is half of the columns, limited by the number of rows."""
    return max(1, min(D // 2, most)) if isinstance(n_latent, str) and n_latent == "auto" else n_latent
