"""Sphinx settings. `make docs` builds docs/_build/html; nothing is fetched, and the pages open offline."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

import manifoldseq as ms  # noqa: E402  (after the path, as the extensions are)

project = "manifoldseq"
author = "manifoldseq developers"
project_copyright = author
version = release = ms.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "mathtext",  # docs/_ext: formulas as SVG, since MathJax would be fetched
    "reference",  # docs/_ext: pages made from the code
    "keywords",  # docs/_ext: words that readers search for, from the front matter of pages
]
exclude_patterns = ["_build", "examples", "gallery/*.ipynb", "gallery/*.py"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the order of the gallery is a function

smartquotes = False  # "--jobs" is an option, not a dash
myst_heading_anchors = 3
autosummary_generate = True
autosummary_context = {"enums": ["Status"]}  # their members are listed
_REQUESTS = ("fit", "partial_fit", "predict", "score", "transform")
autodoc_default_options = {  # of scikit-learn, with links into its own pages
    "exclude-members": ", ".join(f"set_{name}_request" for name in _REQUESTS)
}
autodoc_typehints = "none"  # types are in the numpydoc sections
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the template lists them
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "remove_config_comments": True,
    "min_reported_time": 0,
    "image_scrapers": ("animated.scraper", "matplotlib"),  # docs/_ext/animated.py
    "reset_modules": ("matplotlib",),
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"manifoldseq {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_sidebars = {page: [] for page in ("index", "develop/changelog")}
html_context = {"default_mode": "auto"}  # light or dark, as the system is
html_theme_options = {
    "navigation_with_keys": False,
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
