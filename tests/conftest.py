"""Shared settings: a skip that nobody listed is a failure, and hypothesis repeats the same cases everywhere."""

from __future__ import annotations

import signal
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

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


def _refuse_unlisted_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and not report.nodeid.startswith(_allowed()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: {reason}; not listed in tests/allowed_skips.txt"


class StrictSkips:
    """Turns skips into failures, for doctests outside this directory too."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Look at a test."""
        report = yield
        _refuse_unlisted_skip(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Look at a whole file."""
        report = yield
        _refuse_unlisted_skip(report)
        return report


def pytest_configure(config: pytest.Config) -> None:
    """Register the strict mode when it is asked for; hear Ctrl-C, which a shell's background jobs start deaf to."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("strict_skips"):
        config.pluginmanager.register(StrictSkips())
