"""Which record a name stands for: session before bundled before third parties, for every kind of record."""

from __future__ import annotations

import dataclasses
import logging
import math
import tomllib
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from strangers.distributions import HOOK, registry, write

import manifoldseq as ms
from manifoldseq import hooks
from manifoldseq.estimators._object_parameters import plain_settings
from manifoldseq.hooks._bundled import is_installed
from manifoldseq.hooks._plugin import Origin, origin_of
from manifoldseq.hooks._registry import Registry
from manifoldseq_lds import LDSKMeans

ROOT = Path(__file__).parents[2]
F = math.hypot
RECORDS: dict[str, Callable[[str, str], hooks.Record]] = {
    "models": lambda name, who: hooks.ModelSpec(name, build=F, summary=who),
    "estimators": lambda name, who: hooks.EstimatorSpec(name, F, summary=who),
    "rules": lambda name, who: hooks.RuleSpec(name, F, estimator="lds-kmeans", parameter="mean", summary=who),
    "kernels": lambda name, who: hooks.KernelSpec(name, F, summary=who),
    "domains": lambda name, who: hooks.DomainSpec(name, F, F, F, summary=who),
    "manifolds": lambda name, who: hooks.ManifoldSpec(name, F, F, summary=who),
    "solvers": lambda name, who: hooks.SolverSpec(name, F, summary=who),
    "readers": lambda name, who: hooks.ReaderSpec(name, ("*.one",), F, summary=who),
    "datasets": lambda name, who: hooks.DatasetSpec(name, F, summary=who),
    "plots": lambda name, who: hooks.PlotSpec(name, F, F, summary=who),
    "reproductions": lambda name, who: hooks.ReproductionSpec(name, F, summary=who),
}
EVERY_KIND = pytest.mark.parametrize("kind", RECORDS)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Give each test a session in which nothing is registered yet."""
    found = hooks.register.__globals__["_registry"]
    monkeypatch.setattr(found, "_registered", {})
    monkeypatch.setattr(found, "_said", {})
    return found


def module(name: str, record: hooks.Record) -> ModuleType:
    """Return a module with a hook that yields a record."""

    def hook() -> Any:
        yield record

    made = ModuleType(name)
    setattr(made, f"manifoldseq_{record.kind}", ms.hookimpl(hook))
    return made


def found(kind: str, name: str) -> str:
    """Return whose record a name stands for: its summary."""
    record: Any = hooks.get_record(type(RECORDS[kind]("x", "")), name)
    return record.summary


def bundled_name(kind: str) -> tuple[str, str]:
    """Return the name of a bundled record of a kind, and of the plugin that gives it."""
    plugin, record = next(
        one for one in hooks.records(kind) if one[0].origin in (Origin.CORE, Origin.BUNDLED) and ":" not in one[1].name
    )
    return record.name, plugin.name


def test_the_table_has_every_kind() -> None:
    of_models = {"initializers", "updates"}  # found by their model, see test_models.py
    assert {*RECORDS, *of_models} == {cls.kind for cls in hooks.Record.__subclasses__()}


@EVERY_KIND
def test_a_record_of_the_session_wins_and_one_line_says_so(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    name, plugin = bundled_name(kind)
    bundled = found(kind, name)
    ms.register(module("mine", RECORDS[kind](name, "third party")))
    ms.register(RECORDS[kind](name, "session"))
    with caplog.at_level(logging.INFO, "manifoldseq"):
        assert found(kind, name) == found(kind, name) == found(kind, f"session:{name}") == "session"
    (line,) = [record.getMessage() for record in caplog.records]
    assert repr(name) in line and "given to manifoldseq.register" in line and "plugin 'mine'" in line
    assert ("the core" if plugin == "manifoldseq" else f"plugin '{plugin}'") in line
    assert found(kind, f"{plugin}:{name}") == bundled  # what it replaced can still be named


@EVERY_KIND
def test_a_third_party_never_replaces_a_bundled_record(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    name, plugin = bundled_name(kind)
    bundled = found(kind, name)
    ms.register(module("mine", RECORDS[kind](name, "mine")))
    ms.register(module("yours", RECORDS[kind](name, "yours")))
    assert found(kind, name) == found(kind, f"{plugin}:{name}") == bundled
    assert (found(kind, f"mine:{name}"), found(kind, f"yours:{name}")) == ("mine", "yours")
    assert not caplog.records
    plugins = {one.name: one for one in hooks.plugins()}
    assert ": write 'mine:" in plugins["mine"].clashes[0]
    assert not plugins[plugin].clashes if plugin in plugins else plugin == "manifoldseq"


@EVERY_KIND
def test_two_third_parties_with_one_name_are_an_error_only_when_it_is_asked_for(kind: str) -> None:
    ms.register(module("mine", RECORDS[kind]("same", "mine")))
    assert found(kind, "same") == "mine"  # the only one of that name
    ms.register(module("yours", RECORDS[kind]("same", "yours")))
    assert (found(kind, "mine:same"), found(kind, "yours:same")) == ("mine", "yours")
    with pytest.raises(hooks.AmbiguousName, match=r"use 'mine:same' or 'yours:same'"):
        found(kind, "same")
    ms.register(RECORDS[kind]("same", "session"))
    assert found(kind, "same") == "session"


@EVERY_KIND
def test_a_later_record_of_the_session_replaces_an_earlier_one(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    ms.register(RECORDS[kind]("same", "first"))
    other = "models" if kind != "models" else "plots"
    ms.register(RECORDS[other]("same", "of another kind"))
    with caplog.at_level(logging.INFO, "manifoldseq"):
        ms.register(RECORDS[kind]("same", "second"))
    assert found(kind, "same") == "second" and found(other, "same") == "of another kind"
    assert [record.getMessage() for record in caplog.records] == [
        f"{kind.removesuffix('s')} 'same': the record registered last replaces the earlier one"
    ]


@pytest.mark.parametrize(
    ("name", "package", "distribution", "origin"),
    [
        ("lds", "stranger_lds", "stranger-lds", Origin.THIRD_PARTY),
        ("lds", "stranger_lds", "manifoldseq-lds", Origin.THIRD_PARTY),
        ("lds", "manifoldseq_lds", "manifoldseq", Origin.THIRD_PARTY),
        ("lds", "manifoldseq_lds", "stranger-lds", Origin.THIRD_PARTY),
        ("papers", "manifoldseq_lds", "manifoldseq-papers", Origin.THIRD_PARTY),
        ("more", "manifoldseq_more", "manifoldseq-more", Origin.THIRD_PARTY),
        ("any", "manifoldseq_papers", "Manifoldseq_Papers", Origin.BUNDLED),
        ("lds", "manifoldseq_lds", "manifoldseq-lds", Origin.BUNDLED),
    ],
)
def test_a_name_makes_nobody_a_bundled_plugin(
    tmp_path: Path, name: str, package: str, distribution: str, origin: Origin
) -> None:
    write(tmp_path, name, package, {"__init__.py": ""})
    metadata = tmp_path / f"{package}-1.2.dist-info" / "METADATA"
    metadata.write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
    (found,) = [one for package in distributions(path=[str(tmp_path)]) for one in package.entry_points]
    assert origin_of(found) is origin


def test_an_installed_third_party_never_replaces_a_core_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    code = f"{HOOK}def manifoldseq_solvers():\n    yield ms.hooks.SolverSpec('lbfgs', 'math:hypot', summary='theirs')"
    write(tmp_path, "aaa", "stranger_aaa", {"__init__.py": "", "_plugin.py": code})
    here = registry(tmp_path)
    assert here.find("solvers", "lbfgs").as_dict()["summary"] == ""
    assert here.find("solvers", "aaa:lbfgs").as_dict()["summary"] == "theirs"
    here.register(hooks.SolverSpec("lbfgs", F, summary="session"))
    assert here.find("solvers", "lbfgs").as_dict()["summary"] == "session"


def test_bundled_plugins_are_those_of_the_projects_files() -> None:
    named = {}
    for file in sorted(ROOT.glob("plugins/*/pyproject.toml")):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        (value,) = project["entry-points"]["manifoldseq"].values()
        named[project["name"]] = value.partition(".")[0]
    assert set(named) == set(hooks.BUNDLED)
    assert set(named.values()) == {one.parent.name for one in ROOT.glob("plugins/*/_plugin.py")}
    bundled = {one.package for one in hooks.plugins() if one.origin is Origin.BUNDLED}
    assert bundled == {package for name, package in named.items() if is_installed(name)}


def test_no_two_bundled_records_have_one_name() -> None:
    names = [(record.kind, record.name) for kind in RECORDS for _, record in hooks.records(kind)]
    assert len(names) == len(set(names))


@dataclasses.dataclass(frozen=True)
class Halved:
    """The kernel `projection` divided by two, as a kernel of a session or a third party."""

    base: Any = dataclasses.field(default_factory=lambda: ms.get_kernel("lds:projection"))
    name = "halved"
    domain = "lds"
    constant_diagonal = True
    positive_definite = True
    products_only = True
    convex_in_output = True
    self_term = None

    def pack(self, items: Any) -> Any:
        return self.base.pack(items)

    def cross(self, P: Any, Q: Any) -> Any:
        return self.base.cross(P, Q) / 2

    def diag(self, P: Any) -> Any:
        return self.base.diag(P) / 2

    def weighted(self, point: Any, P: Any, beta: Any) -> Any:
        return self.base.weighted(point, P, np.asarray(beta) / 2)

    def manifold(self, m: int, n: int, bound: float = 0.99) -> Any:
        return self.base.manifold(m, n, bound)


def sines() -> list[np.ndarray]:
    """Return sequences of two frequencies."""
    t = np.arange(40)[:, None]
    return [np.cos((0.3, 0.9)[i % 2] * t + i + np.arange(3)) for i in range(8)]


def test_defaults_of_bundled_estimators_use_the_session_and_no_third_party() -> None:
    X = sines()

    def fitted(**settings: Any) -> LDSKMeans:
        return LDSKMeans(2, n_states=2, n_init=1, random_state=0, **settings).fit(X)

    before = fitted()
    ms.register(module("mine", hooks.KernelSpec("projection", Halved)))
    ms.register(module("yours", hooks.KernelSpec("projection", Halved)))
    assert (
        fitted().mean_kernel_value_ == before.mean_kernel_value_
        and fitted(kernel="mine:projection").mean_kernel_value_ != before.mean_kernel_value_
    )
    ms.register(hooks.KernelSpec("projection", Halved))
    assert fitted().mean_kernel_value_ == fitted(kernel="mine:projection").mean_kernel_value_


def test_a_model_file_holds_the_kernel_that_it_was_saved_with(tmp_path: Path) -> None:
    bundled = ms.get_kernel("projection")
    model = LDSKMeans(2, n_states=2, kernel=bundled, n_init=1, random_state=0).fit(sines())
    ms.storage.save_model(model, tmp_path)
    ms.register(hooks.KernelSpec("projection", Halved))
    ms.register(hooks.EstimatorSpec("lds-kmeans", F))
    again = ms.storage.load_model(tmp_path)
    assert type(again) is LDSKMeans and again.kernel == bundled


def test_a_model_of_a_plugin_that_is_gone_is_not_read_as_a_bundled_one(
    tmp_path: Path, fresh: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    ms.register(module("mine", hooks.EstimatorSpec("lds-kmeans", Theirs)))
    ms.storage.save_model(Theirs(), tmp_path)
    assert type(ms.storage.load_model(tmp_path)) is Theirs
    monkeypatch.setattr(fresh, "_registered", {})
    with pytest.raises(ValueError, match=r"an estimator 'lds-kmeans' of plugin 'mine', which is not available"):
        ms.storage.load_model(tmp_path)
    ms.register(hooks.EstimatorSpec("lds-kmeans", Theirs))
    assert type(ms.storage.load_model(tmp_path)) is Theirs


class Theirs(BaseEstimator):
    """An estimator of a third party."""


def test_readers_of_one_pattern_follow_the_same_order(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,time,a\n0,0,1\n0,1,3\n")
    (tmp_path / "x.one").write_text("")

    def reader(name: str, value: float, pattern: str) -> hooks.ReaderSpec:
        return hooks.ReaderSpec(name, (pattern,), lambda path: ms.storage.SequenceData([np.full((2, 1), value)]))

    def first(file: str) -> float:
        return float(np.asarray(ms.storage.read(tmp_path / file).sequences[0])[0, 0])

    ms.register(module("mine", reader("csv", 7.0, "*.csv")))
    assert first("x.csv") == 1.0
    ms.register(reader("csv", 8.0, "*.csv"))
    assert first("x.csv") == 8.0
    ms.register(module("mine", reader("one", 7.0, "*.one")))
    assert first("x.one") == 7.0
    ms.register(module("yours", reader("one", 9.0, "*.one")))
    with pytest.raises(ValueError, match=r"plugin 'mine' and plugin 'yours' have a reader for this name"):
        ms.storage.read(tmp_path / "x.one")
    ms.register(reader("one", 8.0, "*.one"))
    assert first("x.one") == 8.0


def test_settings_of_an_object_name_it_so_that_it_is_found() -> None:
    ms.register(module("mine", hooks.KernelSpec("projection", Halved)))
    assert plain_settings({"kernel": Halved()})["kernel"] == "mine:projection"
    assert plain_settings({"kernel": ms.get_kernel("projection")})["kernel"] == "projection"
    ms.register(hooks.KernelSpec("projection", Theirs))
    assert plain_settings({"kernel": ms.get_kernel("lds:projection")})["kernel"] == "lds:projection"


def test_third_parties_of_one_plugin_name_are_told_apart_by_their_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    code = f"{HOOK}def manifoldseq_plots():\n    yield ms.hooks.PlotSpec('same', 'math:hypot', 'math:hypot')"
    for package in ("stranger_left", "stranger_right"):
        write(tmp_path, "acme", package, {"__init__.py": "", "_plugin.py": code})
    with pytest.raises(hooks.AmbiguousName, match=r"'stranger_left\._plugin' and 'stranger_right\._plugin'.*uninstall"):
        registry(tmp_path).find("plots", "acme:same")


def test_a_module_called_session_is_a_third_party() -> None:
    ms.register(hooks.PlotSpec("mine", F, F, summary="record"))
    ms.register(module("session", hooks.PlotSpec("mine", F, F, summary="module")))
    assert found("plots", "mine") == "record"
