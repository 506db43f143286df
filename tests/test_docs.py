"""Every ```python block of README.md and docs/ runs as written, one namespace per page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# a block is left out by the line before it:  <!-- skip: reason -->
BLOCK = re.compile(r"(?P<skip><!-- skip[^\n]*-->\n+)?^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    """Return the code blocks of a page, each padded so that a traceback shows the page's line numbers."""
    text = page.read_text(encoding="utf-8")
    return [
        "\n" * text.count("\n", 0, found.start("code")) + found["code"]
        for found in BLOCK.finditer(text)
        if not found["skip"]
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_code_of_page_runs(page: Path, tmp_path: Path) -> None:
    """Run the page as one reader would: top to bottom, in a fresh interpreter, outside the checkout."""
    script = "".join(f"exec(compile({code!r}, {str(page)!r}, 'exec'), globals())\n" for code in blocks(page))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_readme_has_code_to_run() -> None:
    assert len(blocks(ROOT / "README.md")) >= 2
