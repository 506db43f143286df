"""Figures as SVG in the colours of the page, stored as files that are safe to display."""

import io
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

from .. import hooks
from .._extras import needing
from ._sources import Fitted
from ._style import LIGHT

WIDE, SQUARE = (5.0, 3.2), (5.0, 4.4)  # inches
_INK = "#010203"  # stands for the text colour of the page, which a dark theme changes
_SVG = "http://www.w3.org/2000/svg"
_TAGS = {"svg", "g", "path", "defs", "clipPath", "rect", "use", "text", "tspan", "image"}
_WORDS = ("data-title", "data-caption", "aria-label")
_ACTIVE = re.compile(r"url\((?!#)|[a-z]+script:|https?:|@import|\\", re.IGNORECASE)
_MOST_BYTES = 4_000_000
_DIGITS = re.compile(r"(\.\d{3})\d+")  # beyond a thousandth of a point
_HEIGHTS = 40  # of bars that a description tells


@dataclass(frozen=True)
class Drawing:
    """A figure of a report.

    Parameters
    ----------
    name : str
        The name, which consists of letters, digits, ``.``, ``_`` and ``-``.
    title, caption : str
        The texts above the figure.
    description : str
        The alternative text of the figure.
    svg : str
        An SVG document whose colours are `currentColor` and ``var(--series-i)``.
    """

    name: str
    title: str
    caption: str
    description: str
    svg: str

    def inline(self, prefix: str) -> str:
        """Return the figure as an element of an HTML page, with ids that are made unique by a prefix."""
        root = ElementTree.fromstring(self.svg)
        for element in root.iter():
            element.tag = _bare(element.tag)
            for name, value in list(element.attrib.items()):
                if name == "id":
                    element.set("id", prefix + value)
                elif name.endswith("href") and value.startswith("#"):
                    element.set(name, f"#{prefix}{value[1:]}")
                elif "url(#" in value:
                    element.set(name, value.replace("url(#", f"url(#{prefix}"))
        for name in ("data-title", "data-caption"):
            root.attrib.pop(name, None)
        return ElementTree.tostring(root, encoding="unicode")


def drawn(name: str, caption: str, paint: Callable[[Any], object], size: tuple[float, float] = WIDE) -> Drawing:
    """Draw into new axes with ``paint(ax)``; the title of the axes becomes the title of the drawing.

    Axes of equal aspect and axes that contain other axes get the size `SQUARE`.
    """
    with needing("figures need", "cli"):
        from matplotlib import rc_context
        from matplotlib.figure import Figure

    with rc_context(_settings(name)):
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.subplots()
        paint(ax)
        title = ax.get_title() or name.replace("-", " ").capitalize()
        ax.set_title("")
        if ax.get_aspect() == 1 or ax.child_axes:
            figure.set_size_inches(*SQUARE)
            figure.draw_without_rendering()  # a layout with equal aspects takes two passes
        description = f"{title}. {_description(ax)}"
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing, bbox_inches="tight", pad_inches=0.05)
    words = {"role": "img", "data-title": title, "data-caption": caption, "aria-label": description}
    return Drawing(name, title, caption, description, _tidy(buffer.getvalue(), words))


def draw_plots(fitted: Fitted, plots: Iterable[str] | None = None) -> list[Drawing]:
    """Draw the registered plots of a fitted estimator.

    Parameters
    ----------
    fitted : Fitted
    plots : iterable of str, optional
        Names of registered plots; by default ``"choice"``, the compared settings, and the plots in the record of the
        estimator. Plots that do not accept `fitted` are skipped.

    Returns
    -------
    list of Drawing

    Warns
    -----
    RuntimeWarning
        If a plot fails; the others are drawn.
    """
    drawings = []
    for name in plots_of(fitted.estimator) if plots is None else plots:
        try:
            record = hooks.get_plot(name)
            if record.accepts(fitted):
                drawings.append(_drawn_plot(record, fitted))
        except Exception as error:
            warnings.warn(f"plot {name!r} failed ({type(error).__name__}: {error})", RuntimeWarning, stacklevel=2)
    return drawings


def _drawn_plot(record: hooks.PlotSpec, fitted: Fitted) -> Drawing:
    caption = f"{record.summary.rstrip('.')}." if record.summary else ""
    return drawn(record.name, caption, lambda ax: record.draw(ax, fitted))


def plots_of(estimator: Any) -> tuple[str, ...]:
    """Return the plot of a choice and the plots in the record of an estimator's class, or none without a record."""
    found = hooks.record_of(estimator)
    return () if found is None else ("choice", *found[1].plots)


def parsed(name: str, text: str) -> Drawing:
    """Parse the SVG of a drawing, and raise an error for elements that drawings do not have.

    Raises
    ------
    ValueError
        If the text is not SVG, or has elements, links or scripts that a figure does not need.
    """
    if len(text) > _MOST_BYTES or "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError(
            f"the figure {name!r} is too long or has a document type declaration: save a smaller figure without a "
            "declaration"
        )
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"the figure {name!r} is not SVG ({error})") from error
    for element in root.iter():
        if _bare(element.tag) not in _TAGS or not str(element.tag).startswith(f"{{{_SVG}}}"):
            raise ValueError(f"the figure {name!r} has an element {_bare(element.tag)!r}, which drawings must not have")
        for attribute, value in element.attrib.items():
            link = attribute.endswith("href") and not value.startswith(("#", "data:image/png;base64,"))
            active = attribute.startswith("on") or (attribute not in _WORDS and _ACTIVE.search(value))
            if link or active:
                raise ValueError(f"the figure {name!r} has {attribute}={value[:40]!r}, which drawings must not have")
    title, caption, description = (root.get(word, "") for word in _WORDS)
    return Drawing(name, title or name, caption, description, text)


def _bare(tag: Any) -> str:
    return str(tag).rpartition("}")[2]


def _settings(name: str) -> Any:
    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    return {
        **dict.fromkeys(ink, _INK),
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 11,
        "font.family": "sans-serif",
        "legend.frameon": False,
        "legend.fontsize": 10,
        "axes.linewidth": 0.8,
        "image.composite_image": False,
    }


def _tidy(svg: str, words: dict[str, str]) -> str:
    """Return an SVG document of matplotlib in the colours of the theme, without parts that a page does not need."""
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"('[^']*', )+[^;\"]*sans-serif", "sans-serif", svg)
    for i, colour in enumerate(LIGHT):
        svg = svg.replace(colour, f"var(--series-{i}, {colour})")
    svg = re.sub(r"\s+", " ", svg.replace(_INK, "currentColor")).replace("> <", "><").replace("xlink:href", "href")
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    root = ElementTree.fromstring(svg)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    for element in root.iter():
        element.tag = _bare(element.tag)
        for name, value in element.attrib.items():
            if name != "href":
                element.set(name, _DIGITS.sub(r"\1", value))
    for name, value in {"xmlns": _SVG, "stroke-linejoin": "round", "stroke-linecap": "butt", **words}.items():
        root.set(name, value)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _description(ax: Any) -> str:
    """Describe the axes: labels, the ends of each named or single line, and the sizes of bars."""
    from matplotlib.container import BarContainer

    parts = []
    for one in (ax, *ax.child_axes):
        parts += [f"Horizontal: {one.get_xlabel()}."] * bool(one.get_xlabel())
        parts += [f"Vertical: {one.get_ylabel()}."] * bool(one.get_ylabel())
        lines = [line for line in one.get_lines() if line.get_linestyle() != "None" and len(line.get_xdata()) > 2]
        for line in lines:
            named = not line.get_label().startswith("_")
            y = np.asarray(line.get_ydata(), dtype=float)
            y = y[np.isfinite(y)]
            if (named or len(lines) == 1) and len(y):
                parts.append(f"{f'{line.get_label()}: f' if named else 'F'}rom {y[0]:.4g} to {y[-1]:.4g}.")
        for image in one.get_images():
            parts.append(f"Values from {np.nanmin(image.get_array()):.4g} to {np.nanmax(image.get_array()):.4g}.")
        bars = [bars for bars in one.containers if isinstance(bars, BarContainer)]
        lengths = [bar.get_width() for each in bars if each.orientation == "horizontal" for bar in each]
        heights = [bar.get_height() for each in bars if each.orientation != "horizontal" for bar in each]
        for word, sizes in (("Lengths", lengths), ("Heights", heights)):
            parts += [f"{word}: {', '.join(f'{size:g}' for size in sizes[:_HEIGHTS])}."] * bool(sizes)
    return " ".join(parts)
