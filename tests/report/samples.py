"""Runs to report: small fitted clusterings of sequences with labels."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser

import numpy as np

import manifoldseq as ms
from manifoldseq.report import Fitted
from manifoldseq.storage import SequenceData

VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use", "rect", "image"}


@cache
def oscillations(n_clusters: int = 3, kernel: str = "projection") -> Fitted:
    """Return a clustering of noisy oscillations at three frequencies, four channels at 20 Hz."""
    rng, t = np.random.default_rng(0), np.arange(40)[:, None]
    kinds = np.repeat(["slow <b>", "costs $5 to $6", "fast & furious"], 8)
    turns = np.repeat([0.2, 0.7, 1.3], 8)
    sequences = [
        np.cos(t * turn + rng.uniform(0, 6) + np.arange(4)) + 0.1 * rng.standard_normal((40, 4)) for turn in turns
    ]
    data = SequenceData(sequences, kinds, "oscillations", 20.0, ("x (m)", "y ($)", "z$", "angle (rad)"))
    model = ms.get_estimator("lds-kmeans")(n_clusters, n_states=2, kernel=kernel, n_init=2, random_state=0).fit(
        data.sequences
    )
    return Fitted(model, data, name=f"{n_clusters} clusters")


class Outline(HTMLParser):
    """Check that elements are closed in order; collect links, ids, headings, and elements with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def values(self, *names: str) -> list[str]:
        """Return the values of attributes."""
        return [value for _, attributes in self.elements for name, value in attributes.items() if name in names]


def assert_self_contained(page: str) -> None:
    """Fail if a page would fetch or run anything, or is large, or is not well formed."""
    outline = Outline(page)
    assert len(page.encode()) <= 2_000_000
    assert not outline.values("src", "srcset", "action", "data", "xlink:href")
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in outline.values("href"))
    assert not {"script", "link", "iframe", "object", "img"} & {tag for tag, _ in outline.elements}
    assert not [name for _, attributes in outline.elements for name in attributes if name.startswith("on")]
    assert not re.search(r"@import|url\((?!#)|https?://", page)
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:href="|url\()#([^")]+)', page)
    assert set(used) <= set(ids)
