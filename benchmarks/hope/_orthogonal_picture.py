"""Draw the table of docs/benchmarks/orthogonal-layers.md: ``python -m benchmarks.hope._orthogonal_picture``."""

import io
import re
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

DOCS = Path(__file__).parents[2] / "docs"


def main() -> None:
    """Write docs/_static/orthogonal-layers.svg."""
    text = (DOCS / "benchmarks" / "orthogonal-layers.md").read_text(encoding="utf-8")
    rows = [re.split(r" \| ", line.strip("| ")) for line in text.split("---|\n")[1].split("\n\n")[0].splitlines()]
    names = [re.sub(r"`parametrizations\.orthogonal`, |`|\(.*\)", "", row[0]).strip() for row in rows]
    with matplotlib.rc_context({"svg.hashsalt": "manifoldseq"}):
        figure = Figure(figsize=(7, 2.8), layout="constrained")
        axes = figure.subplots()
        for column, shape in ((1, "100 × 784"), (2, "64 × 64 × 3 × 3")):
            values = [float(row[column].strip("*")) for row in rows]
            heights = [k + 0.4 * column - 0.6 for k in range(len(rows))]
            bars = axes.barh(heights, values, 0.38, label=shape)
            axes.bar_label(bars, [f" {value:g}" for value in values], fontsize="small")
        axes.set_yticks(range(len(rows)), [f"torch: {name}" if k > 2 else name for k, name in enumerate(names)])
        axes.set(xscale="log", xlabel="ms of CPU time per step", xlim=(0.5, 2000))
        axes.invert_yaxis()
        axes.legend(fontsize="small")
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    picture = re.sub(r" +$", "", file.getvalue(), flags=re.MULTILINE)
    (DOCS / "_static" / "orthogonal-layers.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
