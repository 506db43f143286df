"""`check_model` notices an error in each part of a model, and says so in one true sentence."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import parametrize

import manifoldseq as ms
from manifoldseq.testing._registered import check_record

HOPE, MPCCA = ms.get_model("hope:hope.movmf"), ms.get_model("mpcca:mpcca")
ENCODER = ms.get_model("hierarchical:hierarchical.subspace")


def scaled(point: Any, factor: float) -> Any:
    return tuple(scaled(part, factor) for part in point) if isinstance(point, tuple) else factor * point


def halved(model: Any, point: Any, sums: Any) -> Any:
    fun, (by_projection, by_weights, by_mu) = HOPE.value_and_gradient(model, point, sums)
    return fun, (by_projection, by_weights, 0.5 * by_mu)


def doubled_units(model: Any, point: Any, sums: Any) -> Any:
    chart = MPCCA.units(model, point, sums)
    return SimpleNamespace(gradient=lambda: 2 * chart.gradient(), moved=chart.moved)


def means(model: Any, point: Any, block: Any) -> Any:
    sums = HOPE.statistics(model, point, block)
    return dataclasses.replace(sums, sums=sums.sums / sums.n)


def total(model: Any, point: Any, sums: Any) -> float:
    return sums.n * HOPE.value(model, point, sums)


def total_and_gradient(model: Any, point: Any, sums: Any) -> Any:
    fun, gradient = HOPE.value_and_gradient(model, point, sums)
    return sums.n * fun, scaled(gradient, sums.n)


def longer(model: Any, point: Any, sums: Any) -> Any:
    *rest, mu = HOPE.updates["em"](model, point, sums)
    return (*rest, 3 * mu)


def mirrored(model: Any, point: Any, sums: Any) -> Any:
    U, *rest = HOPE.updates["em"](model, point, sums)
    return (U[:, ::-1], *rest)


def stretched(model: Any, point: Any, sums: Any, damping: float) -> Any:
    U, *rest = HOPE.updates["polar"](model, point, sums, damping)
    return (1.01 * U, *rest)


def backwards(model: Any, point: Any, sums: Any, damping: float) -> Any:
    return HOPE.updates["polar"](model, point, dataclasses.replace(sums, slope=-sums.slope), damping)


def off_centre(problem: Any, rng: Any) -> Any:
    V, mu = ENCODER.initializers["closed-form"](problem, rng)
    return V, mu + 0.3


PLANTED = {
    "statistics that are means": (
        HOPE, {"statistics": means}, "statistics of two halves add up to the statistics of all rows",
    ),
    "a value that is a total": (
        HOPE, {"value": total, "value_and_gradient": total_and_gradient},
        "the value is a mean over the rows of the sums",
    ),
    "a value of another cost": (
        HOPE, {"value": lambda *args: 2 * HOPE.value(*args)}, "objective: value equals the value of value_and_gradient"
    ),
    "half a gradient": (HOPE, {"value_and_gradient": halved}, "objective: gradient, factor 'mu'"),
    "a wrong M-step": (
        HOPE, {"updates": {**HOPE.updates, "em": longer}},
        "updates never raise the value, and stop where the gradient vanishes",
    ),
    "an update off the manifold": (
        HOPE, {"updates": {**HOPE.updates, "polar": stretched}}, "update 'polar' stays on the manifold"
    ),
    "an update of too many factors": (
        HOPE, {"updates": {**HOPE.updates, "em": mirrored}}, "update 'em' does not change factors that it does not name"
    ),
    "a damped update that goes the other way": (
        HOPE, {"updates": {**HOPE.updates, "polar": backwards}},
        "damped update 'polar' lowers the value, other factors fixed",
    ),
    "wrong units": (
        MPCCA, {"units": doubled_units}, "a step in the units of EM changes the value as the gradient predicts"
    ),
    "a wrong equivalence": (
        HOPE, {"equivalences": {"turned": lambda model, x, rng: (x[0][:, ::-1], *x[1:])}},
        "equivalence 'turned' leaves the value",
    ),
    "axes that are stretched": (
        MPCCA, {"equivalences": {"rotated": lambda model, x, rng: (x[0], x[1], 1.1 * x[2], x[3])}},
        "equivalence 'rotated' leaves the value",
    ),
    "a start that is not exact": (HOPE, {"exact": ("pca",)}, "exact initializer 'pca' is a minimum"),
    "a wrong closed form": (
        ENCODER, {"initializers": {"closed-form": off_centre}}, "exact initializer 'closed-form' is a minimum"
    ),
}  # fmt: skip


@parametrize(("model", "parts", "law"), PLANTED.values(), fast=4, ids=list(PLANTED))
def test_a_planted_error_is_noticed_and_named(model: Any, parts: dict[str, Any], law: str) -> None:
    wrong = dataclasses.replace(model, **parts)
    failed = [one.name for one in ms.testing.check_model(wrong).laws if not one.ok]
    assert law in failed


BUNDLED = [
    *((name, {}) for name in ("hope.vmf", "hope.movmf", "mpcca", "hierarchical.subspace", "lds.mean-stable")),
    ("lds.dictionary", {}),
    ("lds.dictionary", {"method": "pgd", "step_size": (0.01, 0.01, 0.01), "kernel": "martin"}),
    ("hope.gmm", {"covariance_type": "full"}),
    ("mpcca", {"covariance_type": "full"}),
    ("mpcca", {"n_private": 1, "shrinkage": 0.5}),
]


@parametrize(("name", "params"), BUNDLED, fast=3)
def test_bundled_models_obey_every_law(name: str, params: dict[str, Any]) -> None:
    ms.testing.check_model(name, **params).raise_for_failure()


@parametrize("name", ["hope.vmf", "hope.movmf", "hope.gmm", "mpcca"], fast=2)
def test_a_cost_by_base_with_a_gradient_alone_obeys_every_law(name: str) -> None:
    """The value and batches are made of it, so it has to be a mean over the rows of the sums that it is given."""
    both = ms.get_model(name).value_and_gradient
    derived = ms.hooks.ModelSpec("derived", base=name, value_and_gradient=lambda *of: both(*of))
    ms.testing.check_model(derived).raise_for_failure()


def test_initializers_and_updates_are_checked_with_their_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ms.register.__globals__["_registry"], "_registered", {})
    good = ms.hooks.InitializerSpec("one", lambda problem, rng: problem.manifold.random_point(rng), model="hope.vmf")
    ms.register(good)
    assert "initializer 'one' starts on the manifold" in [law.name for law in check_record(good).laws if law.ok]
    ms.register(wrong := ms.hooks.UpdateSpec("one", lambda *of: of[1], model="hope.vmf", factors=("wieghts",)))
    with pytest.raises(AssertionError, match="update 'one' replaces wieghts, but its factors are weights, mu"):
        check_record(wrong).raise_for_failure()
    with pytest.raises(ValueError, match=r"unknown model 'hope[.]vfm': did you mean 'hope[.]vmf'"):
        check_record(dataclasses.replace(good, model="hope.vfm"))


def test_exact_must_name_an_initializer() -> None:
    with pytest.raises(ValueError, match="exact names 'svd', which is not one of its initializers"):
        ms.testing.check_model(dataclasses.replace(ENCODER, exact=("svd",)))
