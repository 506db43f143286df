"""The executors on shards of 50 MB, as ``benchmarks.engine.executors`` measures them."""

from __future__ import annotations

from importlib import util

from ._session import Session


def run(session: Session) -> None:
    """Measure, unless this is a smoke run: the shards take 400 MB twice, and there are two processes."""
    if session.quick or not util.find_spec("distributed"):
        session.report.skipped.append("executors" if session.quick else "executors, since distributed is not installed")
        return
    from . import executors

    session.report.title("executors, wall seconds")
    for row in executors.run():
        bound = float(row.target.lstrip("<>= "))
        least = bound if row.target.startswith((">", "=")) else None
        session.report.row(row.what, row.measured, least=least, most=bound if row.target.startswith("<") else None)
