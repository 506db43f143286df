"""The table of architecture.md that says which estimator minimizes which registered model, and how.

``python docs/_ext/models_table.py`` writes it anew into the page; a test compares it with the records.
"""

from __future__ import annotations

from pathlib import Path

from manifoldseq import hooks

PAGE = Path(__file__).parents[1] / "develop" / "architecture.md"
BEGIN, END = "<!-- from the records: begin -->\n", "<!-- from the records: end -->\n"


def table() -> str:
    """Return the table: one row per estimator and model, bundled plugins only."""
    rows = ["| estimator | model | closed-form starts | block updates | solver |", "|---|---|---|---|---|"]
    for plugin, record in hooks.records("estimators"):
        if plugin.distribution.startswith("manifoldseq"):
            rows += [_row(record, hooks.get_model(name)) for name in record.models]
    return "\n".join(rows) + "\n"


def _row(record: hooks.EstimatorSpec, model: hooks.ModelSpec) -> str:
    starts = ", ".join(f"{name} (the minimum)" if name in model.exact else name for name in model.initializers)
    factory = record.resolved().factory
    default = getattr(factory(), "solver", "") or model.solver or "the default of `minimize`"
    return f"| `{factory.__name__}` | `{model.name}` | {starts} | {', '.join(model.updates) or '–'} | {default} |"


def replaced(text: str) -> str:
    """Return the page with the table of the records."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
