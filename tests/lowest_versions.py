"""Constraints for pip: of every package that pyproject.toml names with a lower bound, the lowest version.

`make test-oldest` installs these and runs the fast tests with them.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

_BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*>=\s*([0-9][0-9A-Za-z.]*)")


def constraints(project: dict) -> Iterator[str]:
    """Yield ``name==version`` for each requirement of the package and of its extras that has a lower bound."""
    extras = project.get("optional-dependencies", {}).values()
    for requirement in [*project["dependencies"], *(one for extra in extras for one in extra)]:
        if bound := _BOUND.match(requirement):
            yield "{}=={}".format(*bound.groups())


if __name__ == "__main__":
    with Path(sys.argv[1] if len(sys.argv) > 1 else "pyproject.toml").open("rb") as file:
        print(*constraints(tomllib.load(file)["project"]), sep="\n")
