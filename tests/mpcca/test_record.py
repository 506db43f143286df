"""`MixturePCCA` is a registered model: replaced parts, blocks of rows, executors, kills, memory maps."""

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers import parametrize
from mpcca.problems import covariances, drawn, mixture, registered

import manifoldseq as ms
from manifoldseq_mpcca import Mixture, MixturePCCA

BUNDLED = ms.get_model("mpcca:mpcca")
LOW_RANK = dict(covariance_type="low-rank", n_private=1, shrinkage=10.0, diagonal=0.2, gate=1.0)
KINDS = {"diag": dict(covariance_type="diag"), "full": dict(covariance_type="full"), "low-rank": LOW_RANK}


def holed(views, seed=0):
    """Return views in which each row misses a view or a column, or nothing."""
    rng, views = np.random.default_rng(seed), [view.copy() for view in views]
    which = rng.integers(6, size=len(views[0]))
    views[0][which == 0], views[1][which == 1], views[0][which == 2, 1] = np.nan, np.nan, np.nan
    return views


def in_blocks(data, count=7, **params):
    """Prepare what the bundled model does, with its rows in several blocks."""
    prepared = BUNDLED.prepare(data, **params)
    parts = np.array_split(np.arange(prepared.blocks.n), count)
    recipes = [partial(prepared.blocks.take, rows) for rows in parts]
    return replace(prepared, blocks=ms.execution.RowBlocks(recipes, [len(rows) for rows in parts]))


def doubled(parts):
    """Return parts with twice the value and the gradient."""

    def both(model, point, sums):
        fun, gradient = BUNDLED.value_and_gradient(model, point, sums)
        *others, noise = gradient
        twice = tuple(tuple(2 * S for S in part) if model.full else 2 * part for part in noise)
        return 2 * fun, (*(2 * part for part in others), twice)

    return {**parts, "value": lambda *arguments: 2 * BUNDLED.value(*arguments), "value_and_gradient": both}


def answer(model):
    m = model.mixture_
    parts = [m.weights, m.means, m.loadings, *m.noise, model.history_["fun"]]
    return [part.tobytes() for part in parts], model.objective_, model.log_likelihood_, model.n_iter_


@parametrize("kind", KINDS, fast=1)
@pytest.mark.parametrize("solver", ["em", "lbfgs"])
def test_twice_the_cost_is_twice_the_objective(kind, solver):
    views, _ = drawn(mixture(spread=3), 200)
    options = dict(KINDS[kind], solver=solver, random_state=0, tol=0.0, max_iter=60)
    model = MixturePCCA(3, 2, **options).fit(views)
    twice = MixturePCCA(3, 2, model=registered("mpcca-twice", **doubled({})), **options).fit(views)
    assert twice.objective_ == pytest.approx(2 * model.objective_, rel=1e-6)
    assert model.log_likelihood_ == pytest.approx(model.score(views), rel=1e-10)
    assert not hasattr(twice, "log_likelihood_") and "log_likelihood_" not in vars(twice)
    assert "mpcca-twice" in twice.provenance_["model"] and model.provenance_["model"].startswith("mpcca:mpcca ")
    if kind != "low-rank":
        assert model.objective_ == -model.log_likelihood_


@pytest.mark.slow
def test_a_record_of_this_process_replaces_the_model_of_the_default():
    """In a process of its own: the default ``model="mpcca"`` is the record that was registered last."""
    code = """
import numpy as np, manifoldseq as ms
from mpcca.problems import drawn, mixture, registered
from mpcca.test_record import doubled
from manifoldseq_mpcca import MixturePCCA
views, _ = drawn(mixture(), 100)
model = MixturePCCA(2, 1, covariance_type="diag", random_state=0, tol=0.0, max_iter=40)
one = model.fit(views).objective_
registered("mpcca", **doubled({}))
assert abs(model.fit(views).objective_ - 2 * one) < 1e-6 * abs(one), (one, model.objective_)
assert not hasattr(model, "log_likelihood_")
"""
    tests = os.path.dirname(os.path.dirname(__file__))
    path = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})


@pytest.mark.parametrize("kind", [*KINDS, "holes"])
@pytest.mark.parametrize("solver", ["em", "lbfgs"])
def test_a_sweep_is_made_for_each_evaluation_and_no_other(kind, solver):
    calls = Counter()

    def recorded(part):
        def counted(*arguments):
            calls[part] += 1
            return getattr(BUNDLED, part)(*arguments)

        return counted

    parts = {part: recorded(part) for part in ("manifold", "statistics", "units", "repair", "value")}
    parts["prepare"] = lambda data, **params: calls.update(["prepare"]) or BUNDLED.prepare(data, **params)
    auto = BUNDLED.initializers["auto"]
    parts["initializers"] = {"mine": lambda problem, rng: calls.update(["start"]) or auto(problem, rng)}
    model = MixturePCCA(3, 2, model=registered("mpcca-recorded", **parts), init="mine", solver=solver, random_state=0)
    views, _ = drawn(mixture(spread=3), 200)
    views = holed(views) if kind == "holes" else views
    model.set_params(max_iter=12, tol=0.0, **BLOCKED[kind]).fit(views)
    assert calls["statistics"] == model.n_evaluations_ > model.n_iter_ == 12
    assert calls["prepare"] == calls["manifold"] == calls["start"] == 1
    if solver == "em":
        assert calls["value"] == model.n_evaluations_ and calls["units"] > 0 and calls["repair"] == 12
    assert model.log_likelihood_ == pytest.approx(model.score(views), rel=1e-9)
    assert model.provenance_["initializer"] == "mine of " + model.provenance_["model"]


def test_the_initializer_of_another_plugin_is_used_when_it_is_named():
    views, _ = drawn(mixture(spread=3), 200)
    best = MixturePCCA(3, 2, covariance_type="diag", random_state=0).fit(views).mixture_
    name = registered("mpcca-started")
    ms.register(ms.hooks.InitializerSpec("known", lambda problem, rng: best.point, model=name))
    for solver in ("em", "lbfgs"):
        options = dict(model=name, covariance_type="diag", solver=solver, max_iter=2, tol=0.0)
        named, given = (MixturePCCA(3, 2, init=init, **options).fit(views) for init in ("known", best))
        assert answer(named) == answer(given)
        assert named.provenance_["initializer"].startswith("known of ")
        assert given.provenance_["initializer"] == "given by the caller"
    with pytest.raises(
        ValueError, match="init='nobody' is not known: choose 'auto', 'cca', 'factors', 'random', 'known'"
    ):
        MixturePCCA(3, 2, init="nobody", **options).fit(views)


@pytest.mark.filterwarnings("ignore:1 of 3 components describe fewer than two rows")
@parametrize("solver", ["em", "online-em", "lbfgs", "cg", "bb", "alternating", "adam"], fast=3)
@parametrize("kind", KINDS, fast=1)
def test_every_solver_by_name_raises_the_likelihood(kind, solver):
    """Complete rows and rows with holes; noise of low rank keeps its structure in every solver."""
    m = mixture(spread=4)
    views, _ = drawn(m, 300)
    for data in (views, holed(views)) if kind != "full" else (views,):
        options = dict(KINDS[kind], missing="em", solver=solver, random_state=0, tol=0.0)
        first, last = (MixturePCCA(3, 2, max_iter=n, **options).fit(data) for n in (1, 15))
        assert last.objective_ < first.objective_
        assert last.log_likelihood_ == pytest.approx(last.score(data), rel=1e-8)
        found = last.mixture_
        Mixture(found.weights, found.means, found.loadings, found.noise, found.private)  # passes the checks
        assert np.linalg.eigvalsh(covariances(found)).min() > 0


@pytest.mark.slow
def test_the_gradient_of_low_rank_noise_is_that_of_its_structure():
    """Values and gradients agree with finite differences, also off the structure; a law of its own problem."""
    views, _ = drawn(mixture(sizes=(4, 3)), 60)
    params = dict(n_components=2, n_latent=1, n_private=1, shrinkage=5.0, diagonal=0.3)
    ms.testing.check_model("mpcca", views, **params).raise_for_failure()
    problem = ms.get_model("mpcca").problem(views, **params)
    result = ms.minimize(problem, seed=0, max_iter=30)
    em = ms.minimize(problem, seed=0, solver="em", max_iter=300)
    assert result.fun == pytest.approx(em.fun, abs=1e-2)
    assert problem.data.model.mixture(result.x).private == (1, 1)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (dict(shrinkage=5.0), "shrinkage=5 requires low-rank noise: pass n_private, too"),
        (dict(n_private=1, covariance_type="full"), "n_private requires diagonal noise: remove n_private, or pass"),
        (dict(n_private=-1), "n_private=-1 is not valid"),
        (dict(update="old"), "update='old' is not known: choose 'expanded', 'joint' or 'conditional'"),
    ],
)
def test_one_message_for_parameters_of_the_model(params, words):
    with pytest.raises(ValueError, match=words):
        ms.get_model("mpcca").problem(drawn(mixture(), 50)[0], **params)


BLOCKED = {
    **KINDS,
    "holes": dict(covariance_type="diag", missing="em"),
    "plain em": dict(KINDS["diag"], acceleration=None),
}
BLOCKED |= {"online": dict(KINDS["diag"], solver="online-em"), "lbfgs": dict(KINDS["diag"], solver="lbfgs")}


def fitted(kind, model="mpcca", **options):
    views, _ = drawn(mixture(spread=3), 210)
    views, weights = (holed(views), None) if kind == "holes" else (views, np.linspace(0.5, 1.5, 210))
    estimator = MixturePCCA(3, 2, model=model, random_state=0, tol=0.0, max_iter=9, **BLOCKED[kind])
    return estimator.fit(views, sample_weight=weights, **options)


@parametrize("kind", BLOCKED, fast=2)
def test_seven_blocks_are_the_same_in_threads(kind):
    blocked = registered("mpcca-blocks", prepare=in_blocks)
    serial = fitted(kind, blocked)
    with ms.execution.using("threads", 2):
        threads = fitted(kind, blocked)
    assert answer(serial) == answer(threads)
    assert serial.objective_ == pytest.approx(fitted(kind).objective_, rel=1e-8)


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")  # of jax, where another test has loaded it
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is of POSIX")
@parametrize("kind", BLOCKED, fast=1)
def test_a_killed_fit_is_resumed_bit_equal(kind, tmp_path):
    whole = answer(fitted(kind))
    for events in (3, 5, 8):
        store = ms.storage.Checkpoint(tmp_path / str(events), every_seconds=0)
        child = os.fork()
        if not child:
            seen = iter(range(events - 1))

            def kill(event, seen=seen):
                if next(seen, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                signal.alarm(60)
                fitted(kind, checkpoint=store, observers=[kill])
            finally:
                os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        assert list((tmp_path / str(events)).rglob("checkpoint-*.npz"))
        assert answer(fitted(kind, checkpoint=store, resume=True)) == whole


def test_another_record_of_the_same_name_does_not_resume(tmp_path):
    views, _ = drawn(mixture(), 100)
    model = MixturePCCA(2, 1, covariance_type="diag", random_state=0, max_iter=3, model=registered("mpcca-resumed"))
    model.fit(views, checkpoint=tmp_path)
    registered("mpcca-resumed", **doubled({}))
    with pytest.raises(ms.storage.CheckpointError, match="was written with model session:mpcca-resumed"):
        model.fit(views, checkpoint=tmp_path, resume=True)


def test_shrunk_covariances_have_an_objective_and_provenance():
    views, _ = drawn(mixture(), 100)
    model = MixturePCCA(2, 1, shrinkage=20.0, diagonal=0.2, gate=1.0, random_state=0).fit(views)
    assert model.objective_ == model.history_["fun"][-1] != -model.log_likelihood_
    assert model.log_likelihood_ == pytest.approx(model.score(views), rel=1e-10)
    assert model.provenance_["model"].startswith("mpcca:mpcca.shrunk") and "update em" in model.provenance_
    model.set_params(covariance_type="diag", n_components=1).fit(views)
    assert model.objective_ == -model.log_likelihood_ and "update em" in model.provenance_


@pytest.mark.parametrize("missing", [False, True])
def test_memory_maps_are_the_same_as_arrays(missing, tmp_path):
    """Also columns of one map; all answers, and a fit in one block and in several."""
    m = mixture(spread=3)
    views, _ = drawn(m, 300)
    views = holed(views) if missing else views
    np.save(tmp_path / "whole.npy", np.hstack(views))
    for v, view in enumerate(views):
        np.save(tmp_path / f"{v}.npy", view)
    whole = np.load(tmp_path / "whole.npy", mmap_mode="r")
    mapped = [np.load(tmp_path / f"{v}.npy", mmap_mode="r") for v in range(2)]
    for name in ("mpcca", registered("mpcca-blocks", prepare=in_blocks)):
        options = dict(covariance_type="diag", missing="em", model=name, random_state=0, max_iter=5, tol=0.0)
        array, *others = (MixturePCCA(3, 2, **options).fit(v) for v in (views, mapped, [whole[:, :5], whole[:, 5:]]))
        assert all(answer(other) == answer(array) for other in others)
    for method in ("predict_proba", "score_samples", "transform"):
        np.testing.assert_array_equal(getattr(array, method)(views), getattr(array, method)(mapped))
    for one, other in zip(array.impute(views), array.impute(mapped), strict=True):
        np.testing.assert_array_equal(one, other)


def test_partial_fit_goes_through_the_model():
    calls = Counter()

    def counted(*arguments):
        calls["statistics"] += 1
        return BUNDLED.statistics(*arguments)

    views, _ = drawn(mixture(spread=3), 300)
    options = dict(covariance_type="diag", random_state=0, missing="em")
    one = MixturePCCA(3, 2, **options)
    other = MixturePCCA(3, 2, model=registered("mpcca-counted", statistics=counted), **options)
    for rows in np.split(np.arange(300), 3):
        for model in (one, other):
            model.partial_fit([view[rows] for view in holed(views)])
    assert calls["statistics"] == 3
    np.testing.assert_array_equal(one.mixture_.loadings, other.mixture_.loadings)
    spec = ms.hooks.ModelSpec("mpcca-other-cost", base="mpcca:mpcca", value=BUNDLED.value)
    ms.register(spec)
    with pytest.raises(ValueError, match="statistics and updates, but the model 'mpcca-other-cost' lacks"):
        MixturePCCA(3, 2, model="mpcca-other-cost", covariance_type="diag").partial_fit(views)
