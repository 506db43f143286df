"""Keywords of a page, from its front matter, in the search index: a search for one finds the page before all others.

A page names the words that readers search for in its front matter::

    ---
    keywords: [sparse PCA, nonnegative, sparse principal components]
    ---

Each keyword becomes a main entry of the general index. The search scores such an entry 100 if the query is the keyword,
and in proportion to the lengths if the query is at least half of it; a title scores 15, a word of the text 5.
"""

import json

from docutils import nodes
from sphinx.addnodes import index
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


def enter(app: Sphinx, doctree: nodes.document) -> None:
    """Add the keywords of a page to its document: as entries of the index, and word by word as searched text."""
    written = app.env.metadata[app.env.docname].get("keywords")
    if written is None:
        return
    keywords = json.loads(written) if written.startswith("[") else None
    if not keywords or not all(isinstance(keyword, str) for keyword in keywords):
        raise ExtensionError(f"{app.env.docname}: keywords is a list of strings, such as [sparse PCA, nonnegative]")
    words = dict.fromkeys(word for keyword in keywords for word in keyword.split())
    doctree.insert(0, index(entries=[("single", keyword, "", "main", None) for keyword in keywords]))
    doctree.insert(0, nodes.meta(name="keywords", content=", ".join(words)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Enter the keywords when a page has been read."""
    app.connect("doctree-read", enter, priority=900)  # after the collector of metadata
    return {"parallel_read_safe": True, "parallel_write_safe": True}
