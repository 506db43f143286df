"""The listings, unknown commands, and what starting the command line imports."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.examples import COMMANDS
from strangers.distributions import HOOK, command, write_one

import manifoldseq_hope

Run = Callable[..., tuple[int, str, str]]
LISTINGS = (
    "plugins models estimators kernels manifolds solvers readers datasets plots reproductions reproduce"
).split()


@pytest.mark.parametrize("listing", LISTINGS)
def test_listing_as_table_and_as_json(run: Run, listing: str) -> None:
    status, out, err = run(listing)
    assert (status, err) == (0, "") and out
    status, out, err = run(listing, "--json")
    assert (status, err) == (0, "")
    for record in json.loads(out):
        assert record["name"]


def test_core_records_come_from_the_core(run: Run) -> None:
    records = json.loads(run("solvers", "--json")[1])
    assert {"plugin": "manifoldseq", "name": "lbfgs"}.items() <= records[0].items()
    lines = run("manifolds")[1].splitlines()
    assert lines[0].split() == ["name", "from", "summary"]
    assert len({line.index("manifoldseq") for line in lines[1:]}) == 1


def test_unknown_command_raises_an_error(run: Run) -> None:
    status, _, err = run("plugin")
    assert status == 2 and "unknown command 'plugin': did you mean 'plugins'?" in err


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
    assert "command 'fit' is already taken" in done.stderr
    assert "stolen" not in command(tmp_path, "fit", "--help").stdout


def test_listing_imports_neither_heavy_packages_nor_models() -> None:
    script = """
import sys
from manifoldseq.cli import main
status = main(["plugins"]) or main(["estimators", "--json"])
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
    given = ("--plugin", "added.py", "models", "hope.vmf")
    done = command(None, *given, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    source = (Path(manifoldseq_hope.__file__).parent / "mixtures/_likelihood.py").read_text().splitlines()
    functions = {"prepare": "vmf", "statistics": "statistics", "value": "minus_log_likelihood", "update em": "em"}
    for part, name in functions.items():
        (line,) = re.findall(rf" {part} {name} manifoldseq_hope/mixtures/_likelihood.py:(\d+)", said)
        definition = source.index(next(one for one in source if one.startswith(f"def {name}(")))
        assert all(one.startswith("@") for one in source[int(line) - 1 : definition]) and int(line) <= definition + 1
    assert "solver em" in said and "given by hope:hope.vmf" in said and "n_components 3" in said
    assert f"begin-{'x' * 40} begin added.py:5 added:begin-" in said
    found = json.loads(command(None, *given, "--json", cwd=tmp_path).stdout)
    parts = {(part["kind"], part["name"]): part for part in found["parts_defined"]}
    added = parts["initializers", f"begin-{'x' * 40}"]
    assert (added["file"], added["line"], added["exact"]) == (str(tmp_path / "added.py"), 5, False)
    assert added["given_by"].startswith("added:begin-") and parts["initializers", "seeds"]["default"]
    assert found["parameters"]["n_components"] == 3
