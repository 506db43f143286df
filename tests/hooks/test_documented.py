"""Every hook is documented with its exact arguments, and the example of its docstring is registered here."""

import inspect
import textwrap
from pathlib import Path
from types import ModuleType

import click
import pytest

import manifoldseq as ms
from manifoldseq.hooks import _hookspecs as specs
from manifoldseq.hooks._records import KINDS
from manifoldseq.hooks._registry import Registry

HOOKS = [name for name in vars(specs) if name.startswith("manifoldseq_")]
PAGE = Path(__file__).parents[2] / "docs" / "develop" / "hooks.md"


def example(hook: str) -> str:
    """Return the code of a hook's docstring."""
    return textwrap.dedent((inspect.getdoc(getattr(specs, hook)) or "").split(".. code-block:: python\n")[1]).strip()


def plugin(hook: str) -> ModuleType:
    """Return the example as a module."""
    module = ModuleType(f"example_of_{hook}")
    exec(compile(example(hook), hook, "exec"), vars(module))
    return module


def test_every_kind_of_record_has_a_hook_and_no_other() -> None:
    assert sorted(HOOKS) == sorted([*(f"manifoldseq_{kind}" for kind in KINDS), "manifoldseq_commands"])


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_is_documented_with_its_arguments_and_example(hook: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"## `{hook}({', '.join(inspect.signature(getattr(specs, hook)).parameters)})`" in page
    assert example(hook) in page


@pytest.mark.parametrize("kind", KINDS)
def test_example_registers_its_record(kind: str) -> None:
    registry = Registry(list)
    registry.register(plugin(f"manifoldseq_{kind}"))
    (plugin_, record), *others = registry.entries(kind)
    assert not others and plugin_.status == "ok"
    assert isinstance(record, KINDS[kind]) and record.as_dict()["summary"]


def test_example_adds_its_command() -> None:
    registry = Registry(list)
    registry.register(plugin("manifoldseq_commands"))
    group = click.Group()
    assert registry.plugins()[0].commands(group) is None
    assert list(group.commands) == ["greet"]


def test_hookimpl_is_public() -> None:
    assert ms.hookimpl is specs.hookimpl
