"""The report of a check: one verdict per law."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._extras import needing


class Curve(NamedTuple):
    """The error of a derivative for several step sizes, and the order with which the error must vanish."""

    steps: np.ndarray
    errors: np.ndarray
    order: int


Verdict = tuple[bool, str]
"""Whether a law holds, and the figure or the message for the report."""


class Measured(NamedTuple):
    """A verdict with the measured error."""

    ok: bool
    detail: str
    curve: Curve | None = None


@dataclass(frozen=True)
class Law:
    """One law and whether it holds.

    Attributes
    ----------
    name : str
    ok : bool
    detail : str
        A number that supports the result, or the description of the failure.
    curve : Curve, optional
        For a law about a derivative: ``steps``, ``errors`` and the ``order`` with which the errors must vanish.
    """

    name: str
    ok: bool
    detail: str = ""
    curve: Curve | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        text = f"{self.name}: {self.detail}" if self.detail else self.name
        return f"ok      {text}" if self.ok else f"FAILED  {text}"


@dataclass(frozen=True)
class Report:
    """The laws of one check; the text has one line per law.

    Attributes
    ----------
    subject : str
    laws : tuple of Law

    Examples
    --------
    >>> import manifoldseq as ms
    >>> report = ms.testing.check_manifold(ms.manifolds.Stiefel(4, 2))
    >>> report.ok, len(report.failures)
    (True, 0)
    """

    subject: str
    laws: tuple[Law, ...]

    @property
    def ok(self) -> bool:
        """Whether every law holds."""
        return all(law.ok for law in self.laws)

    @property
    def failures(self) -> tuple[Law, ...]:
        """The laws that do not hold."""
        return tuple(law for law in self.laws if not law.ok)

    def raise_for_failure(self) -> None:
        """Raise :class:`CheckFailed`, which shows this report, unless every law holds."""
        if not self.ok:
            raise CheckFailed(str(self))

    def plot(self, ax: Any = None) -> Any:
        """Draw the error of every checked derivative over the step size, with the required slope.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            By default, the axes of a new figure are used.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ValueError
            If no law of this report is about a derivative.

        Examples
        --------
        >>> import numpy as np, manifoldseq as ms
        >>> f = ms.objective(lambda x: np.sum(x**3), lambda x: 3 * x**2)
        >>> report = ms.testing.check_gradient((ms.manifolds.Euclidean(3), f))
        >>> ax = report.plot()  # doctest: +SKIP
        """
        drawn = [(law, law.curve) for law in self.laws if law.curve is not None]
        if not drawn:
            raise ValueError(f"the report on {self.subject} has no errors of derivatives to plot")
        if ax is None:
            with needing("figures need", "cli"):
                ax = import_module("matplotlib.pyplot").subplots()[1]
        for law, curve in drawn:
            errors = np.where(curve.errors > 0, curve.errors, np.nan)
            ax.loglog(curve.steps, errors, "-" if law.ok else "--", label=f"{law.name}: {law.detail}")
        for order in sorted({curve.order for _, curve in drawn}):
            top = max(float(np.nanmax(curve.errors)) for _, curve in drawn if curve.order == order)
            ends = np.array([max(drawn[0][1].steps[0], 1e-16 ** (1 / order)), drawn[0][1].steps[-1]])
            ax.loglog(ends, top * (ends / ends[-1]) ** order, ":", color="0.5", label=f"slope {order}")
        ax.set(xlabel="step size", ylabel="error of the Taylor expansion", title=self.subject)
        ax.legend(fontsize="small")
        return ax

    def __str__(self) -> str:
        head = "every law holds" if self.ok else f"{len(self.failures)} of {len(self.laws)} laws FAILED"
        return "\n".join([f"{self.subject}: {head}", *(f"  {law}" for law in self.laws)])


class CheckFailed(AssertionError):
    """Raised by :meth:`Report.raise_for_failure`; the message is the report."""


class Examination:
    """Collects the verdicts of one check; an exception inside a law is a failure of that law."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._laws: list[Law] = []

    def law(self, name: str, test: Callable[[], Verdict | Measured]) -> bool:
        """Check one law and return whether it holds."""
        try:
            outcome = test()
            verdict = outcome if isinstance(outcome, Measured) else Measured(*outcome)
        except Exception as error:
            verdict = Measured(False, raised(error))
        self._laws.append(Law(name, bool(verdict.ok), verdict.detail, verdict.curve))
        return bool(verdict.ok)

    def part(self, name: str, judge: Callable[[Examination], None]) -> None:
        """Let `judge` add laws, with the name of the part as a prefix; an exception is a failure of the part."""
        inner = Examination(name)
        try:
            judge(inner)
        except Exception as error:
            inner._laws.append(Law("can be checked", False, raised(error)))
        self._laws += [replace(law, name=f"{name}: {law.name}" if name else law.name) for law in inner._laws]

    def report(self) -> Report:
        """Return the frozen report."""
        return Report(self.subject, tuple(self._laws))


def raised(error: BaseException) -> str:
    """Return ``raised Type: message (file:line)`` of an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"raised {type(error).__name__}: {error}{where}"


def within(error: float, limit: float) -> Verdict:
    """Return whether an error is at most its limit (a NaN is not)."""
    error = float(error)
    return (True, f"{error:.1e}") if error <= limit else (False, f"error {error:.2g}, must be at most {limit:.0e}")


def unless(failure: str | None) -> Verdict:
    """Return a failure with the message, or success if there is none."""
    return (not failure, failure or "")
