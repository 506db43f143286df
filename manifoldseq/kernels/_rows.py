"""Kernels as functions of row numbers, for scikit-learn's estimators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..hooks._kernels import Kernel, PackedItems
from ._algebra import as_kernel


class RowKernel:
    """A kernel function of row numbers for scikit-learn's estimators; the items are fixed.

    The items are packed once; ``kernel(X, Y)`` gives the values for the rows in X (N, 1) and Y (M, 1). Thus
    ``SVC(kernel=RowKernel("projection", systems)).fit(rows, y)`` works with ``rows = np.arange(N)[:, None]``, also in
    cross-validation and grid searches. Kernels that are not positive definite give a warning.

    Parameters
    ----------
    kernel : kernel object or registered name
    items : items of the kernel
    **params
        Parameters of a registered kernel.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> items = ms.hooks.get_domain("lds").example(np.random.default_rng(0))
    >>> ms.kernels.RowKernel("projection", items)(np.array([[0]]), np.array([[0], [1]])).shape
    (1, 2)
    """

    def __init__(self, kernel: Any, items: Any, **params: Any) -> None:
        self.kernel: Kernel = as_kernel(kernel, **params)
        self.packed: PackedItems = self.kernel.pack(items)
        warn_if_indefinite(self.kernel)

    def __call__(self, X: ArrayLike, Y: ArrayLike) -> NDArray[np.float64]:
        """Return the kernel of the items with these row numbers, (N, M)."""
        return self.kernel.cross(self.packed[_row_numbers(X)], self.packed[_row_numbers(Y)])

    def __deepcopy__(self, memo: Any) -> RowKernel:
        return self  # nothing in it changes: clones of an estimator share the packed items


def warn_if_indefinite(kernel: Kernel) -> bool:
    """Warn and return True if a kernel is not declared positive definite."""
    if kernel.positive_definite:
        return False
    warnings.warn(
        f"the kernel {kernel.name} is not positive definite: squared distances can be negative, and methods that "
        f"require a positive semidefinite matrix may converge to a local optimum",
        stacklevel=3,
    )
    return True


def _row_numbers(X: ArrayLike) -> NDArray[np.intp]:
    rows = np.asarray(X)
    if rows.ndim == 2 and rows.shape[1] == 1:
        rows = rows[:, 0]
    numbers = rows.astype(np.intp) if rows.ndim == 1 and rows.dtype.kind in "iuf" else None
    if numbers is None or not np.array_equal(numbers, rows):
        raise ValueError(f"rows have shape {rows.shape} and dtype {rows.dtype}: pass row numbers of shape (N, 1)")
    return numbers
