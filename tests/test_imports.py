"""`import manifoldseq` is light: heavy packages and plugin models are loaded when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize(
    "room", "linalg manifolds objectives kernels solvers interop batch hooks execution storage reproduction".split()
)
def test_rooms_of_the_engine_load_no_heavy_package(room: str) -> None:
    loaded = loaded_by(f"import manifoldseq.{room}")
    assert not loaded & HEAVY
    assert not of_bundled_plugins(loaded)


def test_listing_what_plugins_offer_loads_no_model_code() -> None:
    loaded = loaded_by(LISTING)
    assert not loaded & HEAVY
    assert all(name.partition(".")[2] in ("", "_plugin") for name in of_bundled_plugins(loaded))
