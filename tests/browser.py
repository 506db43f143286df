"""Chromium without a window, for tests that look at pages. Use as `import browser`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = """
    --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --hide-scrollbars --force-device-scale-factor=1
""".split()


def chromium(page: Path, width: int, profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open a page in a window of a width."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},2000", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=os.environ)
