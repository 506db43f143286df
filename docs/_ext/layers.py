"""The picture of the layers of the package, drawn from the contracts of import-linter in pyproject.toml."""

import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]

WIDTH, HEIGHT, GAP, TOP = 420, 62, 8, 46  # narrow: it is read on a phone too
LEFT, RIGHT = 16, 372  # edges; the arrow of the imports is to the right of them
SAYS = {
    "cli": "commands",
    "catalogue": "the core's records",
    "testing": "conformance checks",
    "batch": "many at once",
    "_mean": "centre of mass",
    "_minimize": "problem + solver",
    "_iterate": "the one loop",
    "solvers": "how",
    "_start": "from where",
    "_problem": "both",
    "_riemannian": "derivatives",
    "_residual_system": "residuals on manifolds",
    "poses": "pose graphs",
    "_observers": "watch",
    "report": "show",
    "estimators": "starts, checks",
    "evaluation": "how good",
    "reproduction": "rows, parts",
    "kernels": "similarity",
    "interop": "pymanopt",
    "torch": "layers",
    "objectives": "what",
    "manifolds": "where",
    "_stopping": "until when",
    "storage": "files",
    "linalg": "polar, Stein, …",
    "hooks": "find by name",
    "losses": "robust losses",
    "models": "parts, estimators",
    "_result": "answers",
    "execution": "maps, sums",
    "_checks": "parameters",
    "_quoted": "values in messages",
    "_extras": "what to install for more",
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
    rows = layers()
    top = 148
    height = top + len(rows) * (HEIGHT + GAP) + 14
    parts = [
        f'<svg class="layers" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="layers-title"'
        ' xmlns="http://www.w3.org/2000/svg">',
        '<title id="layers-title">Layers: plugins above, modules of the core below, imports point down</title>',
        '<defs><marker id="layers-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
        ' orient="auto"><path class="tip" d="M0 0 10 5 0 10z"/></marker></defs>',
        *_plugins([*plugins(), "your plugin"]),
        f'<path class="package" d="M{LEFT} {top - 8} {(LEFT + RIGHT) / 2} {top - 8 - TOP} {RIGHT} {top - 8}z"/>',
        _text((LEFT + RIGHT) / 2, top - 20, "import manifoldseq as ms", "name"),
    ]
    for number, names in enumerate(rows):
        parts += _layer(top + number * (HEIGHT + GAP), names)
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
        yield _text(x + width / 2, 26, name, "name")
    middle = (LEFT + RIGHT) / 2
    yield f'<path class="arrow" d="M{middle} 42 V88"/>'
    yield _text(middle - 10, 62, "public names only", "says", "end")
    yield _text(middle + 10, 62, "found by hooks", "says", "start")


def _layer(y: float, names: list[str]) -> Iterator[str]:
    yield f'<rect class="layer" x="{LEFT}" y="{y}" width="{RIGHT - LEFT}" height="{HEIGHT}"/>'
    width = (RIGHT - LEFT - GAP * (len(names) + 1)) / len(names)
    for i, name in enumerate(names):
        x = LEFT + GAP + i * (width + GAP)
        yield f'<rect class="box" x="{x}" y="{y + 8}" width="{width}" height="{HEIGHT - 16}" rx="4"/>'
        yield _text(x + width / 2, y + 28, name, "name")
        yield _text(x + width / 2, y + 45, SAYS.get(name, ""), "says")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
