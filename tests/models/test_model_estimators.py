"""Estimators are fitted through the model that is registered: every evaluation goes through its record."""

from __future__ import annotations

import dataclasses
import os
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers import parametrize
from lds.sparse_problems import clustered
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from strangers import diagonal_mixture, fourth_moments

import manifoldseq as ms
from manifoldseq.execution import _blocks
from manifoldseq_hierarchical import HierarchicalSequenceEncoder, SubspaceEncoder, SubspaceKMeans
from manifoldseq_hope import HOPE, PCAMovMF, SphericalKMeans, VonMisesFisherMixture
from manifoldseq_lds import LDSDictionaryLearning, LDSKMeans, PyramidPooling, Systems
from manifoldseq_mpcca import MixturePCCA

Registry = Any
RNG = np.random.default_rng(0)
X = np.repeat(RNG.standard_normal((4, 8)), 60, axis=0) + 0.5 * RNG.standard_normal((240, 8))
Y = np.repeat(np.arange(4), 60)
Z = RNG.standard_normal((300, 2))
VIEWS = [Z @ RNG.standard_normal((2, size)) + 0.5 * RNG.standard_normal((300, size)) for size in (5, 4)]
W = 1.0 + np.arange(240) % 3
KEPT = {"tol": 0.0, "max_iter": 6, "random_state": 0}
# steps of L-BFGS that are shortened look at the value and at the gradient in the units of EM, which is not doubled
SOLVED = {**KEPT, "max_iter": 150}
HOLED = [np.where(np.arange(view.size).reshape(view.shape) % 11 == 0, np.nan, view) for view in VIEWS]
SHRUNK = {"shrinkage": 20.0, "diagonal": 0.2, "gate": 1.0}
FITS: dict[str, tuple[str, Callable[..., Any]]] = {
    "vmf em": ("hope.vmf", lambda **o: VonMisesFisherMixture(4, **KEPT).fit(X, **o)),
    "vmf weights": (
        "hope.vmf", lambda **o: VonMisesFisherMixture(4, **KEPT).fit(X, sample_weight=np.arange(240.0), **o)
    ),
    "vmf lbfgs": ("hope.vmf", lambda **o: VonMisesFisherMixture(4, solver="lbfgs", **KEPT).fit(X, **o)),
    "spherical k-means": ("hope.cosine", lambda **o: SphericalKMeans(9, **KEPT).fit(X, **o)),
    "spherical lbfgs": ("hope.cosine", lambda **o: SphericalKMeans(4, solver="lbfgs", **KEPT).fit(X, **o)),
    "pca-movmf": ("hope.movmf", lambda **o: PCAMovMF(4, n_latent=3, **KEPT).fit(X, **o)),
    "hope em": ("hope.movmf", lambda **o: HOPE(4, n_latent=3, solver="em", **KEPT).fit(X, **o)),
    "hope lbfgs": ("hope.movmf", lambda **o: HOPE(4, n_latent=3, solver="lbfgs", **KEPT).fit(X, **o)),
    "hope gmm": ("hope.gmm", lambda **o: HOPE(4, n_latent=3, family="gmm", solver="em", **KEPT).fit(X, **o)),
    "mpcca diag": ("mpcca", lambda **o: MixturePCCA(2, 2, covariance_type="diag", **KEPT).fit(VIEWS, **o)),
    "mpcca full": ("mpcca", lambda **o: MixturePCCA(2, 2, covariance_type="full", **SOLVED).fit(VIEWS, **o)),
    "mpcca shrunk": ("mpcca.shrunk", lambda **o: MixturePCCA(2, 2, **SHRUNK, **KEPT).fit(VIEWS, **o)),
    "mpcca shrunk, holes": (
        "mpcca.shrunk", lambda **o: MixturePCCA(2, 2, missing="em", **SHRUNK, **KEPT).fit(HOLED, **o)
    ),
    "mpcca shrunk lbfgs": (
        "mpcca.shrunk",
        lambda **o: MixturePCCA(2, 2, solver="lbfgs", **SHRUNK, **KEPT).fit(
            VIEWS, sample_weight=np.full(300, 2.0), **o
        ),
    ),
    "mpcca whole batches": (
        "mpcca", lambda **o: MixturePCCA(2, 2, covariance_type="diag", solver="online-em", **KEPT).fit(VIEWS, **o)
    ),
    "tied": ("hierarchical.tied", lambda **o: SubspaceKMeans(4, n_init=1, **KEPT).fit(X, **o)),
    "tied lbfgs": ("hierarchical.tied", lambda **o: SubspaceKMeans(4, n_init=1, solver="lbfgs", **KEPT).fit(X, **o)),
    "tied, fewer coordinates": (
        "hierarchical.tied",
        lambda **o: SubspaceKMeans(6, n_components=2, n_init=1, init="random", **KEPT).fit(X, None, W, **o),
    ),
    "clusters": (
        "hierarchical.clusters", lambda **o: SubspaceKMeans(9, objective="printed", n_init=1, **KEPT).fit(X, **o)
    ),
    "clusters lbfgs": (
        "hierarchical.clusters",
        lambda **o: SubspaceKMeans(
            4, n_components=2, objective="printed", n_init=1, init="random", solver="lbfgs", **KEPT
        ).fit(X, None, W, **o),
    ),
    "encoder": ("hierarchical.subspace", lambda **o: SubspaceEncoder().fit(X, Y, **o)),
    "encoder lbfgs": (
        "hierarchical.subspace",
        lambda **o: SubspaceEncoder(init="random", solver="lbfgs", random_state=0).fit(X, Y, **o),
    ),
}  # fmt: skip
ONLINE = {
    "vmf online": lambda **o: VonMisesFisherMixture(4, solver="online-em", batch_size=50, **KEPT).fit(X, **o),
    "spherical online": lambda **o: SphericalKMeans(9, solver="online-em", **KEPT).fit(X, **o),
    "hope online": lambda **o: HOPE(4, n_latent=3, batch_size=50, **KEPT).fit(X, **o),
    "gmm online": lambda **o: HOPE(4, n_latent=3, family="gmm", batch_size=50, **KEPT).fit(X, **o),
}
SYSTEMS = clustered()
UNDAMPED = Systems(0.9999 * SYSTEMS.A / np.linalg.norm(SYSTEMS.A, 2, axis=(1, 2))[:, None, None], SYSTEMS.C)
WAVES = [np.cos(np.arange(40)[:, None] * w + np.arange(3)) for w in (0.2, 0.3, 0.8, 0.9)]


def dictionary(systems: Systems = SYSTEMS, name: str = "fit", **params: Any) -> Callable[..., Any]:
    """Return a fit of a dictionary; `name` is the method."""
    model = LDSDictionaryLearning(**{"n_atoms": 3, "n_states": 2, "n_init": 2, **KEPT, **params})
    return lambda **options: getattr(clone(model), name)(systems, **options)


# estimators that apply the updates of the record themselves
UPDATED: dict[str, tuple[str, Callable[..., Any]]] = {
    "dictionary": ("lds.dictionary", dictionary()),
    "dictionary canonical": ("lds.dictionary", dictionary(UNDAMPED, method="canonical", init="medoid")),
    "dictionary pgd": ("lds.dictionary", dictionary(method="pgd", halve_every=2, init=SYSTEMS[:3])),
    "dictionary batches": ("lds.dictionary", dictionary(method="pgd", batch_size=8)),
    "dictionary batch": ("lds.dictionary", dictionary(name="partial_fit")),
    "pyramid": ("lds.dictionary", lambda: PyramidPooling(2, n_states=2, window=10, **KEPT).fit(WAVES)),
}
ROWS = {name: fit for name, (_, fit) in FITS.items() if name != "encoder"} | ONLINE


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test a session in which nothing is registered yet."""
    registry = ms.register.__globals__["_registry"]
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_said", {})
    registry.version += 1
    yield
    registry.version += 1


def scaled(point: Any, factor: float) -> Any:
    return tuple(scaled(part, factor) for part in point) if isinstance(point, tuple) else factor * point


def arrays(model: Any) -> list[bytes]:
    """Return what a fit has found, bit by bit."""
    point = (
        model.mixture_.point if hasattr(model, "mixture_")
        else (model.components_, model.cluster_centers_) if isinstance(model, SubspaceEncoder)
        else (model.cluster_centers_,) if hasattr(model, "cluster_centers_")
        else (model._projection, model.weights_, *model.parameters_) if hasattr(model, "_projection")
        else (model.weights_, *model.parameters_)
    )  # fmt: skip
    leaves = []
    for part in point:
        leaves += [np.asarray(leaf).tobytes() for leaf in (part if isinstance(part, tuple) else (part,))]
    return [*leaves, np.float64(model.objective_).tobytes()]


@pytest.mark.parametrize("name", FITS | UPDATED)
def test_a_record_with_twice_the_cost_doubles_the_objective(name: str) -> None:
    model, fit = (FITS | UPDATED)[name]
    before, record = fit(), ms.get_model(model)

    def both(*args: Any) -> Any:
        fun, gradient = record.value_and_gradient(*args)
        return 2 * fun, scaled(gradient, 2.0)

    value = None if record.value is None else lambda *args: 2 * record.value(*args)
    ms.register(dataclasses.replace(record, value=value, value_and_gradient=both))
    after = fit()
    assert after.objective_ == pytest.approx(2 * before.objective_, rel=1e-6)
    assert after.provenance_["model"].startswith(f"session:{model}")
    assert not hasattr(after, "log_likelihood_")


@pytest.mark.parametrize("name", FITS)
def test_a_recorder_counts_the_evaluations_of_the_result(name: str) -> None:
    model, fit = FITS[name]
    record, calls = ms.get_model(model), Counter[str]()

    def counted(part: str) -> Any:
        function = getattr(record, part)

        def call(*args: Any) -> Any:
            calls[part] += 1
            return function(*args)

        return None if function is None else call

    parts = ("prepare", "manifold", "statistics", "value", "value_and_gradient")
    watched = {part: counted(part) for part in parts if part != "prepare"}

    def prepare(data: Any, **params: Any) -> Any:
        calls["prepare"] += 1
        return record.prepare(data, **params)

    ms.register(dataclasses.replace(record, prepare=prepare, **watched))
    fitted = fit()
    assert (calls["prepare"], calls["manifold"]) == (1, 1)
    sweeps = calls["statistics"] if record.statistics else calls["value"] + calls["value_and_gradient"]
    assert sweeps == fitted.history_["nfev"][-1] > 0


@pytest.mark.parametrize("name", UPDATED)
def test_a_recorder_counts_the_objectives_and_updates_of_a_dictionary(name: str) -> None:
    model, fit = UPDATED[name]
    record, calls = ms.get_model(model), Counter[str]()

    def counted(part: str, function: Any) -> Any:
        return lambda *args: calls.update([part]) or function(*args)

    before = fit()
    updates = {part: counted(part, update) for part, update in record.updates.items()}
    starts = {part: counted("start", start) for part, start in record.initializers.items()}
    changes = {"updates": updates, "initializers": starts, "value": counted("value", record.value)}
    ms.register(dataclasses.replace(record, **changes))
    fitted = fit()
    assert fitted.objective_ == before.objective_
    n_init = 2 if name in ("dictionary", "dictionary canonical", "dictionary batches") else 1
    assert calls["start"] == (0 if name == "dictionary pgd" else n_init)
    # one objective before the updates of all atoms, and one at the end of a start
    assert calls["codes"] == calls["value"] == calls["atoms"] + (0 if name == "dictionary batch" else n_init)
    batches = {"dictionary batch": 1, "dictionary batches": 3 * 6 * n_init}
    assert calls["atoms"] == batches.get(name, 6 * n_init)
    assert fitted.provenance_["update atoms"].startswith("session:lds.dictionary")


def test_a_dictionary_is_block_coordinate_descent_on_its_record() -> None:
    """The updates of the record, alternated by a solver of the engine from the same start."""
    problem = ms.get_model("lds.dictionary").problem(SYSTEMS, n_atoms=3)
    atoms, Z = problem.initializers["medoid"](problem, np.random.default_rng(0))
    start = {update.name: update for update in problem.objective.updates}["codes"].apply((atoms, Z))
    solver = ms.solvers.Alternating(["atoms", "codes"])
    found = ms.minimize(problem, start, solver=solver, stop=ms.MaxIterations(6))
    init = problem.data.model.family.systems(atoms)
    fitted = LDSDictionaryLearning(3, n_states=2, init=init, **KEPT).fit(SYSTEMS)
    assert found.fun == pytest.approx(fitted.objective_, rel=1e-9)
    np.testing.assert_allclose(found.x[1], fitted.transform(SYSTEMS).T, atol=1e-6)
    end = ms.minimize(problem, found.x, solver="lbfgs", max_iter=30).fun
    assert end < found.fun - 1e-3 * (found.history["fun"][0] - found.fun)


def test_a_dictionary_is_learned_with_a_registered_update() -> None:
    """Codes that are not negative."""
    record, least = ms.get_model("lds.dictionary"), []

    def positive(model: Any, point: Any) -> Any:
        atoms, Z = record.updates["codes"](model, point)
        return atoms, np.maximum(Z, 0.0)

    ms.register(dataclasses.replace(record, value=lambda model, x: least.append(x[1].min()) or record.value(model, x)))
    before = dictionary()()
    assert min(least) < 0
    least.clear()
    ms.register(ms.hooks.UpdateSpec("codes", positive, model="lds.dictionary", factors=("codes",)))
    after = dictionary()()
    assert min(least) == 0 and after.objective_ != before.objective_
    assert after.provenance_["update codes"].startswith("session:codes")


def test_the_default_centres_of_k_means_are_asked_of_their_record() -> None:
    t, rng = np.arange(40)[:, None], np.random.default_rng(0)
    S = [np.cos(t * w + rng.uniform(0, 6) + np.arange(3)) for w in [0.2] * 4 + [0.9] * 4]
    record, calls = ms.get_model("lds.mean-stable"), []

    def batched(*args: Any) -> Any:
        calls.append(1)
        return record.batched(*args)

    ms.register(dataclasses.replace(record, batched=batched))
    LDSKMeans(2, n_states=2, n_init=1, max_iter=2, random_state=0).fit(S)
    assert calls


@pytest.mark.parametrize("summary", ["mean", "key"])
def test_an_encoder_stores_the_subspace_of_the_registered_initializer(summary: str) -> None:
    path = np.cumsum(np.random.default_rng(0).standard_normal((400, 30)), axis=0)
    make = HierarchicalSequenceEncoder(20, n_components=5, bits=8, relative=False, summary=summary)
    before = clone(make).fit(path)
    good = ms.get_model("hierarchical.subspace").initializers["closed-form"]

    def reversed_(problem: Any, rng: Any) -> Any:
        V, mu = good(problem, rng)
        return V[:, ::-1], mu

    ms.register(ms.hooks.InitializerSpec("closed-form", reversed_, model="hierarchical.subspace"))
    after = clone(make).fit(path)
    assert before.components_ is not None and after.components_ is not None
    np.testing.assert_array_equal(after.components_, before.components_[::-1])


def test_an_initializer_of_a_third_party_is_used_when_it_is_named() -> None:
    ms.register(fourth_moments)
    plain = VonMisesFisherMixture(4, **KEPT).fit(X)
    named = VonMisesFisherMixture(4, init="fourth-moments", **KEPT).fit(X)
    assert plain.provenance_["initializer"].startswith("seeds of hope:hope.vmf")
    assert ".fourth_moments:fourth-moments" in named.provenance_["initializer"]
    assert named.history_["fun"][0] != plain.history_["fun"][0]
    qualified = VonMisesFisherMixture(4, init=f"{fourth_moments.__name__}:fourth-moments", **KEPT).fit(X)
    assert arrays(qualified) == arrays(named)


def test_a_third_party_never_replaces_an_initializer_and_the_session_does() -> None:
    def first_rows(problem: Any, rng: Any) -> Any:
        rows = problem.data.blocks.take(np.arange(4))[0]
        return np.full(4, 0.25), 5.0 * rows

    other = ModuleType("other")
    other.manifoldseq_initializers = ms.hookimpl(  # type: ignore[attr-defined]
        lambda: iter([ms.hooks.InitializerSpec("seeds", first_rows, model="hope.vmf")])
    )
    before = VonMisesFisherMixture(4, **KEPT).fit(X)
    ms.register(other)
    assert arrays(VonMisesFisherMixture(4, **KEPT).fit(X)) == arrays(before)
    asked = VonMisesFisherMixture(4, init="other:seeds", **KEPT).fit(X)
    assert arrays(asked) != arrays(before)
    ms.register(ms.hooks.InitializerSpec("seeds", first_rows, model="hope.vmf"))
    replaced = VonMisesFisherMixture(4, **KEPT).fit(X)
    assert arrays(replaced) == arrays(asked)
    assert replaced.provenance_["initializer"].startswith("seeds of session:seeds")


def leaves_by(change: Callable[[Any], Any], tree: Any) -> Any:
    return tuple(leaves_by(change, part) for part in tree) if isinstance(tree, tuple) else change(tree)


WRONG_STARTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "nothing": (lambda x: None, " is None: return an array, or a tuple of arrays"),
    "a name": (lambda x: next(iter(ms.get_model("hope.vmf").initializers)), " has dtype <U"),
    "NaN": (lambda x: leaves_by(lambda leaf: leaf * np.nan, x), " has NaN or infinite entries"),
    "complex": (lambda x: leaves_by(lambda leaf: leaf + 1j, x), " has dtype complex128: pass real numbers"),
    "fewer factors": (lambda x: x[:-1], r" must be a tuple of \d arrays"),
    "twice the rows": (
        lambda x: leaves_by(lambda leaf: np.repeat(leaf, 2, axis=0), x),
        r", factor '\w+' has shape .*, but the",
    ),
}  # fmt: skip
INITIALIZED: dict[str, tuple[str, Callable[..., Any]]] = {
    "vmf": ("hope.vmf", lambda: VonMisesFisherMixture(4, init="wrong", **KEPT).fit(X)),
    "mpcca": ("mpcca", lambda: MixturePCCA(2, 2, covariance_type="diag", init="wrong", **KEPT).fit(VIEWS)),
    "mpcca partial": (
        "mpcca", lambda: MixturePCCA(2, 2, covariance_type="diag", init="wrong", **KEPT).partial_fit(VIEWS)
    ),
    "encoder": ("hierarchical.subspace", lambda: SubspaceEncoder(init="wrong").fit(X, Y)),
    "hope": ("hope.movmf", lambda: HOPE(4, n_latent=3, init="wrong", **KEPT).fit(X)),
    "hope partial": ("hope.movmf", lambda: HOPE(4, n_latent=3, init="wrong", **KEPT).partial_fit(X)),
}  # fmt: skip


@pytest.mark.parametrize(("change", "said"), WRONG_STARTS.values(), ids=list(WRONG_STARTS))
@parametrize(("model", "fit"), INITIALIZED.values(), fast=3, ids=list(INITIALIZED))
def test_an_error_about_a_start_names_the_initializer(
    model: str, fit: Callable[..., Any], change: Callable[[Any], Any], said: str
) -> None:
    good = next(iter(ms.get_model(model).initializers.values()))
    ms.register(ms.hooks.InitializerSpec("wrong", lambda *of: change(good(*of)), model=model))
    with pytest.raises((TypeError, ValueError), match=f"^the point of the initializer 'wrong'{said}"):
        fit()


@parametrize(("model", "fit"), INITIALIZED.values(), fast=2, ids=list(INITIALIZED))
def test_a_start_off_the_manifold_is_projected(model: str, fit: Callable[..., Any]) -> None:
    good, begun = next(iter(ms.get_model(model).initializers.values())), []

    def longer(problem: Any, rng: Any) -> Any:
        begun.append(problem.manifold)
        return leaves_by(lambda leaf: 1.5 * leaf, good(problem, rng))

    ms.register(ms.hooks.InitializerSpec("wrong", longer, model=model))
    fitted = fit()
    assert begun
    for factor in ("weights_", "components_"):
        if hasattr(fitted, factor):
            found = getattr(fitted, factor)
            expected = found.sum() - 1 if found.ndim == 1 else found @ found.T - np.eye(len(found))
            assert np.abs(expected).max() < 1e-12


WRONG_PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "an update without a point": (
        {"updates": {"em": lambda *of: None}}, "the update 'em' of 'hope.vmf' returned NoneType, but the point is"
    ),
    "an update of one factor": (
        {"updates": {"em": lambda model, x, sums: x[:1]}}, "the update 'em' of 'hope.vmf' returned 1 arrays"
    ),
    "an update that is transposed": (
        {"updates": {"em": lambda model, x, sums: (x[0], x[1].T)}},
        r"the update 'em' of 'hope.vmf' returned an array of shape \(8, 4\) instead of \(4, 8\)",
    ),
    "no updates": ({"updates": {}}, "the solver '(online-)?em' needs an update, but the model has none"),
    "statistics of no rows": ({"statistics": lambda *of: {"n": 1.0}}, "statistics returned dict: return a dataclass"),
    "prepare without parameters": (
        {"prepare": lambda data: data},
        "model 'hope.vmf': prepare does not accept the data and n_components.* unexpected keyword argument",
    ),
    "a value that is no number": ({"value": lambda *of: None}, "the objective returned NoneType None"),
}  # fmt: skip


@pytest.mark.parametrize("solver", ["em", "online-em"])
@pytest.mark.parametrize(("parts", "said"), WRONG_PARTS.values(), ids=list(WRONG_PARTS))
def test_an_error_about_a_part_says_which(parts: dict[str, Any], said: str, solver: str) -> None:
    ms.register(dataclasses.replace(ms.get_model("hope.vmf"), **parts))
    with pytest.raises((TypeError, ValueError), match=f"^{said}"):
        VonMisesFisherMixture(4, solver=solver, **KEPT).fit(X)


def test_parameters_that_build_does_not_accept_are_an_error() -> None:
    ms.register(ms.hooks.ModelSpec("hope.vmf", build=lambda data: data))
    said = "^model 'hope[.]vmf': build does not accept the data and n_components, .* unexpected keyword argument"
    with pytest.raises(TypeError, match=said):
        VonMisesFisherMixture(4, **KEPT).fit(X)


def test_an_update_that_raises_the_objective_is_warned_of() -> None:
    record = ms.get_model("hope.vmf")
    ms.register(dataclasses.replace(record, updates={"em": lambda model, x, sums: (x[0], 3 * x[1])}))
    with pytest.warns(UserWarning, match="the update em raised the objective from .* so EM ended"):
        fitted = VonMisesFisherMixture(4, **KEPT).fit(X)
    assert fitted.objective_ == fitted.history_["fun"][0]


def test_a_cost_by_base_is_used_by_the_bundled_estimator() -> None:
    ms.register(fourth_moments)
    fitted = VonMisesFisherMixture(4, model="sparse-vmf", solver="", **{**KEPT, "max_iter": 100}).fit(X)
    assert fitted.provenance_["solver"].startswith("manifoldseq:lbfgs")
    mu = fitted.parameters_[0]
    likelihood = VonMisesFisherMixture(4, solver="lbfgs", **{**KEPT, "max_iter": 100}).fit(X)
    penalty = 0.01 * np.abs(mu).sum()
    assert fitted.objective_ <= likelihood.objective_ + 0.01 * np.abs(likelihood.parameters_[0]).sum()
    assert fitted.objective_ - penalty >= likelihood.objective_ - 1e-6


def test_an_added_update_is_a_step_of_em() -> None:
    """A plain update that shrinks nothing: called once per iteration, with the sums at the point."""
    calls = []

    def same(model: Any, point: Any, sums: Any) -> Any:
        calls.append(sums.n)
        return point

    ms.register(ms.hooks.UpdateSpec("same", same, model="hope.vmf", factors=("weights",)))
    fitted = VonMisesFisherMixture(4, **KEPT).fit(X)
    assert calls == [240.0] * fitted.n_iter_
    assert fitted.provenance_["update same"].startswith("session:same")


@parametrize("name", ROWS, fast=4)
def test_one_start_in_blocks_is_the_same_on_every_executor(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six blocks or more; in one block the sums differ by rounding only."""
    whole = ROWS[name]()
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 1500)
    serial = ROWS[name]()
    with ms.execution.using("threads", 2):
        threads = ROWS[name]()
    assert arrays(serial) == arrays(threads)
    assert serial.objective_ == pytest.approx(whole.objective_, rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")  # of jax, where another test has loaded it
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is of POSIX")
@parametrize("name", [name for name in ROWS if not name.startswith("mpcca")], fast=2)
def test_a_killed_fit_is_resumed_bit_equal(name: str, tmp_path: Path) -> None:
    whole = arrays(ROWS[name]())
    for events in (2, 4, 6):
        store = ms.storage.Checkpoint(tmp_path / str(events), every_seconds=0)
        child = os.fork()
        if not child:
            seen = iter(range(events - 1))

            def kill(event: Any, seen: Iterator[int] = seen) -> None:
                if next(seen, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                signal.alarm(60)
                ROWS[name](checkpoint=store, observers=[kill])
            finally:
                os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        assert arrays(ROWS[name](checkpoint=store, resume=True)) == whole


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["vmf", "movmf", "gmm"])
def test_memory_maps_are_read_as_arrays_are(kind: str, weighted: bool, tmp_path: Path) -> None:
    """With a row of zeros, which has no direction, and a weight of zero."""
    rows = X.copy()
    rows[7] = 0.0 if kind != "gmm" else rows[7]
    weight = {"sample_weight": np.r_[0.0, np.arange(1.0, 240.0)]} if weighted else {}
    mapped = np.memmap(tmp_path / "rows", rows.dtype, "w+", shape=rows.shape)
    mapped[:] = rows
    mapped.flush()
    made = VonMisesFisherMixture(4, **KEPT) if kind == "vmf" else HOPE(4, n_latent=3, family=kind, solver="em", **KEPT)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"row \d of X is all zeros")
        inside, outside = (
            clone(made).fit(data, **weight)
            for data in (rows, np.memmap(mapped.filename, mode="r", shape=rows.shape, dtype=rows.dtype))
        )
    np.testing.assert_allclose(outside.parameters_[0], inside.parameters_[0], rtol=1e-9)
    assert outside.objective_ == pytest.approx(inside.objective_, rel=1e-12)
    np.testing.assert_allclose(outside.transform(mapped[8:]), inside.transform(rows[8:]), rtol=1e-7, atol=1e-9)


def test_a_resume_under_another_record_is_an_error(tmp_path: Any) -> None:
    record = ms.get_model("hope:hope.vmf")
    VonMisesFisherMixture(4, **KEPT).fit(X, checkpoint=tmp_path)
    for shift in (7.0, 8.0):  # the same code with another constant is another record
        ms.register(dataclasses.replace(record, value=lambda *args, shift=shift: record.value(*args) + shift))
        with pytest.raises(ValueError, match="checkpoint"):
            VonMisesFisherMixture(4, **{**KEPT, "max_iter": 9}).fit(X, checkpoint=tmp_path, resume=True)
        VonMisesFisherMixture(4, **KEPT).fit(X, checkpoint=tmp_path / str(shift))
    with pytest.raises(ValueError, match="checkpoint"):
        VonMisesFisherMixture(4, **{**KEPT, "max_iter": 9}).fit(X, checkpoint=tmp_path / "7.0", resume=True)


SCALE = 1.0


def of_the_module(model: Any, point: Any, sums: Any) -> float:
    return shifted(ms.get_model("hope:hope.vmf").value(model, point, sums))


def shifted(value: float) -> float:
    return value + SCALE


def test_a_resume_under_another_constant_of_the_module_is_an_error(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code is the same; the constant is used by a function that the part calls."""
    record = ms.get_model("hope:hope.vmf")
    ms.register(dataclasses.replace(record, value=of_the_module))
    VonMisesFisherMixture(4, **KEPT).fit(X, checkpoint=tmp_path)
    VonMisesFisherMixture(4, **{**KEPT, "max_iter": 9}).fit(X, checkpoint=tmp_path, resume=True)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    ms.register(dataclasses.replace(record, value=of_the_module))
    with pytest.raises(ValueError, match="checkpoint"):
        VonMisesFisherMixture(4, **{**KEPT, "max_iter": 12}).fit(X, checkpoint=tmp_path, resume=True)


def test_provenance_is_kept_in_files(tmp_path: Any) -> None:
    fitted = VonMisesFisherMixture(4, **KEPT).fit(X)
    ms.storage.save_model(fitted, tmp_path / "model.npz")
    loaded = ms.load(tmp_path / "model.npz")
    assert loaded.provenance_ == fitted.provenance_
    assert set(loaded.provenance_) == {"model", "initializer", "update em", "solver"}
    assert loaded.objective_ == fitted.objective_ == -fitted.log_likelihood_


def test_status_of_online_em() -> None:
    """A rule that the means of passes met is a success where the value of all rows is no worse; else an estimate."""
    fitted = HOPE(4, n_latent=3, batch_size=50, tol=1e-3, max_iter=100, random_state=0).fit(X)
    assert fitted.status_ is ms.Status.COST_CHANGE and fitted.n_iter_ < 100
    assert HOPE(4, n_latent=3, batch_size=50, **KEPT).fit(X).status_ is ms.Status.MAX_ITERATIONS


def test_an_exact_start_is_the_answer_unless_a_solver_is_named() -> None:
    fitted = SubspaceEncoder().fit(X, Y)
    assert (fitted.n_iter_, fitted.status_) == (0, ms.Status.CONVERGED) and "solver" not in fitted.provenance_
    solved = SubspaceEncoder(init="random", solver="lbfgs", random_state=0).fit(X, Y)
    assert solved.n_iter_ > 0 and solved.objective_ == pytest.approx(fitted.objective_, rel=1e-8)


def test_a_new_mixture_has_all_that_estimators_have(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ms.register(diagonal_mixture)
    make = diagonal_mixture.DiagonalMixture
    ms.testing.check_model("diagonal-gaussians", X).raise_for_failure()
    fitted = make(4, n_init=3, random_state=0).fit(X)
    peer = GaussianMixture(4, covariance_type="diag", n_init=3, tol=1e-8, max_iter=500, random_state=0).fit(X)
    assert fitted.score(X) == pytest.approx(peer.score(X), abs=1e-4)
    assert fitted.bic(X) == pytest.approx(peer.bic(X), abs=1e-1) and fitted.aic(X) == pytest.approx(
        peer.aic(X), abs=0.1
    )
    weight = np.random.default_rng(0).integers(0, 3, size=len(X))
    one, two = (
        make(4, tol=1e-10, random_state=0).fit(*rows) for rows in ((X, None, weight), (np.repeat(X, weight, 0),))
    )
    assert one.score(X) == pytest.approx(two.score(X), abs=1e-4)
    parts = make(4, random_state=0)
    for rows in np.array_split(np.random.default_rng(0).permutation(X), 6):
        parts.partial_fit(rows)
    assert parts.score(X) > make(1, random_state=0).fit(X).score(X)
    ms.storage.save_model(parts, tmp_path / "parts.npz")
    again = ms.load(tmp_path / "parts.npz").partial_fit(X)
    assert again.score(X) == parts.partial_fit(X).score(X)
    drawn, labels = fitted.sample(500, 0)
    assert (fitted.predict(drawn) == labels).mean() > 0.9
    for solver in ("em", "online-em"):
        options: dict[str, Any] = {"solver": solver, "batch_size": 60, "tol": 0.0, "random_state": 0}
        make(4, max_iter=3, **options).fit(X, checkpoint=tmp_path / solver)
        resumed = make(4, max_iter=6, **options).fit(X, checkpoint=tmp_path / solver, resume=True)
        assert arrays(resumed) == arrays(make(4, max_iter=6, **options).fit(X))
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 1500)
    serial = make(4, max_iter=5, tol=0.0, random_state=0).fit(X)
    with ms.execution.using("threads", 2):
        assert arrays(make(4, max_iter=5, tol=0.0, random_state=0).fit(X)) == arrays(serial)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prepare": "a:b"}, "set manifold, value or value_and_gradient"),
        ({"build": "a:b", "value": "a:b"}, "sets both build, which creates the whole problem, and value: set only one"),
        ({}, "set prepare, manifold, value or value_and_gradient"),
    ],
)
def test_a_record_that_lacks_parts_is_an_error(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ms.hooks.ModelSpec("x", **fields)


def test_a_base_that_leads_back_is_an_error() -> None:
    ms.register(ms.hooks.ModelSpec("hope.vmf", base="hope.vmf", solver="lbfgs"))
    with pytest.raises(ValueError, match="its base refers back to the model"):
        ms.get_model("hope.vmf")


def test_another_cost_inherits_nothing_that_is_about_the_old_one() -> None:
    ms.register(fourth_moments)
    derived, base = ms.get_model("sparse-vmf"), ms.get_model("hope.vmf")
    assert not derived.updates and not derived.equivalences and derived.carry is None and derived.value is None
    assert derived.statistics is None or derived.statistics is base.statistics
    assert derived.prepare is base.prepare and set(base.initializers) <= set(derived.initializers)


def test_parts_that_the_engine_does_not_know_reach_the_objective() -> None:
    spec = ms.hooks.ModelSpec(
        "line", lambda data: data, manifold=lambda data: ms.manifolds.Euclidean(2),
        value=lambda data, x: float(((data @ x) ** 2).sum()), parts={"residuals": lambda data, x: data @ x},
    )  # fmt: skip
    problem = spec.problem(np.eye(2))
    assert problem.objective.parts["residuals"](np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert not (2 * problem.objective).parts
