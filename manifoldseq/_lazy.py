"""Public names of a package that are imported on first use; the stub ``__init__.pyi`` is their only list."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from ._extras import needing
from ._quoted import quoted

Lazy = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def lazy_names(package: str, file: str, extra: str = "") -> Lazy:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names are imported on first use.

    Editors and type checkers read the names in the stub next to the file. This function reads the same stub, as SPEC 1
    of Scientific Python proposes. Each public name is therefore in one list only.

    Parameters
    ----------
    package, file : str
        ``__name__`` and ``__file__`` of the package. The stub has lines ``from .module import name as name``.
    extra : str, optional
        The extra of the distribution manifoldseq that the modules need. If a package of this extra is missing, the
        error names the packages to install.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> imported, _, names = ms.hooks.lazy_names("manifoldseq.models", ms.models.__file__)
    >>> "Choice" in names, imported("Choice") is ms.models.Choice
    (True, True)
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        name.name: "." * node.level + (node.module or "")
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }

    def getattr_(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {quoted(package)} has no attribute {quoted(name)}")
        if homes[name] == ".":
            return import_module(f".{name}", package)
        with needing(f"{package}.{name} needs", extra) if extra else nullcontext():
            value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return getattr_, lambda: sorted(homes), sorted(homes)
