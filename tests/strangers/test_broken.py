"""A broken plugin is reported with its cause and harms nobody."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import INSTALLED
from strangers.distributions import BROKEN, HOOK, command, write_broken, write_good, write_one


def plugins(site: Path, **env: str) -> dict[str, dict[str, Any]]:
    """Return what is told of every plugin, by name, in a fresh interpreter that sees the distributions in `site`."""
    done = command(site, "list", "plugins", "--json", **env)
    assert done.returncode == 0, done.stderr
    return {plugin["name"]: plugin for plugin in json.loads(done.stdout)}


def problems(said: dict[str, Any]) -> str:
    """Return all messages about a plugin."""
    return " | ".join([said["cause"], *(warning["message"] for warning in said["warnings"]), *said["clashes"]])


def asked(site: Path, code: str) -> str:
    """Return what a script prints that sees the distributions in `site`; it may use `hooks`."""
    script = f"import sys; sys.path[:0] = [{str(site)!r}]\nfrom manifoldseq import hooks\n{code}"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def raised(site: Path, kind: str, lookup: str) -> str:
    """Return the message with which a lookup raises an error of a kind."""
    return asked(site, f"try:\n    hooks.{lookup}\nexcept hooks.{kind} as error:\n    print(error)")


@pytest.fixture(scope="module")
def all_broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return what is told of the broken distributions."""
    site = tmp_path_factory.mktemp("broken")
    write_broken(site)
    return plugins(site)


@pytest.mark.parametrize("name", BROKEN)
def test_cause_is_reported(all_broken: dict[str, dict[str, Any]], name: str) -> None:
    assert BROKEN[name][1] in problems(all_broken[name])
    assert all_broken[name]["status"] in ("failed", "warnings")


@pytest.mark.parametrize("name", ["import-error", "exits", "raises", "wrong-record"])
def test_traceback_is_kept(all_broken: dict[str, dict[str, Any]], name: str) -> None:
    said = all_broken[name]
    fault = said["traceback"] or said["warnings"][0]["traceback"]
    assert f"stranger_{name.replace('-', '_')}/_plugin.py" in fault


def found(site: Path, *names: tuple[str, str]) -> list[tuple[str, str]]:
    """Return which kinds and names are there."""
    code = f"print([(kind, name) for kind, name in {names!r} if name in {{r.name for _, r in hooks.records(kind)}}])"
    return ast.literal_eval(asked(site, code))


@pytest.mark.slow
def test_records_before_and_after_an_exception_are_kept(tmp_path: Path) -> None:
    write_one(tmp_path, "raises", BROKEN["raises"][0])
    kept = [("kernels", "kept"), ("models", "kept-too")]
    assert found(tmp_path, *kept, ("models", "kept")) == kept


def test_broken_ones_harm_neither_the_good_one_nor_the_core(tmp_path: Path) -> None:
    write_broken(tmp_path)
    write_good(tmp_path)
    there = [("solvers", "lbfgs"), ("models", "acme.procrustes")]
    assert found(tmp_path, *there) == there
    assert plugins(tmp_path)["acme"]["status"] == "ok"


def test_unknown_name_tells_what_exists_and_what_failed(tmp_path: Path) -> None:
    write_good(tmp_path)
    write_one(tmp_path, "import-error", BROKEN["import-error"][0])
    sentence = raised(tmp_path, "UnknownName", "get_model('acme.procrustse')")
    assert "did you mean 'acme.procrustes'" in sentence and "plugin import-error failed to load" in sentence


@pytest.mark.slow
def test_name_of_the_core_is_a_clash_and_never_wins(tmp_path: Path) -> None:
    write_one(
        tmp_path, "thief", HOOK + "def manifoldseq_solvers():\n    yield ms.hooks.SolverSpec('lbfgs', 'math:hypot')"
    )
    assert asked(tmp_path, "print(hooks.get_solver('lbfgs'))").startswith("LBFGS(")
    said = plugins(tmp_path)["thief"]
    assert "is also registered by the core" in problems(said) and said["status"] == "clashes"


@pytest.mark.slow
def test_name_of_two_plugins_is_an_error_only_when_it_is_asked_for(tmp_path: Path) -> None:
    for name in ("left", "right"):
        code = f"def manifoldseq_models():\n    yield ms.hooks.ModelSpec('same', build='math:hypot', summary='{name}')"
        write_one(tmp_path, name, HOOK + code)
    assert "models 'same' is also registered by plugin 'right': write 'left:same'" in problems(
        plugins(tmp_path)["left"]
    )
    assert "plugin 'left' and plugin 'right'" in raised(tmp_path, "AmbiguousName", "get_model('same')")
    assert asked(tmp_path, "print(hooks.get_model('right:same').summary)") == "right"


def test_core_names_load_no_entry_point(tmp_path: Path) -> None:
    write_one(tmp_path, "seen", "print('loaded')")
    code = "import sys, manifoldseq as ms\n{}\nprint('stranger_seen._plugin' in sys.modules)"
    assert asked(tmp_path, code.format("ms.get_solver('lbfgs')")) == "False"
    assert asked(tmp_path, code.format("hooks.plugins()")) == "True"


@pytest.mark.slow
def test_environment_chooses_plugins(tmp_path: Path) -> None:
    write_good(tmp_path)
    write_one(tmp_path, "import-error", BROKEN["import-error"][0])

    def states(only: str | None = None, disable: str = "") -> dict[str, str]:
        env = {} if only is None else {"MANIFOLDSEQ_PLUGINS": only}
        found = plugins(tmp_path, MANIFOLDSEQ_DISABLE_PLUGINS=disable, **env)
        return {name: found[name]["status"] for name in ("acme", "import-error", "absent", "lds") if name in found}

    lds = {"lds"} & INSTALLED
    assert states(None, "import-error, other") == {"acme": "ok", "import-error": "disabled", **dict.fromkeys(lds, "ok")}
    one = {"acme": "disabled", "import-error": "disabled", **dict.fromkeys(lds, "disabled")}
    assert states("import-error", "import-error, other") == one
    assert states("acme,absent") == one | {"acme": "ok", "absent": "failed"}
    said = plugins(tmp_path, MANIFOLDSEQ_PLUGINS="acme,absent")["absent"]
    assert "MANIFOLDSEQ_PLUGINS names 'absent', which is not installed" in problems(said)
    assert states("") == one


def test_command_line_lists_broken_plugins_and_goes_on(tmp_path: Path) -> None:
    write_broken(tmp_path)
    write_good(tmp_path)
    done = command(tmp_path, "list", "plugins", "--json")
    assert done.returncode == 0, done.stderr
    listed = {plugin["name"]: plugin for plugin in json.loads(done.stdout)}
    assert listed["acme"]["status"] == "ok"
    for name, (_, cause) in BROKEN.items():
        assert cause in json.dumps(listed[name], ensure_ascii=False), name
    table = command(tmp_path, "list", "plugins", COLUMNS="1000")
    assert table.returncode == 0
    assert all(cause in table.stdout for _, cause in BROKEN.values())


def test_checking_a_broken_plugin_fails_with_its_cause(tmp_path: Path) -> None:
    write_one(tmp_path, "import-error", BROKEN["import-error"][0])
    done = command(tmp_path, "check", "stranger_import_error")
    assert done.returncode == 1
    assert "no_such_module_anywhere" in done.stdout + done.stderr


@pytest.mark.slow
def test_checking_a_model_with_a_wrong_gradient_fails(tmp_path: Path) -> None:
    code = """
    import manifoldseq as ms

    def build(data):
        objective = ms.objective(lambda x: float(x @ x), lambda x: 2.02 * x)
        return ms.Problem(ms.manifolds.Euclidean(3), objective)

    @ms.hookimpl
    def manifoldseq_models():
        yield ms.hooks.ModelSpec("wrong-gradient", build=build, example=lambda rng: None)
        yield ms.hooks.ModelSpec("nowhere", build="no_such_module:build")
    """
    write_one(tmp_path, "wrong", code)
    done = command(tmp_path, "check", "stranger-wrong")
    assert done.returncode == 1
    assert "FAILED  objective: gradient" in done.stdout and "No module named 'no_such_module'" in done.stdout
    assert "2 records checked: 0 tested and passed, 2 FAILED." in done.stdout
