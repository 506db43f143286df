"""Every hook is documented with its exact arguments, and the example of its docstring is registered here."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pluggy
import pytest

import manifoldseq as ms
from manifoldseq.hooks import _hookspecs

PAGE = Path(__file__).parents[2] / "docs" / "develop" / "hooks.md"
RECORDS = [value for value in vars(ms.hooks).values() if isinstance(value, type) and issubclass(value, ms.hooks.Record)]
KINDS = {record.kind: record for record in RECORDS if record is not ms.hooks.Record}
REGISTER = """
import json, sys
from types import ModuleType
import click, manifoldseq as ms
told = {}
for hook, code in json.load(sys.stdin).items():
    module = ModuleType(f"example_of_{hook}")
    exec(compile(code, hook, "exec"), vars(module))
    ms.register(module)
    (plugin,) = [plugin for plugin in ms.hooks.plugins() if plugin.name == module.__name__]
    group = click.Group()
    records = [(type(record).__name__, record.kind, record.as_dict()) for record in plugin.records]
    told[hook] = plugin.status, records, plugin.commands(group), list(group.commands)
print(json.dumps(told))
"""


def specifications() -> dict[str, pluggy.HookSpec]:
    """Return what a plugin is held against, by the name of the hook."""
    manager = pluggy.PluginManager("manifoldseq")
    manager.add_hookspecs(_hookspecs)
    callers = {name: caller for name, caller in vars(manager.hook).items() if name.startswith("manifoldseq_")}
    return {name: caller.spec for name, caller in callers.items()}


HOOKS = specifications()


def example(hook: str) -> str:
    """Return the code of a hook's docstring."""
    return textwrap.dedent((inspect.getdoc(HOOKS[hook].function) or "").split(".. code-block:: python\n")[1]).strip()


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """Register all examples in a fresh interpreter and return what is told of each."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", REGISTER],
        input=json.dumps({hook: example(hook) for hook in HOOKS}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_kind_of_record_has_a_hook_and_no_other() -> None:
    assert sorted(HOOKS) == sorted([*(f"manifoldseq_{kind}" for kind in KINDS), "manifoldseq_commands"])


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_is_documented_with_its_arguments_and_example(hook: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"## `{hook}({', '.join(inspect.signature(HOOKS[hook].function).parameters)})`" in page
    assert example(hook) in page


@pytest.mark.parametrize("kind", KINDS)
def test_example_registers_its_record(told: dict[str, Any], kind: str) -> None:
    status, ((record, of_kind, fields), *others), _, _ = told[f"manifoldseq_{kind}"]
    assert not others and status == "ok"
    assert (record, of_kind) == (KINDS[kind].__name__, kind) and fields["summary"]


def test_example_adds_its_command(told: dict[str, Any]) -> None:
    assert told["manifoldseq_commands"] == ["ok", [], None, ["greet"]]


def test_hookimpl_is_public_and_marks_what_the_hooks_call() -> None:
    assert ms.hookimpl is ms.hooks.hookimpl

    @ms.hookimpl
    def manifoldseq_datasets() -> Any:
        yield

    manager = pluggy.PluginManager("manifoldseq")
    assert manager.parse_hookimpl_opts(SimpleNamespace(f=manifoldseq_datasets), "f") is not None
