"""Shared settings: a skip that nobody listed is a failure, and hypothesis repeats the same cases everywhere.

A test that fails because a bundled plugin is not installed is skipped: the tests of the other distributions pass
without it.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from manifoldseq.hooks import BUNDLED
from manifoldseq.hooks._bundled import is_installed

collect_ignore = ["strangers/packages"]

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--strict-skips``, which ``make test`` passes."""
    parser.addoption("--strict-skips", action="store_true", help="a skip not in tests/allowed_skips.txt fails")


@cache
def _allowed() -> tuple[str, ...]:
    lines = (Path(__file__).parent / "allowed_skips.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.split(" # ")[0].strip() for line in lines if line.strip() and not line.startswith("#"))


ABSENT = frozenset(bundled for bundled in BUNDLED if not is_installed(bundled))
_NEEDS = re.compile(r"No module named '(manifoldseq_[a-z]+)|\binstall (manifoldseq-[a-z]+)`")


def _reason(bundled: str) -> str:
    return f"{bundled} is not installed"


def _skip_without_plugin(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Skip what failed with an error message, in a traceback or in the output, that a bundled plugin is missing."""
    if not (ABSENT and report.failed):
        return
    # the commands that install a plugin are the end of every such message, which pytest never leaves out
    for found in _NEEDS.finditer("\n".join([str(report.longrepr), report.capstdout, report.capstderr])):
        bundled = (found[1] or found[2]).replace("_", "-")
        if bundled in ABSENT:
            report.outcome = "skipped"
            report.longrepr = (str(report.fspath), 0, f"Skipped: {_reason(bundled)}")
            return


class SkipsWithoutPlugin:
    """Skips the tests that need a bundled plugin which is not installed, doctests outside this directory too."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Look at a test."""
        report = yield
        _skip_without_plugin(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Look at a whole file."""
        report = yield
        _skip_without_plugin(report)
        return report

    def pytest_report_header(self) -> str:
        """Say which tests will be skipped."""
        return f"not installed, so the tests that need them are skipped: {', '.join(sorted(ABSENT))}"


def _fail_unlisted_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and not report.nodeid.startswith(_allowed()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        if str(reason).removeprefix("Skipped: ") in map(_reason, ABSENT - _others(report.nodeid)):
            return
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: {reason}; not listed in tests/allowed_skips.txt"


def _others(nodeid: str) -> set[str]:
    """Return the plugins that a test must do without: all but its own, if it is in the folder of a model's tests."""
    own = f"manifoldseq-{nodeid.removeprefix('tests/').partition('/')[0]}"
    return {*BUNDLED} - {own} if own in BUNDLED and own != "manifoldseq-papers" else set()


class StrictSkips:
    """Turns skips into failures, for doctests outside this directory too."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Look at a test."""
        report = yield
        _fail_unlisted_skip(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Look at a whole file."""
        report = yield
        _fail_unlisted_skip(report)
        return report


def pytest_configure(config: pytest.Config) -> None:
    """Register what judges skips, the strict mode if asked for; hear Ctrl-C, which background jobs start deaf to."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if ABSENT:
        config.pluginmanager.register(SkipsWithoutPlugin())
    if config.getoption("strict_skips"):
        config.pluginmanager.register(StrictSkips())
