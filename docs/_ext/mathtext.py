"""Formulas as inline SVG, set by matplotlib: readable offline, in the colour of the text."""

from html import escape

from docutils import nodes
from matplotlib import rc_context
from matplotlib.textpath import TextPath
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

SIZE, MARGIN = 100, 4  # units per em; space around
STEPS = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}  # matplotlib's codes of a path


def svg(formula: str, em: float = 1.0) -> str:
    """Return a formula of TeX's mathematics, without dollars, as an SVG that stands on the line; `em` is its size."""
    with rc_context({"mathtext.fontset": "stix"}):
        outline = TextPath((0, 0), f"${formula}$", size=SIZE)
    steps = [STEPS[code] + " ".join(f"{v:.1f}" for v in vertices) for vertices, code in outline.iter_segments()]
    path = "".join("Z" if step[0] == "Z" else step for step in steps)
    box = outline.get_extents().padded(MARGIN)
    unit = em / SIZE
    style = f"width:{box.width * unit:.3f}em;height:{box.height * unit:.3f}em;vertical-align:{box.y0 * unit:.3f}em"
    return (
        f'<svg role="img" aria-label="{escape(formula)}" style="{style}" fill="currentColor"'
        f' viewBox="{box.x0:.1f} {-box.y1:.1f} {box.width:.1f} {box.height:.1f}">'
        f'<path transform="scale(1 -1)" d="{path}"/></svg>'
    )


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula inside a line."""
    self.body.append(svg(node.astext()))
    raise nodes.SkipNode


def visit_display(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula of its own lines."""
    self.body.append("".join(f"<p>{svg(part, 1.2)}</p>" for part in node.astext().split("\n\n")))
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer of formulas."""
    app.add_html_math_renderer("mathtext", (visit_inline, None), (visit_display, None))
    app.config["html_math_renderer"] = "mathtext"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
