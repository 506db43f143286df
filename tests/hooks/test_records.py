"""Records validate themselves and import what they name only when asked."""

import dataclasses
import math
import pathlib
import pickle
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import INSTALLED

import manifoldseq as ms
from manifoldseq import hooks

WRONG = [
    (lambda: hooks.ModelSpec("", build="a:b"), "ModelSpec '': name must start with a letter or digit"),
    (lambda: hooks.ModelSpec("p:x:y", build="a:b"), "ModelSpec 'p:x:y': name must start with a letter or digit"),
    (lambda: hooks.ModelSpec(None, build="a:b"), "ModelSpec None: name must start"),
    (lambda: hooks.ModelSpec("x", build="a.b"), "build must be a callable or a string 'package.module:attribute'"),
    (lambda: hooks.ModelSpec("x", build="a:b", example=3), "ModelSpec 'x': example must be a callable"),
    (lambda: hooks.KernelSpec("x", "a:b", invariances={"r": 1}), "invariances must be a mapping"),
    (lambda: hooks.ReaderSpec("x", "*.edf", "a:b"), "ReaderSpec 'x': patterns must be a tuple of strings"),
    (lambda: hooks.ModelSpec("x", build="a:b", input="tables"), "must be 'sequences', 'samples' or 'views'"),
    (lambda: hooks.EstimatorSpec("x", "a:b", input="tables"), "must be 'sequences', 'samples', 'views' or 'bags'"),
]  # fmt: skip


def test_records_state_the_version_of_the_hooks() -> None:
    record = hooks.ModelSpec("x", build="a:b", api=1)
    assert record == hooks.ModelSpec("x", build="a:b") and record.as_dict()["api"] == 1
    for api in (0, 2, "one"):
        with pytest.raises(ValueError, match=f"ModelSpec 'x' is written for version {api!r} of the hooks"):
            hooks.ModelSpec("x", build="a:b", api=api)  # type: ignore[arg-type]


@pytest.mark.parametrize(("make", "sentence"), WRONG)
def test_wrong_field_is_named(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_records_are_frozen_and_picklable() -> None:
    record = hooks.KernelSpec("x", "math:hypot", invariances={"swap": "math:fabs"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.name = "y"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(record)) == record


@pytest.mark.parametrize(
    ("target", "found"),
    [("math:hypot", math.hypot), ("pathlib:Path.home", pathlib.Path.home), (math.hypot, math.hypot)],
)
def test_a_target_is_a_path_or_the_object(target: Any, found: Any) -> None:
    assert hooks.ModelSpec("x", build=target).resolved().build == found
    with pytest.raises(ValueError, match=r"a string 'package\.module:attribute', or None, not 'math\.hypot'"):
        hooks.ModelSpec("x", build="math.hypot")


def test_resolved_record_holds_callables() -> None:
    record = hooks.KernelSpec("x", "math:hypot", invariances={"sign": "math:fabs"}).resolved()
    assert record.factory is math.hypot and record.invariances["sign"] is math.fabs
    assert record.example is None


@pytest.mark.parametrize(
    ("target", "cause"),
    [
        ("no_such_package:x", "No module named 'no_such_package'"),
        ("math:no_such", "no attribute 'no_such'"),
        ("math:pi", "is not callable"),
    ],
)
def test_target_that_cannot_be_imported_names_the_record(target: str, cause: str) -> None:
    with pytest.raises(ImportError, match="ModelSpec 'x': build names") as caught:
        hooks.ModelSpec("x", build=target).resolved()
    assert cause in str(caught.value)


def test_a_listing_names_callables_as_targets_do() -> None:
    assert hooks.ModelSpec("x", build=math.hypot).as_dict()["build"] == "math:hypot"
    kernel = hooks.KernelSpec("x", "math:hypot", invariances={"sign": math.fabs, "swap": "math:hypot"})
    assert kernel.as_dict()["invariances"] == {"sign": "math:fabs", "swap": "math:hypot"}
    assert hooks.EstimatorSpec("x", "a:b", plots=("one", "other")).as_dict()["plots"] == ["one", "other"]


def test_registering_a_record_again_replaces_it() -> None:
    for summary in ("first", "second"):
        ms.register(hooks.PlotSpec("test-mine", "math:hypot", "math:fabs", summary=summary))
    mine = [(plugin.name, record) for plugin, record in hooks.records("plots") if record.name == "test-mine"]
    assert [(giver, record.as_dict()["summary"]) for giver, record in mine] == [("session", "second")]
    found = hooks.get_plot("session:test-mine")
    assert found.name == "test-mine" and found.accepts is math.hypot and found.draw is math.fabs


def test_registering_tells_the_author_what_is_wrong() -> None:
    before = [plugin.as_dict() for plugin in hooks.plugins()]
    with pytest.raises(ValueError, match="names that begin with 'pymanopt:' are reserved for the plugin 'pymanopt'"):
        ms.register(hooks.SolverSpec("pymanopt:mine", "math:hypot"))
    with pytest.raises(ValueError, match="registers nothing"):
        ms.register(SimpleNamespace())
    assert [plugin.as_dict() for plugin in hooks.plugins()] == before
    assert isinstance(ms.get_solver("lbfgs"), ms.solvers.LBFGS)


def test_public_lookups_raise_one_message() -> None:
    with pytest.raises(ValueError, match=r"unknown solver 'lbgfs': did you mean 'lbfgs'\? Registered: "):
        ms.get_solver("lbgfs")
    for get in (ms.get_model, ms.get_estimator, ms.get_kernel, hooks.get_domain, hooks.get_dataset, hooks.get_reader):
        with pytest.raises(hooks.UnknownName, match="'no-such'"):
            get("no-such")


def test_registered_names_are_found_by_every_lookup() -> None:
    ms.register(hooks.KernelSpec("test-kernel", lambda order: ms.kernel(pow, name=f"power {order}")))
    ms.register(hooks.EstimatorSpec("test-estimator", "fractions:Fraction"))
    ms.register(hooks.ModelSpec("test-model", build="math:hypot"))
    assert ms.get_kernel("test-kernel", order=2).name == "power 2"
    assert ms.get_estimator("test-estimator").__name__ == "Fraction"
    assert ms.get_model("test-model").build is math.hypot


def test_a_kernel_states_its_claims_and_its_record_repeats_none() -> None:
    with pytest.raises(TypeError, match="positive_definite"):
        hooks.KernelSpec("claims", "math:hypot", positive_definite=False)  # type: ignore[call-arg]
    ms.register(hooks.KernelSpec("unstated", lambda: Unstated(ms.kernel(pow))))
    with pytest.raises(ValueError, match=r"Unstated.* has no convex_in_output: add these attributes"):
        ms.get_kernel("unstated")


class Unstated:
    """A kernel object without one of the attributes."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        if name == "convex_in_output":
            raise AttributeError(name)
        return getattr(self._kernel, name)


def test_catalogue_resolves() -> None:
    core = [record.resolved() for _, record in (*hooks.records("manifolds"), *hooks.records("solvers"))]
    assert {"euclidean", "stiefel", "orthogonal", "bounded-diagonal", "product", "canonical-lds", "lbfgs", "pgd"} <= {
        record.name for record in core
    }


@pytest.mark.parametrize("plugin", sorted(INSTALLED))
def test_every_target_of_a_bundled_plugin_is_there(plugin: str) -> None:
    (found,) = [one for one in hooks.plugins() if one.name == plugin]
    assert found.records and all(record.summary and record.resolved() for record in found.records)


def test_listing_plugins_imports_no_model_code() -> None:
    code = """
import sys, manifoldseq as ms
assert all(plugin.status == "ok" and plugin.records for plugin in ms.hooks.plugins())
loaded = [m for m in sys.modules if m.startswith("manifoldseq_") and "." in m and not m.endswith("._plugin")]
assert not loaded, loaded
assert "sklearn" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_data_set_promises_no_checksum_that_nobody_compares() -> None:
    with pytest.raises(TypeError, match="checksum"):
        hooks.DatasetSpec("tones", "my_package.data:tones", checksum="0" * 64)  # type: ignore[call-arg]
