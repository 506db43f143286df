"""The picture of the layers of the package, drawn from the contracts of import-linter in pyproject.toml."""

import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]

WIDTH, HEIGHT, GAP = 420, 46, 8  # narrow: it is read on a phone too
MOST = 4  # modules in a row of boxes; a layer with more has several rows
LEFT, RIGHT = 6, 376  # edges; the arrow of the imports is to the right of them
SAYS = {
    "__main__": "python -m manifoldseq",
    "cli": "commands",
    "catalogue": "the core's records",
    "testing": "conformance checks",
    "batch": "many problems",
    "_mean": "Fréchet mean",
    "_implicit": "derivatives",
    "_minimize": "problem + solver",
    "_iterate": "main loop",
    "solvers": "algorithms",
    "_start": "starts",
    "_problem": "problems",
    "_riemannian": "derivatives",
    "_residual_system": "residuals",
    "poses": "pose graphs",
    "_observers": "progress",
    "report": "figures",
    "estimators": "starts, checks",
    "evaluation": "quality",
    "reproduction": "rows, parts",
    "kernels": "similarity",
    "interop": "pymanopt",
    "torch": "layers",
    "objectives": "functions",
    "manifolds": "geometry",
    "_stopping": "rules",
    "storage": "files",
    "linalg": "polar, Stein, …",
    "hooks": "plugins",
    "losses": "robust losses",
    "models": "parts, estimators",
    "_result": "results",
    "execution": "maps, sums",
    "_checks": "parameters",
    "_copies": "frozen dataclasses",
    "_lazy": "lazy names",
    "_quoted": "values in messages",
    "_extras": "optional packages",
}


def layers() -> list[list[str]]:
    """Return the modules of each layer, from the top down."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def plugins() -> list[str]:
    """Return the packages of the models; `manifoldseq_papers`, which uses them, is none."""
    folders = sorted(file.parent.name for file in (ROOT / "plugins").glob("*/pyproject.toml"))
    return [name for name in folders if name != "manifoldseq_papers"]


def draw() -> str:
    """Return the picture as SVG; colours are those of the page, by CSS classes."""
    rows = [_boxes(names) for names in layers()]
    top = 148
    height = top + sum(_height(boxes) + GAP for boxes in rows) + 14
    parts = [
        f'<svg class="layers" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="layers-title"'
        ' xmlns="http://www.w3.org/2000/svg">',
        '<title id="layers-title">Layers: plugins above, modules of the core below, imports point down</title>',
        '<defs><marker id="layers-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
        ' orient="auto"><path class="tip" d="M0 0 10 5 0 10z"/></marker></defs>',
        *_plugins([*plugins(), "your plugin"]),
        f'<rect class="package" x="{LEFT}" y="{top - 54}" width="{RIGHT - LEFT}" height="{HEIGHT}"/>',
        _text((LEFT + RIGHT) / 2, top - 27, "import manifoldseq as ms", "name"),
    ]
    y = top
    for boxes in rows:
        parts += _layer(y, boxes)
        y += _height(boxes) + GAP
    middle, foot = top + (height - top) / 2, height - 18
    parts += [
        f'<path class="arrow" d="M{RIGHT + 16} {top + 4} V{foot}"/>',
        f'<text class="says" transform="translate({RIGHT + 34} {middle}) rotate(90)" text-anchor="middle">'
        "imports point down</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _plugins(names: list[str]) -> Iterator[str]:
    width = (RIGHT - LEFT - GAP * (len(names) - 1)) / len(names)
    for i, name in enumerate(names):
        x = LEFT + i * (width + GAP)
        yield f'<rect class="plugin" x="{x}" y="4" width="{width}" height="34" rx="4"/>'
        yield _text(x + width / 2, 26, name.removeprefix("manifoldseq_"), "says")
    middle = (LEFT + RIGHT) / 2
    yield f'<path class="arrow" d="M{middle} 42 V88"/>'
    yield _text(middle - 10, 62, "public names only", "says", "end")
    yield _text(middle + 10, 62, "found by hooks", "says", "start")


def _boxes(names: list[str]) -> list[list[str]]:
    """Return the modules of a layer in as few rows as possible, of nearly equal lengths."""
    rows = -(-len(names) // MOST)
    return [names[len(names) * i // rows : len(names) * (i + 1) // rows] for i in range(rows)]


def _height(boxes: list[list[str]]) -> float:
    return GAP + len(boxes) * (HEIGHT + GAP)


def _layer(y: float, boxes: list[list[str]]) -> Iterator[str]:
    yield f'<rect class="layer" x="{LEFT}" y="{y}" width="{RIGHT - LEFT}" height="{_height(boxes)}"/>'
    for row, names in enumerate(boxes):
        width = (RIGHT - LEFT - GAP * (len(names) + 1)) / len(names)
        top = y + GAP + row * (HEIGHT + GAP)
        for i, name in enumerate(names):
            x = LEFT + GAP + i * (width + GAP)
            yield f'<rect class="box" x="{x}" y="{top}" width="{width}" height="{HEIGHT}" rx="4"/>'
            yield _text(x + width / 2, top + 20, name, "name")
            yield _text(x + width / 2, top + 37, SAYS.get(name, ""), "says")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
