"""A broken plugin is reported with its cause and harms nobody."""

import json
import sys
from pathlib import Path

import pytest
from strangers.distributions import BROKEN, HOOK, OLD_NAMES, command, registry, write_broken, write_good, write_one

from manifoldseq.hooks import AmbiguousName, UnknownName
from manifoldseq.hooks._registry import Registry

pytestmark = pytest.mark.filterwarnings(f"ignore:{OLD_NAMES}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an importable folder; what was imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.delenv("MANIFOLDSEQ_PLUGINS", raising=False)
    monkeypatch.delenv("MANIFOLDSEQ_DISABLE_PLUGINS", raising=False)
    return tmp_path


def problems(found: Registry, name: str) -> str:
    """Return all that a registry says about a plugin."""
    (plugin,) = [plugin for plugin in found.plugins() if plugin.name == name]
    said = plugin.as_dict()
    return " | ".join([said["cause"], *(warning["message"] for warning in said["warnings"]), *said["clashes"]])


@pytest.mark.parametrize("name", BROKEN)
def test_cause_is_reported(site: Path, name: str) -> None:
    code, cause = BROKEN[name]
    write_one(site, name, code)
    found = registry(site)
    assert cause in problems(found, name)
    assert found.plugins()[0].status in ("failed", "warnings")


@pytest.mark.parametrize("name", ["import-error", "exits", "raises", "wrong-record"])
def test_traceback_is_kept(site: Path, name: str) -> None:
    write_one(site, name, BROKEN[name][0])
    (plugin,) = registry(site).plugins()
    fault = plugin.failure or plugin.warnings[0]
    assert f"stranger_{name.replace('-', '_')}/_plugin.py" in fault.traceback


def test_records_before_and_beside_an_exception_are_kept(site: Path) -> None:
    write_one(site, "raises", BROKEN["raises"][0])
    found = registry(site)
    assert found.find("kernels", "kept").name == "kept"
    assert found.find("models", "kept-too").name == "kept-too"


def test_broken_ones_harm_neither_the_good_one_nor_the_core(site: Path) -> None:
    write_broken(site)
    write_good(site)
    found = registry(site)
    assert found.find("solvers", "lbfgs").name == "lbfgs"
    assert found.find("models", "acme.procrustes").name == "acme.procrustes"
    assert {plugin.name: plugin.status for plugin in found.plugins()}["acme"] == "ok"


def test_unknown_name_tells_what_exists_and_what_failed(site: Path) -> None:
    write_good(site)
    write_one(site, "import-error", BROKEN["import-error"][0])
    with pytest.raises(UnknownName, match=r"did you mean 'acme.procrustes'") as caught:
        registry(site).find("models", "acme.procrustse")
    assert "plugin import-error failed to load" in str(caught.value)


def test_name_of_the_core_is_a_clash_and_never_wins(site: Path) -> None:
    write_one(site, "thief", HOOK + "def manifoldseq_solvers():\n    yield ms.hooks.SolverSpec('lbfgs', 'math:hypot')")
    found = registry(site)
    assert found.find("solvers", "lbfgs").factory == "manifoldseq.solvers:LBFGS"  # type: ignore[attr-defined]
    assert "is a name of the core, which keeps it" in problems(found, "thief")
    assert found.plugins()[0].status == "clashes"


def test_name_of_two_plugins_is_an_error_only_when_it_is_asked_for(site: Path) -> None:
    for name in ("left", "right"):
        code = f"def manifoldseq_models():\n    yield ms.hooks.ModelSpec('same', 'math:hypot', summary='{name}')"
        write_one(site, name, HOOK + code)
    found = registry(site)
    assert "another plugin gives models 'same' too" in problems(found, "left")
    with pytest.raises(AmbiguousName, match="plugin 'left' and plugin 'right'"):
        found.find("models", "same")
    assert found.find("models", "right:same").summary == "right"  # type: ignore[attr-defined]


def test_core_names_load_no_entry_point() -> None:
    def explode() -> list[object]:
        raise AssertionError("entry points were loaded")

    found = Registry(explode)
    found.add_core(registry(Path(".")).core().records)
    assert found.find("solvers", "lbfgs").name == "lbfgs"


def test_environment_chooses_plugins(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_good(site)
    write_one(site, "import-error", BROKEN["import-error"][0])
    monkeypatch.setenv("MANIFOLDSEQ_DISABLE_PLUGINS", "import-error, other")
    assert {p.name: p.status for p in registry(site).plugins()} == {"acme": "ok", "import-error": "disabled"}
    monkeypatch.setenv("MANIFOLDSEQ_PLUGINS", "import-error")
    assert {p.name: p.status for p in registry(site).plugins()} == {"acme": "disabled", "import-error": "disabled"}
    monkeypatch.delenv("MANIFOLDSEQ_DISABLE_PLUGINS")
    monkeypatch.setenv("MANIFOLDSEQ_PLUGINS", "acme,absent")
    found = registry(site)
    assert {p.name: p.status for p in found.plugins()} == {"acme": "ok", "import-error": "disabled", "absent": "failed"}
    assert "MANIFOLDSEQ_PLUGINS names 'absent', which is not installed" in problems(found, "absent")
    monkeypatch.setenv("MANIFOLDSEQ_PLUGINS", "")
    assert {p.status for p in registry(site).plugins()} == {"disabled"}


def test_command_line_lists_broken_plugins_and_goes_on(tmp_path: Path) -> None:
    write_broken(tmp_path)
    write_good(tmp_path)
    done = command(tmp_path, "plugins", "--json")
    assert done.returncode == 0, done.stderr
    listed = {plugin["name"]: plugin for plugin in json.loads(done.stdout)}
    assert listed["acme"]["status"] == "ok"
    for name, (_, cause) in BROKEN.items():
        assert cause in json.dumps(listed[name], ensure_ascii=False), name
    table = command(tmp_path, "plugins")
    assert table.returncode == 0
    assert all(cause in table.stdout for _, cause in BROKEN.values())


def test_checking_a_broken_plugin_fails_with_its_cause(tmp_path: Path) -> None:
    write_one(tmp_path, "import-error", BROKEN["import-error"][0])
    done = command(tmp_path, "check", "stranger_import_error")
    assert done.returncode == 1
    assert "no_such_module_anywhere" in done.stdout + done.stderr


def test_checking_a_model_with_a_wrong_gradient_fails(tmp_path: Path) -> None:
    code = """
    import manifoldseq as ms

    def build(data):
        objective = ms.objective(lambda x: float(x @ x), lambda x: 2.02 * x)
        return ms.Problem(ms.manifolds.Euclidean(3), objective)

    @ms.hookimpl
    def manifoldseq_models():
        yield ms.hooks.ModelSpec("wrong-gradient", build, example=lambda rng: None)
        yield ms.hooks.ModelSpec("nowhere", "no_such_module:build")
    """
    write_one(tmp_path, "wrong", code)
    done = command(tmp_path, "check", "stranger-wrong")
    assert done.returncode == 1
    assert "FAILED  objective: gradient" in done.stdout and "No module named 'no_such_module'" in done.stdout
    assert "2 records checked: 0 exercised and passed, 2 FAILED." in done.stdout
