"""Constraints for pip: of every package that a pyproject.toml names with a lower bound, the lowest version.

`make test-oldest` installs these and runs the fast tests with them.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

_BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*>=\s*([0-9][0-9A-Za-z.]*)")


def constraints(project: dict) -> Iterator[str]:
    """Yield ``name==version`` for each requirement of a project and of its extras that has a lower bound."""
    extras = project.get("optional-dependencies", {}).values()
    for requirement in [*project["dependencies"], *(one for extra in extras for one in extra)]:
        if (bound := _BOUND.match(requirement)) and not bound[1].startswith("manifoldseq"):
            yield "{}=={}".format(*bound.groups())


if __name__ == "__main__":
    lines: set[str] = set()
    for name in sys.argv[1:]:
        with Path(name).open("rb") as file:
            lines.update(constraints(tomllib.load(file)["project"]))
    print(*sorted(lines), sep="\n")
