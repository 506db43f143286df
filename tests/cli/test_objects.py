"""Parameters that are objects, from the shell: dotted names, tables of a file, runs that repeat and resume."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.examples import SignClusterer, Walker
from helpers import needs, register_models

import manifoldseq as ms
from manifoldseq.storage import load_model

Run = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True)
class Levels:
    """A dataclass."""

    offset: float = 0.0
    top: float | None = None


class Sign(SignClusterer):
    """A stranger's estimator, of scikit-learn's base only, that holds a dataclass and an estimator."""

    stored_types = (Levels, Walker)

    def __init__(self, levels: Levels | None = None, walker: Any = Walker(), kernel: Any = "first", random_state=None):  # noqa: B008
        super().__init__(random_state=random_state)
        self.levels = levels
        self.walker = walker
        self.kernel = kernel

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the four parameters."""
        return {name: getattr(self, name) for name in ("levels", "walker", "kernel", "random_state")}

    def fit(self, X: list[np.ndarray], y: object = None) -> Sign:
        """Cluster by the offset."""
        self.offset = (self.levels or Levels()).offset
        return super().fit(X)  # type: ignore[return-value]


@dataclass(frozen=True)
class Counting:
    """A kernel of a stranger, as far as names go."""

    n_steps: int = 2
    name = domain = "counting"
    constant_diagonal = positive_definite = True
    products_only = convex_in_output = False
    self_term = None
    pack = cross = diag = weighted = manifold = staticmethod(len)


def table(*, levels: Levels = Levels(1.0), kernel: Any = "first", n_runs: int = 1) -> list[dict[str, Any]]:
    """Return a row that says what was set."""
    return [{"model": repr(levels), "setting": repr(kernel), "ours": float(n_runs)}]


MODEL = """
from dataclasses import dataclass
import manifoldseq as ms

@dataclass(frozen=True)
class Target:
    at: float = 1.0
    scale: float = 1.0

def build(data, *, target: Target | None = None, n: int = 2):
    target = target or Target()
    cost = lambda x: target.scale * ((x - target.at) ** 2).sum()
    return ms.Problem(ms.manifolds.Euclidean(n), ms.objective(cost, lambda x: 2 * target.scale * (x - target.at)))
"""


@pytest.fixture
def objects(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return the command line with the estimator, the kernel and the reproduction, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    ms.register(ms.hooks.EstimatorSpec("levels", Sign))
    ms.register(ms.hooks.KernelSpec("first", lambda: Counting(0)))
    ms.register(ms.hooks.KernelSpec("counting", Counting))
    ms.register(ms.hooks.ReproductionSpec("table-1", table, summary="One row"))
    (tmp_path / "mine.py").write_text(MODEL)
    return run


SETTINGS = ("levels.offset=0.5", "levels.top=None", "walker.pull=0.25", "kernel=counting", "kernel.n_steps=3")
FIT = ("fit", "levels", "two-levels", *(word for setting in SETTINGS for word in ("--set", setting)))


def test_settings_of_objects_reach_the_estimator_and_are_written_down(objects: Run) -> None:
    status, _, err = objects(*FIT, "-o", "run")
    assert (status, err) == (0, "")
    model = load_model("run")
    assert model.levels == Levels(0.5) and model.kernel == Counting(3) and model.offset == 0.5
    assert (model.walker.pull, model.walker.max_iter, Walker().pull) == (0.25, 6, 0.5)
    written = tomllib.loads(Path("run/run.toml").read_text())
    assert written["set"] == {
        "levels.offset": 0.5, "walker.pull": 0.25, "walker.max_iter": 6, "walker.random_state": 0,
        "kernel": "counting", "kernel.n_steps": 3, "random_state": 0,
    }  # fmt: skip
    assert written["none"] == ["levels.top"]
    about = json.loads(Path("run/run.json").read_text())
    assert about["parameters"] == {**written["set"], "levels.top": None}
    assert all(f"--set={setting}" in about["command"] for setting in SETTINGS)


def test_a_run_repeats_from_its_toml_and_a_table_says_the_same(objects: Run) -> None:
    objects(*FIT, "-o", "one")
    assert objects("fit", "--config", "one/run.toml", "-o", "two")[0] == 0
    Path("mine.toml").write_text(
        'estimator = "levels"\ndata = "two-levels"\nnone = ["levels.top"]\n'
        '[set.levels]\noffset = 0.5\n[set.walker]\npull = 0.25\n[set.kernel]\nname = "counting"\nn_steps = 3\n'
    )
    assert objects("fit", "--config", "mine.toml", "-o", "three")[0] == 0
    for other in ("two", "three"):
        for name in ("run.toml", "model.npz", "assignments.csv"):
            assert Path("one", name).read_bytes() == Path(other, name).read_bytes(), (other, name)


@pytest.mark.slow
def test_the_shell_wins_over_the_file(objects: Run) -> None:
    objects(*FIT, "-o", "one")
    again = ("fit", "--config", "one/run.toml")
    assert objects(*again, "--set", "levels.offset=0.75", "-o", "two")[0] == 0
    assert load_model("two").levels == Levels(0.75) and load_model("two").walker.pull == 0.25
    assert objects(*again, "--set", "kernel=first", "-o", "three")[0] == 0  # which has no n_steps
    assert load_model("three").kernel == "first"
    assert objects(*again, "--set", "levels=None", "-o", "four")[0] == 0
    assert load_model("four").levels is None


def test_tables_may_be_inside_tables(objects: Run) -> None:
    class Outer(SignClusterer):
        """Holds an estimator that holds others."""

        stored_types = (Sign,)

        def __init__(self, sign: Sign | None = None, name: str = "x", random_state: Any = None) -> None:
            super().__init__(name=name, random_state=random_state)
            self.sign = sign

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the three parameters."""
            return {name: getattr(self, name) for name in ("sign", "name", "random_state")}

    Outer.__init__.__annotations__["sign"] = Sign | None  # a local class, which annotations as texts cannot name
    ms.register(ms.hooks.EstimatorSpec("outer", Outer))
    Path("mine.toml").write_text(
        'estimator = "outer"\ndata = "two-levels"\n[set.sign]\nwalker = {pull = 0.25}\n'
        '[set.sign.levels]\noffset = 0.5\n[set.sign.kernel]\nname = "counting"\nn_steps = 7\n'
    )
    assert objects("fit", "--config", "mine.toml", "--no-quality", "-o", "one")[::2] == (0, "")
    sign = load_model("one").sign
    assert (sign.levels, sign.walker.pull, sign.kernel) == (Levels(0.5), 0.25, Counting(7))
    assert objects("fit", "--config", "one/run.toml", "--no-quality", "-o", "two")[0] == 0
    assert Path("one/run.toml").read_bytes() == Path("two/run.toml").read_bytes()


@pytest.mark.slow
def test_a_run_is_resumed_with_the_same_settings_of_objects_only(objects: Run) -> None:
    class Tired(Walker):
        """Walks at the pull of the walker inside."""

        stored_types = (Walker,)

        def __init__(self, inner: Walker | None = None, max_iter: int = 6, random_state: int = 0) -> None:
            super().__init__(max_iter=max_iter, random_state=random_state)
            self.inner = inner

        @property
        def pull(self) -> float:
            return 0.5 if self.inner is None else self.inner.pull

        @pull.setter
        def pull(self, value: float) -> None:
            pass

    ms.register(ms.hooks.EstimatorSpec("tired", Tired))
    fit = ("fit", "tired", "two-levels", "--set", "inner.pull=0.25", "--no-quality", "-o", "run")
    Walker.trouble[3] = KeyboardInterrupt()
    assert objects(*fit)[0] == 130
    status, _, err = objects(*fit[:4], "inner.pull=0.5", *fit[5:], "--resume")
    assert status == 2 and "unfinished run with other data or settings" in err
    assert objects(*fit, "--resume")[0] == 0 and Walker.steps_taken == [0, 1, 2, 3, 4, 5]
    assert objects(*fit[:-1], "whole")[0] == 0
    np.testing.assert_array_equal(load_model("run").position_, load_model("whole").position_)
    assert load_model("run").inner.pull == 0.25


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("levels.ofset=1", "estimator 'levels' has no parameter 'levels.ofset': did you mean 'levels.offset'? It has"),
        ("offset=1", "has no parameter 'offset': did you mean 'levels.offset'?"),
        ("lvels.offset=1", "did you mean 'levels.offset'?"),
        ("kernel.n_steps=1", "has no parameter 'kernel.n_steps': It has kernel, levels, levels.offset, levels.top"),
        ("random_state.x=1", "has no parameter 'random_state.x'"),
        ("walker.pull", "--set 'walker.pull' has no '='"),
    ],
)
def test_an_unknown_setting_raises_an_error(objects: Run, setting: str, sentence: str) -> None:
    status, out, err = objects("fit", "levels", "two-levels", "--set", setting, "-o", "run")
    assert (status, out) == (2, "") and sentence in err and not Path("run").exists()


def test_a_model_that_is_solved_has_objects(objects: Run) -> None:
    solve = ("solve", "mine.py:build", "two-levels")
    assert objects(*solve, "--set", "target.at=3", "--set", "solver.memory=4", "-o", "one")[0] == 0
    np.testing.assert_allclose(load_model("one").x, [3, 3], atol=1e-6)
    written = tomllib.loads(Path("one/run.toml").read_text())["set"]
    assert written == {"target.at": 3, "solver.memory": 4}
    Path("mine.toml").write_text(
        'model = "mine.py:build"\ndata = "two-levels"\n[set]\ntarget = {at = 3}\nsolver.memory = 4\n'
    )
    for config, folder in (("one/run.toml", "two"), ("mine.toml", "three")):
        assert objects("solve", "--config", config, "-o", folder)[0] == 0
        assert Path("one/model.npz").read_bytes() == Path(folder, "model.npz").read_bytes()
    status, _, err = objects(*solve, "--set", "at=3", "-o", "four")
    assert status == 2 and "model 'mine.py:build' has no parameter 'at': did you mean 'target.at'?" in err


def test_a_reproduction_has_objects(objects: Run) -> None:
    settings = ("--set", "levels.top=2", "--set", "kernel=counting", "--set", "kernel.n_steps=5", "--set", "n_runs=3")
    status, out, err = objects("reproduce", "table-1", *settings, "--json")
    (row,) = json.loads(out)["rows"]
    assert (status, err) == (0, "")
    assert (row["model"], row["setting"], row["ours"]) == (repr(Levels(1.0, 2)), repr(Counting(5)), 3)
    status, _, err = objects("reproduce", "table-1", "--set", "levels.tp=2")
    assert status == 2 and "reproduction 'table-1' has no parameter 'levels.tp': did you mean 'levels.top'?" in err


def test_parameters_are_listed(objects: Run) -> None:
    found = json.loads(objects("list", "estimators", "levels", "--json")[1])
    assert found["name"] == "levels" and found["parameters"]["levels.offset"]["default"] == 0.0
    assert found["parameters"]["walker.pull"] == {"type": "float", "default": 0.5, "summary": ""}
    assert found["parameters"]["kernel"]["default"] == "first"
    lines = objects("list", "estimators", "levels")[1].splitlines()
    assert "  walker.pull          float [0.5]" in lines and "  levels.top           float | None [None]" in lines
    for command in (("fit", "levels"), ("fit", "two-levels", "levels"), ("reproduce", "table-1")):
        status, out, _ = objects(*command, "--help")
        assert (
            status == 0
            and "levels.offset" in out
            and f"Parameters of {'table-1' if 'table-1' in command else 'levels'}" in out
        )
    assert "Parameters of" not in objects("fit", "--help")[1]
    assert "n_steps" in objects("list", "kernels", "counting")[1]
    status, _, err = objects("list", "estimators", "level")
    assert status == 2 and "unknown estimator 'level': did you mean 'levels'?" in err


@pytest.fixture
def bundled(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return the command line with k-means of sequences and its kernels."""
    monkeypatch.chdir(tmp_path)
    lds = "manifoldseq_lds."
    ms.register(ms.hooks.EstimatorSpec("lds-kmeans", f"{lds}clustering._kmeans:LDSKMeans"))
    register_models("lds")
    ms.register(ms.hooks.EstimatorSpec("lds-kernel-matrix", f"{lds}clustering._kernel_matrix:LDSKernelMatrix"))
    exact = f"{lds}means._centre_rules:ExactMean"
    ms.register(ms.hooks.RuleSpec("exact", exact, estimator="lds-kmeans", parameter="mean"))
    ms.register(ms.hooks.KernelSpec("projection", f"{lds}kernels._projection:ProjectionKernel"))
    ms.register(ms.hooks.KernelSpec("grassmann", f"{lds}kernels._grassmann:GrassmannKernel"))
    return run


KMEANS = ("fit", "lds-kmeans", "two-levels", "--set", "n_clusters=2", "--set", "n_init=1", "--no-quality")


def test_k_means_from_the_shell_is_that_of_python(bundled: Run) -> None:
    from manifoldseq_lds import GrassmannKernel, LDSIdentifier, LDSKMeans

    settings = (
        "identifier.n_states=1",
        "identifier.delay=2",
        "identifier.center=false",
        "kernel=grassmann",
        "kernel.n_steps=2",
    )
    status, _, err = bundled(*KMEANS, *(f"--set={setting}" for setting in settings), "-o", "run")
    assert status == 0, err
    identifier = LDSIdentifier(1, delay=2, center=False)
    model = LDSKMeans(2, n_init=1, identifier=identifier, kernel=GrassmannKernel(2), random_state=0)
    model.fit(ms.hooks.get_dataset("two-levels").loader().sequences)
    found = load_model("run")
    assert repr(found) == repr(model)
    np.testing.assert_array_equal(found.systems_.A, model.systems_.A)
    status, _, err = bundled(*KMEANS, "--set=n_states=2", "--set=identifier.n_states=1", "-o", "other")
    assert status == 2 and "n_states=2, but the identifier has n_states=1: set only one of them" in err


@needs("lds")
def test_settings_of_objects_are_proposed(bundled: Run) -> None:
    status, _, err = bundled(*KMEANS, "--set=delay=4", "-o", "run")
    assert status == 2 and "estimator 'lds-kmeans' has no parameter 'delay': did you mean 'identifier.delay'?" in err
    status, _, err = bundled("solve", "lds.mean", "two-levels", "--set=center=false", "-o", "run")
    assert status == 2 and "model 'lds.mean' has no parameter 'center': did you mean 'identifier.center'?" in err
    solve = ("solve", "lds.mean", "two-levels", "--set=identifier.n_states=1", "--set=kernel=grassmann")
    assert bundled(*solve, "--set=kernel.n_steps=2", "-o", "mean")[0] == 0
