"""``manifoldseq doctor``: what is there, what is not, and what is wrong."""

import json
from collections.abc import Callable
from importlib.metadata import Distribution, PackageNotFoundError, metadata, version
from pathlib import Path

import pytest
from strangers.distributions import command, write_one

import manifoldseq as ms
from manifoldseq.hooks._bundled import is_installed

Run = Callable[..., tuple[int, str, str]]


def test_report_is_complete(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    status, out, err = run("doctor", "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["manifoldseq"] == ms.__version__
    assert Path(found["imported_from"]) == Path(ms.__file__).parent
    assert found["packages"]["numpy"] == version("numpy") and "scikit-learn" in found["packages"]
    assert found["blas"] and all(library["threads"] >= 1 for library in found["blas"])
    assert found["threads"]["OMP_NUM_THREADS"] == "1" and found["problems"] == []
    assert {"jax", "torch", "dask", "parquet"} <= set(found["extras"])
    assert not {"all", "dev", "test", "docs"} & set(found["extras"])
    for bundled in filter(is_installed, ms.hooks.BUNDLED):
        extras = metadata(bundled).get_all("Provides-Extra") or []
        listed = {extra for extra in extras if f"{bundled}[{extra}]" in found["extras"]}
        assert listed == {extra for extra in extras if f"manifoldseq-{extra}" not in ms.hooks.BUNDLED}
        for extra in listed - {"torch"} - ({"datasets"} if bundled == "manifoldseq-lds" else set()):
            assert found["extras"][f"{bundled}[{extra}]"]["install"] == f"pip install '{bundled}[{extra}]'"
    assert found["extras"]["jax"]["install"] == "pip install 'manifoldseq[jax]'"


def test_table_says_where_and_what(run: Run) -> None:
    status, out, _ = run("doctor")
    assert status == 0 and out.endswith("No problems found.\n")
    assert str(Path(ms.__file__).parent) in out and f"numpy {version('numpy')}" in " ".join(out.split())


def test_missing_package_is_a_problem(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = Distribution.from_name

    def without_scipy(name: str) -> Distribution:
        if name == "scipy":
            raise PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(Distribution, "from_name", without_scipy)
    status, out, _ = run("doctor")
    assert status == 1 and "scipy is missing: run `pip install scipy`" in out and "MISSING" in out


def test_faulty_plugin_is_a_problem(tmp_path: Path) -> None:
    write_one(tmp_path, "hurt", "import no_such_module_anywhere")
    done = command(tmp_path, "doctor")
    assert done.returncode == 1 and "plugin 'hurt' has a fault: see `manifoldseq list plugins`" in done.stdout
