"""Write measured times into the benchmark page of solvers: its table and its figure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from . import _profile

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, FIGURE = DOCS / "benchmarks" / "solvers.md", DOCS / "_static" / "engine-profile.svg"
BEGIN, END = "<!-- measured by make bench-engine -->", "<!-- end of what was measured -->"


def table(race: list[dict[str, Any]]) -> str:
    """Return seconds per problem and contestant in Markdown; the fastest is bold, a dash means not solved."""
    lines = ["| CPU seconds (evaluations) | " + " | ".join(one["problem"] for one in race) + " |"]
    lines.append("|---|" + "---|" * len(race))
    for name in _profile.ordered(race):
        cells = []
        for contestants in (one["contestants"] for one in race):
            fastest = min((one["seconds"] for one in contestants.values() if one["solved"]), default=None)
            mine = contestants.get(name)
            if mine is None or not mine["solved"]:
                cells.append("–")
                continue
            seconds = f"{mine['seconds']:.2g}"
            seconds = f"**{seconds}**" if mine["seconds"] == fastest else seconds
            cells.append(f"{seconds} ({mine['gradients'] + mine['hessians']:.0f})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def update(race: list[dict[str, Any]], versions: str) -> None:
    """Write the table into the page, and the figure into its folder."""
    text = PAGE.read_text(encoding="utf-8")
    block = f"{BEGIN}\n\n{table(race)}\n\n{versions}\n\n{END}"
    new, found = re.subn(f"{BEGIN}.*?{END}", lambda _: block, text, flags=re.DOTALL)
    if found != 1:
        raise ValueError(f"{PAGE} has no place for the table: put {BEGIN} and {END} into it")
    PAGE.write_text(new, encoding="utf-8")
    _profile.draw(race, FIGURE)
