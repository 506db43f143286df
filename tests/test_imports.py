"""`import manifoldseq` is light: heavy packages and plugin models are loaded when they are used."""

from __future__ import annotations

import subprocess
import sys

from helpers import needs, parametrize

HEAVY = {"pymanopt", "jax", "torch", "sklearn", "matplotlib", "autograd", "click", "tqdm", "jinja2", "pandas", "aeon"}

LISTING = """
import manifoldseq as ms
names = {record.name for kind in ("models", "kernels", "solvers", "estimators") for _, record in ms.hooks.records(kind)}
assert {"lds-kmeans", "projection", "lds.mean", "lbfgs"} <= names and ms.hooks.plugins()
"""


def loaded_by(code: str) -> set[str]:
    """Return the names of the modules that a fresh interpreter holds after `code`."""
    script = code + "\nimport sys\nprint('MODULES', *sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("MODULES")[2].split())


def of_bundled_plugins(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("manifoldseq_")}


def test_import_loads_no_heavy_package_and_no_plugin() -> None:
    loaded = loaded_by("import manifoldseq")
    assert not loaded & HEAVY
    assert not of_bundled_plugins(loaded)


@parametrize(
    "package",
    "linalg manifolds objectives kernels solvers interop batch hooks execution storage reproduction".split(),
    fast=2,
)
def test_packages_of_the_engine_load_no_heavy_package(package: str) -> None:
    loaded = loaded_by(f"import manifoldseq.{package}")
    assert not loaded & HEAVY
    assert not of_bundled_plugins(loaded)


@needs("lds")
def test_listing_what_plugins_offer_loads_no_model_code() -> None:
    loaded = loaded_by(LISTING)
    assert not loaded & HEAVY
    assert all(name.partition(".")[2] in ("", "_plugin") for name in of_bundled_plugins(loaded))


WITHOUT_TORCH = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else found(name, *rest)
try:
    import manifoldseq.torch
except ImportError as error:
    print(error)
"""


def test_without_torch_the_import_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("manifoldseq.torch needs torch, which is not installed: pip install torch")
    assert len(done.stdout.splitlines()) == 1
