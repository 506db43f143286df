"""Ticks of logarithmic axes: at least two with a label, whatever the range of the axis is."""

from typing import Any

import numpy as np
from matplotlib.ticker import Formatter, LogLocator, MaxNLocator

_STEPS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), tuple(map(float, range(1, 10))))
"""Multiples of powers of ten that have ticks, from few to many."""


class LogTicks(LogLocator):
    """Powers of ten, and multiples of them on axes with fewer than two powers of ten.

    Examples
    --------
    >>> LogTicks().tick_values(0.05, 2000.0).tolist()
    [0.1, 1.0, 10.0, 100.0, 1000.0]
    >>> LogTicks().tick_values(0.002, 0.02).tolist()
    [0.003, 0.01]
    >>> LogTicks().tick_values(1.24, 1.49).round(2).tolist()
    [1.25, 1.3, 1.35, 1.4, 1.45]
    """

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks in a range of the axis."""
        low, high = sorted((vmin, vmax))
        for multiples in _STEPS:
            self.set_params(subs=multiples)
            ticks = np.asarray(super().tick_values(vmin, vmax))
            ticks = ticks[(low <= ticks) & (ticks <= high)]
            if len(ticks) >= 2:
                return ticks
        ticks = np.asarray(MaxNLocator(nbins=4).tick_values(low, high))
        return ticks[(low <= ticks) & (ticks <= high)]


class LogLabels(Formatter):
    """Plain numbers on axes between 0.001 and 10,000, and powers of ten elsewhere."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of a tick."""
        axis: Any = self.axis
        low, high = sorted(axis.get_view_interval())
        if low >= 0.999e-3 and high <= 1.001e4:
            return f"{x:.6g}"
        digits, _, power = f"{x:.5e}".partition("e")
        factor = "" if float(digits) == 1 else rf"{float(digits):g} \times "
        return f"${factor}10^{{{int(power)}}}$"
