"""`manifoldseq list`, unknown commands, and what starting the command line imports."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from cli.examples import COMMANDS
from helpers import parametrize
from strangers.distributions import HOOK, command, write_one

import manifoldseq_hope
from manifoldseq import hooks
from manifoldseq.cli import main
from manifoldseq.cli._parameters import parameters, record_named
from manifoldseq.hooks._lookup import named
from manifoldseq.hooks._records import KINDS

Run = Callable[..., tuple[int, str, str]]
LISTS = ["", "plugins", *KINDS]


@pytest.mark.parametrize("kind", LISTS)
def test_list_as_table_and_as_json(run: Run, kind: str) -> None:
    status, out, err = run("list", *filter(None, [kind]))
    assert (status, err) == (0, "") and out
    status, out, err = run("list", *filter(None, [kind]), "--json")
    assert (status, err) == (0, "")
    for record in json.loads(out):
        assert record["name"]


def test_kinds_with_their_numbers_of_records(run: Run) -> None:
    lines = [line.split(maxsplit=2) for line in run("list")[1].splitlines() if not line.startswith(" ")]
    assert lines[0] == ["kind", "records", "summary"] and [line[0] for line in lines[1:]] == LISTS[1:]
    counted = {kind: int(count) for kind, count, _ in lines[1:]}
    assert all(counted[kind] == len(hooks.records(kind)) for kind in KINDS) and all(line[2] for line in lines)


def test_lists_name_distributions_that_are_not_installed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manifoldseq.hooks._bundled.is_installed", lambda name: name != "manifoldseq-papers")
    said = " ".join(run("list", "reproductions")[1].split())
    assert "manifoldseq-papers is not installed. It has lds-fig1, lds-fig2" in said
    assert "hierarchical-storage: run `pip install manifoldseq-papers`, or in a checkout" in said
    assert "not installed" not in run("list", "manifolds")[1] and run("list", "reproductions", "--json")[0] == 0
    monkeypatch.undo()
    assert "manifoldseq-papers is not installed" not in run("list", "reproductions")[1]


def test_one_plugin(run: Run) -> None:
    status, out, _ = run("list", "plugins", "session")
    assert status == 0 and re.search(r"^estimators +sign, walker$", out, re.MULTILINE)
    assert json.loads(run("list", "plugins", "session", "--json")[1])["registers"]["datasets"] == ["two-levels"]
    status, _, err = run("list", "plugins", "sesion")
    assert status == 2 and "unknown plugin 'sesion': did you mean 'session'?" in err


DOCUMENTED = '''
from typing import Any


def build(data: Any, size: int = 3, *, kind: Any = "a", above: float = 0.5, seed: int = 0):
    """Build.

    Parameters
    ----------
    data : list
    size, kind
        As in `reference`.
    above : float or "auto"
        The ``bound`` of `x`. Not of y.
    seed : int
    """


def reference(size, kind):
    """Refer.

    Parameters
    ----------
    size : int
        Columns, such as 3.5; all
        of them. More.
    kind : {"a", "b"}
        What it is.
    """
'''


def test_types_defaults_and_one_line_of_parameters(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written out by hand from the docstrings above."""
    (tmp_path / "documented.py").write_text(DOCUMENTED)
    monkeypatch.setenv("COLUMNS", "200")
    found = json.loads(run("list", "models", f"{tmp_path / 'documented.py'}:build", "--json")[1])["parameters"]
    assert found == {
        "size": {"type": "int", "default": 3, "summary": "Columns, such as 3.5; all of them."},
        "kind": {"type": '{"a", "b"}', "default": "a", "summary": "What it is."},
        "above": {"type": 'float or "auto"', "default": 0.5, "summary": "The bound of x."},
        "seed": {"type": "int", "default": 0, "summary": ""},
    }
    lines = run("list", "models", f"{tmp_path / 'documented.py'}:build")[1].splitlines()
    assert '  kind   {"a", "b"} [a]. What it is.' in lines and "  seed   int [0]" in lines


PLAIN = ("random_state", "seed", "seeds", "max_iter", "n_init", "tol", "folder", "n_clusters", "K", "M", "T", "rules")
"""Parameters whose names say everything."""


@parametrize("kind", [kind for kind in KINDS if kind not in ("datasets", "reproductions")], fast=3)
def test_every_parameter_has_a_type_and_a_line(kind: str) -> None:
    for name in dict.fromkeys(asked for asked, _ in named(kind)):
        try:
            record = record_named(kind, name)
        except click.ClickException:  # an extra that is not installed
            continue
        described = [one for one in parameters(record) if one.name.rpartition(".")[2] not in PLAIN]
        assert [one.name for one in described if not one.type or not one.summary] == [], name


@parametrize("name", [name for name, _ in named("estimators")], fast=3)
def test_every_estimator_fits_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("COLUMNS")
    assert main(["list", "estimators", name]) in (0, 1)  # 1: an extra is not installed
    assert max(map(len, capsys.readouterr().out.splitlines()), default=0) <= 80


def test_unknown_kind_raises_an_error(run: Run) -> None:
    status, _, err = run("list", "modles")
    assert status == 2 and "unknown kind 'modles': did you mean 'models'? The kinds are plugins, models," in err


def test_core_records_come_from_the_core(run: Run) -> None:
    records = json.loads(run("list", "solvers", "--json")[1])
    assert {"plugin": "manifoldseq", "name": "lbfgs-tr"}.items() <= records[0].items()
    lines = run("list", "manifolds")[1].splitlines()
    assert lines[0].split() == ["name", "from", "summary"]
    assert len({line.index("manifoldseq") for line in lines[1:] if "manifoldseq" in line}) == 1


def test_unknown_command_raises_an_error(run: Run) -> None:
    status, _, err = run("lst")
    assert status == 2 and "unknown command 'lst': did you mean 'list'?" in err


def test_check_of_an_unknown_package_raises_an_error(run: Run) -> None:
    status, _, err = run("check", "no_such_package")
    assert status == 2 and "no plugin is registered by package 'no_such_package'" in err


def test_help_lists_every_command_with_its_summary(run: Run) -> None:
    status, out, err = run("--help")
    assert (status, err) == (0, "")
    listed = [line.split(maxsplit=1) for line in out.partition("\nCommands:\n")[2].partition("\n\n")[0].splitlines()]
    assert [name for name, _ in listed] == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run: Run, name: str) -> None:
    status, out, err = run(name, "--help")
    assert (status, err) == (0, "")
    usage, _, said = out.partition("\n\n")
    assert usage.startswith(f"Usage: manifoldseq {name} ") and said.strip() and not said.startswith("Options:")


@pytest.mark.slow
def test_commands_of_plugins_cannot_take_a_name(tmp_path: Path) -> None:
    code = (
        "def manifoldseq_commands(cli):\n    import click\n"
        "    cli.command('fit')(lambda: None)\n    cli.command('steal')(lambda: click.echo('stolen'))\n"
    )
    write_one(tmp_path, "thief", HOOK + code)
    done = command(tmp_path, "steal")
    assert (done.returncode, done.stdout) == (0, "stolen\n")
    assert "its command 'fit' is ignored, because a command of this name exists already" in done.stderr
    assert "stolen" not in command(tmp_path, "fit", "--help").stdout


def test_listing_imports_neither_heavy_packages_nor_models() -> None:
    script = """
import sys
from manifoldseq.cli import main
status = main(["list"]) or main(["list", "plugins"]) or main(["list", "estimators", "--json"])
heavy = {"sklearn", "matplotlib", "autograd", "jinja2", "tqdm", "pymanopt", "pandas"}
parts = [name for name in sys.modules if name.startswith("manifoldseq_") and "." in name]
models = [name for name in parts if not name.endswith("._plugin")]
sys.exit(status or repr(sorted(heavy & set(sys.modules)) + models).replace("[]", "") or 0)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_command_runs_as_a_process() -> None:
    done = command(None, "--help")
    assert done.returncode == 0 and "Usage: manifoldseq" in done.stdout
    assert command(None).returncode == 2


@pytest.mark.slow
def test_models_say_where_each_part_is_defined_and_who_gives_it(tmp_path: Path) -> None:
    (tmp_path / "added.py").write_text(
        "import numpy as np\nimport manifoldseq as ms\n\n\ndef begin(problem, rng):\n"
        "    return problem.manifold.random_point(rng)\n\n\n@ms.hookimpl\ndef manifoldseq_initializers():\n"
        "    yield ms.hooks.InitializerSpec('begin-' + 'x' * 40, begin, model='hope.vmf')\n"
    )
    given = ("--plugin", "added.py", "list", "models", "hope.vmf")
    done = command(None, *given, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    source = (Path(manifoldseq_hope.__file__).parent / "mixtures/_likelihood.py").read_text().splitlines()
    functions = {"prepare": "vmf", "statistics": "statistics", "value": "minus_log_likelihood", "update em": "em"}
    for part, name in functions.items():
        (line,) = re.findall(rf" {part} {name} manifoldseq_hope/mixtures/_likelihood.py:(\d+)", said)
        definition = source.index(next(one for one in source if one.startswith(f"def {name}(")))
        assert all(one.startswith("@") for one in source[int(line) - 1 : definition]) and int(line) <= definition + 1
    assert "solver em" in said and "given by hope:hope.vmf" in said and "n_components int [3]" in said
    assert f"begin-{'x' * 40} begin added.py:5, given by added:begin-" in said
    found = json.loads(command(None, *given, "--json", cwd=tmp_path).stdout)
    parts = {(part["kind"], part["name"]): part for part in found["parts_defined"]}
    added = parts["initializers", f"begin-{'x' * 40}"]
    assert (added["file"], added["line"], added["exact"]) == (str(tmp_path / "added.py"), 5, False)
    assert added["given_by"].startswith("added:begin-") and parts["initializers", "seeds"]["default"]
    assert found["parameters"]["n_components"]["default"] == 3
