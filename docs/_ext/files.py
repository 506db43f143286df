"""The page of all files, from the first lines of their docstrings: ``python docs/_ext/files.py`` writes it."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "develop" / "files.md"
PACKAGES = (
    "manifoldseq",
    *(f"plugins/manifoldseq_{name}" for name in ("lds", "hope", "mpcca", "hierarchical", "sequences", "jax", "papers")),
)
HEAD = """# All files

The purpose of each file, from the first line of its docstring, and the public names that it defines. A default is
defined in the class or function where users set it. `python docs/_ext/files.py` writes this page, and a test compares
it with the docstrings.
"""


def page() -> str:
    """Return the page: a list of files for each folder that is a package."""
    parts = [HEAD]
    for package in PACKAGES:
        public = _public(ROOT / package)
        for folder in sorted({path.parent for path in (ROOT / package).rglob("__init__.py")}):
            parts.append(f"\n## `{folder.relative_to(ROOT).as_posix()}/`\n\n{_says(folder / '__init__.py')}\n\n")
            parts += _files(folder, public)
    return "".join(parts)


def _files(folder: Path, public: set[str]) -> Iterator[str]:
    for file in sorted(folder.glob("*.py")):
        if file.name != "__init__.py":
            names = [f"`{name}`" for name in _defined(file) if name in public]
            yield f"* `{file.stem}`: {_says(file)}{' – ' + ', '.join(names) if names else ''}\n"


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _says(file: Path) -> str:
    docstring = ast.get_docstring(_parsed(file)) or ""
    return docstring.split("\n")[0].replace("``", "`")


def _defined(file: Path) -> list[str]:
    names = (node.name for node in _parsed(file).body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return list(dict.fromkeys(names))  # an overloaded function is defined several times


def _public(package: Path) -> set[str]:
    """Return the public names of the package and of its subpackages: those of ``__all__``, or of a stub."""
    found: set[str] = set()
    for file in (package / "__init__.py", *package.glob("*/__init__.py")):
        for node in _parsed(file).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found |= set(ast.literal_eval(node.value))
        stub = file.with_suffix(".pyi")
        for node in _parsed(stub).body if stub.exists() else ():
            if isinstance(node, ast.ImportFrom):
                found |= {name.name for name in node.names}
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
