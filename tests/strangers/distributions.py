"""Distributions of strangers, good and broken, written where `importlib.metadata` finds them."""

import os
import shutil
import subprocess
import sys
import textwrap
from importlib.metadata import distributions
from pathlib import Path

import manifoldseq as ms
from manifoldseq.hooks._registry import Registry

PACKAGES = Path(__file__).parent / "packages"
MAIN = "import sys; from manifoldseq.cli import main; sys.exit(main())"
HOOK = "import manifoldseq as ms\n\n@ms.hookimpl\n"

BROKEN = {
    "import-error": ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
    "exits": ("import sys; print('bye'); sys.exit(3)", "SystemExit: 3"),
    "misspelled": (HOOK + "def manifoldseq_modles():\n    yield", "did you mean manifoldseq_models?"),
    "unmarked": ("def manifoldseq_models():\n    yield", "decorate it with @manifoldseq.hookimpl"),
    "raises": (
        HOOK + "def manifoldseq_kernels():\n    yield ms.hooks.KernelSpec('kept', 'math:hypot')\n    1 / 0\n\n"
        "@ms.hookimpl\ndef manifoldseq_models():\n    yield ms.hooks.ModelSpec('kept-too', build='math:hypot')",
        "manifoldseq_kernels raised: ZeroDivisionError: division by zero",
    ),
    "wrong-object": (
        HOOK + "def manifoldseq_models():\n    yield {'name': 'x'}",
        "yield manifoldseq.hooks.ModelSpec records",
    ),
    "wrong-record": (
        HOOK + "def manifoldseq_models():\n    yield ms.hooks.ModelSpec('x', build='nowhere')",
        "ModelSpec 'x': build must be a callable or a string 'package.module:attribute', or None, not 'nowhere'",
    ),
    "no-generator": (
        HOOK + "def manifoldseq_models():\n    return ms.hooks.ModelSpec('x', build='math:hypot')",
        "write the hook as a generator",
    ),
    "signature": (HOOK + "def manifoldseq_models(data):\n    yield", "declared in the hookimpl but can not be found"),
    "twice": (
        HOOK + "def manifoldseq_plots():\n    for _ in 'ab': yield ms.hooks.PlotSpec('p', 'a:b', 'a:b')",
        "'p' twice",
    ),
}


def write(site: Path, name: str, package: str, files: dict[str, str] | None = None, version: str = "1.2") -> None:
    """Write a distribution with the entry point `name`; its package comes from `files` or from `PACKAGES`."""
    if files is None:
        shutil.copytree(PACKAGES / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, text in (files or {}).items():
        (site / package).mkdir(parents=True, exist_ok=True)
        (site / package / file).write_text(textwrap.dedent(text), encoding="utf-8")
    info = site / f"{package}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[manifoldseq]\n{name} = {package}._plugin\n")


def write_one(site: Path, name: str, code: str) -> None:
    """Write a distribution whose plugin module is `code`."""
    write(site, name, f"stranger_{name.replace('-', '_')}", {"__init__.py": "", "_plugin.py": code})


def write_good(site: Path) -> None:
    """Write the distribution that works."""
    write(site, "acme", "acme_procrustes")


def write_broken(site: Path) -> None:
    """Write every broken distribution."""
    for name, (code, _) in BROKEN.items():
        write_one(site, name, code)


def registry(site: Path) -> Registry:
    """Return a registry that finds only the distributions in `site`, which must be on `sys.path`."""
    made = Registry(
        lambda: [
            entry_point
            for distribution in distributions(path=[str(site)])
            for entry_point in distribution.entry_points
            if entry_point.group == "manifoldseq"
        ]
    )
    made.add_core(
        [
            ms.hooks.SolverSpec("lbfgs-tr", "manifoldseq.solvers:LBFGSTR"),
            ms.hooks.SolverSpec("lbfgs", "manifoldseq.solvers:LBFGS"),
        ]
    )
    return made


def command(
    site: Path | None, *arguments: str, cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run ``manifoldseq`` in a fresh interpreter that sees the distributions in `site`."""
    root = Path(ms.__file__).parents[1]
    path = [str(part) for part in (site, root, root / "plugins") if part is not None]
    path += [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", MAIN, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "COLUMNS": "1000", **env},
        cwd=cwd,
        capture_output=True,
        text=True,
    )
