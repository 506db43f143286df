"""What a checker hands back: one verdict per law."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Verdict = tuple[bool, str]
"""Whether a law holds, and the figure or the sentence to show for it."""


@dataclass(frozen=True)
class Law:
    """One law and whether it holds.

    Attributes
    ----------
    name : str
    ok : bool
    detail : str
        The figure, or what failed and where.
    """

    name: str
    ok: bool
    detail: str = ""

    def __str__(self) -> str:
        text = f"{self.name}: {self.detail}" if self.detail else self.name
        return f"ok      {text}" if self.ok else f"FAILED  {text}"


@dataclass(frozen=True)
class Report:
    """The laws that one object was checked against; printed, one line per law.

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

    def law(self, name: str, test: Callable[[], Verdict]) -> bool:
        """Judge one law and return whether it holds."""
        try:
            ok, detail = test()
        except Exception as error:
            ok, detail = False, raised(error)
        self._laws.append(Law(name, bool(ok), detail))
        return bool(ok)

    def part(self, name: str, judge: Callable[[Examination], None]) -> None:
        """Let `judge` add laws, their names preceded by that of the part; its exception is a failure of the part."""
        inner = Examination(name)
        try:
            judge(inner)
        except Exception as error:
            inner._laws.append(Law("can be checked", False, raised(error)))
        self._laws += [Law(f"{name}: {law.name}" if name else law.name, law.ok, law.detail) for law in inner._laws]

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
    """Return a failure with that sentence, or that the law holds if there is none."""
    return (not failure, failure or "")
