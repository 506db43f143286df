"""Gallery pages show matplotlib animations as GIF files: they play in every browser, and nothing is fetched."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.animation import Animation
from sphinx_gallery.scrapers import figure_rst


def scraper(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any], **kwargs: Any) -> str:
    """Save the animations of open figures and close these, so that they are not shown once more as pictures."""
    saved = []
    for value in list(block_vars["example_globals"].values()):
        figure = value._fig if isinstance(value, Animation) else None
        if figure is not None and figure.number in plt.get_fignums():
            path = Path(next(block_vars["image_path_iterator"])).with_suffix(".gif")
            value.save(path, writer="pillow", dpi=70)
            saved.append(str(path))
            plt.close(figure)
    return figure_rst(saved, gallery_conf["src_dir"]) if saved else ""
