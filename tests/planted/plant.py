"""Plant one error per row of docs/papers and say whether a test of that row notices.

``make planted`` does all of them, ``python tests/planted/plant.py --paper 002 --item '(12)'`` one. A file next to this
one has, for each row with tests, one error in what the row names::

    [[error]]
    item = "(12)"
    file = "plugins/manifoldseq_lds/means/_common_problem.py"
    find = "text that occurs once"
    replace = "the error"

or, where no error can be planted, ``why`` in place of the last three. Errors are planted in copies of the checkout.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PARTS = ("manifoldseq", "plugins", "tests", "benchmarks", "docs", "pyproject.toml", "README.md", "Makefile")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "_build", "gallery", "reference")


@dataclass(frozen=True)
class Error:
    """An error to plant in what a row of a page names."""

    paper: str
    item: str
    file: str = ""
    find: str = ""
    replace: str = ""
    why: str = ""


def errors() -> list[Error]:
    """Return what all files here say."""
    return [
        Error(path.stem, **entry)
        for path in sorted(HERE.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["error"]
    ]


def rows_with_tests() -> dict[tuple[str, str], list[str]]:
    """Return the tests that each row of each page names, by paper and item; rows without tests are left out."""
    found = {}
    for page in sorted((ROOT / "docs" / "papers").glob("*.md")):
        for line in page.read_text(encoding="utf-8").splitlines():
            cells = line.split("|")
            if len(cells) == 7 and (tests := re.findall(r"`(tests/[^`]+)`", cells[4])):
                found[page.stem, cells[1].strip()] = tests
    return found


def notice(tests: list[str], copy: Path) -> bool:
    """Return whether a test fails in a copy of the checkout; raise RuntimeError if they cannot be run."""
    paths = [str(copy), str(copy / "plugins")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        # a planted error may keep a module from being imported: that is noticed too
        if done.returncode == 2 and "error" in done.stdout.lower():
            return True
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 1


def planted(error: Error, tests: list[str], copy: Path) -> bool:
    """Return whether a test notices an error, and put the file back."""
    file = copy / error.file
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(error.find, error.replace), encoding="utf-8")
    try:
        return notice(tests, copy)
    finally:
        file.write_text(text, encoding="utf-8")


def main() -> int:
    """Plant the chosen errors, one after the other in each of several copies."""
    parser = argparse.ArgumentParser(description="Plant errors in what docs/papers names.")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--paper", default="", help="the beginning of a page's name")
    parser.add_argument("--item", default="", help="one row")
    chosen = parser.parse_args()
    rows = rows_with_tests()
    todo = [
        error
        for error in errors()
        if error.paper.startswith(chosen.paper) and chosen.item in ("", error.item) and not error.why
    ]
    with tempfile.TemporaryDirectory() as folder:
        copies: Queue[Path] = Queue()
        for number in range(chosen.jobs):
            copy = Path(folder) / str(number)
            copy.mkdir()
            for part in PARTS:
                source = ROOT / part
                shutil.copytree(source, copy / part, ignore=LEFT_OUT) if source.is_dir() else shutil.copy(source, copy)
            copies.put(copy)

        first = copies.get()
        every = sorted({test for error in todo for test in rows[error.paper, error.item]})
        if notice([*every, "-n", str(chosen.jobs)], first):
            print("a test fails before any error is planted: mend it first")
            return 1
        copies.put(first)

        def work(error: Error) -> bool:
            copy = copies.get()
            try:
                noticed = planted(error, rows[error.paper, error.item], copy)
            finally:
                copies.put(copy)
            print(f"{'noticed ' if noticed else 'SURVIVED'} {error.paper[:3]} {error.item}", flush=True)
            return noticed

        with ThreadPoolExecutor(chosen.jobs) as pool:
            noticed = list(pool.map(work, todo))
    print(f"{sum(noticed)} of {len(noticed)} planted errors are noticed")
    return 0 if all(noticed) else 1


if __name__ == "__main__":
    sys.exit(main())
