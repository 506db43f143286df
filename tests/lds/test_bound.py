"""Systems that the bound of (12) excludes: no mean, centre or atom is worse than a system of the data."""

import warnings

import numpy as np
import pytest
from helpers import parametrize

import manifoldseq as ms
from manifoldseq_lds import (
    LDSDictionaryLearning,
    LDSIdentifier,
    LDSKMeans,
    LDSSparseCoder,
    Systems,
    solve_common_problem,
)

SHEAR = np.array([[0.5, 3.0], [0.0, 0.5]])  # spectral radius 0.5, singular values up to 3.08


def copies(A=SHEAR, N=5, m=3):
    n = len(A)
    return Systems([A] * N, [np.eye(m, n)] * N, np.ones((N, n)))


def sheared(N=24, m=5, n=3, noise=0.2, seed=0):
    """Two kinds of stable systems, most with singular values above one."""
    rng = np.random.default_rng(seed)
    kinds = [(rng.standard_normal((n, n)), rng.standard_normal((m, n))) for _ in range(2)]
    A = np.array([kinds[i % 2][0] + noise * rng.standard_normal((n, n)) for i in range(N)])
    A *= (0.8 / np.abs(np.linalg.eigvals(A)).max(axis=1))[:, None, None]
    C = np.array([kinds[i % 2][1] + noise * rng.standard_normal((m, n)) for i in range(N)])
    return Systems(A, np.linalg.qr(C)[0])


def basis(system, steps=120):
    """An orthonormal basis of the observability subspace, by truncation."""
    A, C, *_ = system
    rows = [C]
    for _ in range(steps - 1):
        rows.append(rows[-1] @ A)
    return np.linalg.qr(np.vstack(rows))[0]


def projection(first, second):
    """The kernel (5): the sum of squared cosines between two subspaces."""
    return np.sum((basis(first).T @ basis(second)) ** 2)


@pytest.mark.parametrize("solver", ["auto", "lbfgs"])
def test_a_centre_is_not_below_the_medoid_that_the_bound_excludes(solver):
    with pytest.warns(UserWarning) as caught:
        model = LDSKMeans(1, mean="canonical", solver=solver, random_state=0).fit(copies())
    assert len(caught) == 1
    sentence = str(caught[0].message)
    assert "1 of 1 centres" in sentence and "3.081" in sentence and "bound=0.99" in sentence
    assert "mean kernel value would be 1.728 instead of 2:" in sentence and "\n" not in sentence
    assert model.mean_kernel_value_ == pytest.approx(2, abs=1e-9) and model.inertia_ == pytest.approx(0, abs=1e-8)
    assert projection(model.systems_[0], copies()[0]) == pytest.approx(2, abs=1e-9)
    Systems(model.systems_.A, model.systems_.C)  # valid: stable, orthonormal outputs
    assert model.transform(copies()).max() < 1e-4


@pytest.mark.parametrize("kernel", ["martin", "binet-cauchy", "grassmann"])
def test_the_guard_holds_for_other_kernels(kernel):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LDSKMeans(1, kernel=kernel, mean="canonical", random_state=0).fit(copies())
    assert model.inertia_ == pytest.approx(0, abs=1e-7)


@parametrize(("seed", "mean"), [(0, "exact"), (1, "exact"), (2, "exact"), (3, "canonical")], fast=2)
def test_every_centre_is_as_good_as_its_medoid_and_no_epoch_rises(seed, mean):
    data = sheared(seed=seed, noise=0.1 + 0.1 * seed)
    assert (np.linalg.norm(data.A, 2, axis=(1, 2)) > 0.99).mean() > 0.4
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LDSKMeans(2, mean=mean, n_init=2, random_state=seed, tol=0, max_iter=100).fit(data)
    assert len(caught) <= (mean == "canonical")
    assert np.diff(model.history_["fun"]).max(initial=0) < 1e-12
    bases = [basis(one) for one in data]
    gram = np.array([[np.sum((a.T @ b) ** 2) for b in bases] for a in bases])
    for k in range(2):
        rows = np.flatnonzero(model.labels_ == k)
        value = np.mean([projection(model.systems_[k], data[i]) for i in rows])
        assert value > gram[np.ix_(rows, rows)].mean(axis=1).max() - 1e-9
    assert (
        model.mean_kernel_value_
        > LDSKMeans(2, mean="medoid", n_init=2, random_state=seed).fit(data).mean_kernel_value_ - 1e-9
    )


@pytest.mark.slow
def test_a_descent_that_overtakes_the_medoid_is_the_centre():
    """The loss is zero compared with the mean within the bound, computed from the same start by many iterations."""
    for seed in range(4):
        data = sheared(N=12, noise=0.6, seed=seed)[::2]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LDSKMeans(1, mean="canonical", n_init=1, random_state=0, max_iter=200, tol=1e-9).fit(data)
            problem = ms.get_model("lds.mean").problem(data)
            within = ms.minimize(problem, stop=ms.MaxIterations(500))
        assert model.mean_kernel_value_ > -within.fun / 2 - 1e-3


def test_systems_within_the_bound_are_clustered_as_before():
    """No warning, no other state: the guard is for what the bound excludes."""
    data = sheared()
    data = Systems(data.A * (0.9 / np.linalg.norm(data.A, 2, axis=(1, 2)))[:, None, None], data.C)
    seen = []
    LDSKMeans(2, random_state=0, n_init=1).fit(data, observers=[lambda event: seen.append(event)])
    assert seen
    solve_common_problem(data)
    LDSDictionaryLearning(3, random_state=0, max_iter=3).fit(data)


@pytest.mark.parametrize("mean", ["exact", "canonical"])
def test_mini_batches_keep_the_guard(mean):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LDSKMeans(1, mean=mean, random_state=0).fit(copies())
    for _ in range(3):
        model.partial_fit(copies())
        assert model.mean_kernel_value_ == pytest.approx(2, abs=1e-9)
    within = Systems([0.5 * np.eye(2)] * 2, [np.eye(3, 2)] * 2, np.ones((2, 2)))
    model.partial_fit(within)  # a batch within the bound does not cut a centre beyond it, which stands for 20
    assert projection(model.systems_[0], copies()[0]) > 1.9
    fresh = LDSKMeans(1, mean=mean, random_state=0).partial_fit(copies())
    assert fresh.mean_kernel_value_ == pytest.approx(2, abs=1e-9)


def test_a_centre_beyond_the_bound_is_a_start():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = LDSKMeans(1, mean="canonical", random_state=0).fit(copies())
        again = LDSKMeans(1, mean="canonical", init=first.systems_).fit(copies())
    assert again.history_["fun"][0] == pytest.approx(0, abs=1e-8)


@parametrize("mean", ["exact", "canonical"], fast=1)
def test_a_resumed_run_is_the_same(tmp_path, mean):
    data = sheared(noise=0.4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"mean": mean, "n_init": 1, "random_state": 0, "tol": 0}
        whole = LDSKMeans(3, max_iter=8, **settings).fit(data)
        LDSKMeans(3, max_iter=3, **settings).fit(data, checkpoint=tmp_path)
        resumed = LDSKMeans(3, max_iter=8, **settings).fit(data, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.systems_.A, whole.systems_.A)
    np.testing.assert_array_equal(resumed.history_["fun"], whole.history_["fun"])


@pytest.mark.parametrize("start", ["medoid", "random"])
@pytest.mark.parametrize("compress", [True, False])
def test_the_solution_of_the_common_problem_is_not_below_the_medoid(start, compress):
    with pytest.warns(UserWarning) as caught:
        result = solve_common_problem(copies(), over="canonical", start=start, compress=compress, seed=0)
    assert len(caught) == 1 and "be -3.45" in str(caught[0].message) and "instead of -4:" in str(caught[0].message)
    lam, V, U = result.x
    assert result.fun == pytest.approx(-4) and result.grad_norm is None
    assert result.feasibility == pytest.approx(lam.max() - 0.99)
    assert projection((lam[:, None] * V, U), copies()[0]) == pytest.approx(2, abs=1e-9)


def test_models_say_what_the_bound_costs_at_their_start():
    with pytest.warns(UserWarning, match=r"bound=0.99. Clipping raises the objective from -4 to -2\.8"):
        result = ms.minimize(ms.get_model("lds.mean").problem(copies()))
    assert result.feasibility < 1e-12
    with pytest.warns(UserWarning, match="the start, system 0, has an A with singular values up to 3.081"):
        problem = ms.get_model("lds.mean").problem(copies(N=2), beta=[-1.0, -1.0])
        problem.initializers["medoid"](problem, None)


@pytest.mark.parametrize("init", ["random", "medoid", "k-means"])
def test_an_atom_is_not_worse_than_the_datum_it_began_as(init):
    """One atom for equal systems: its code is 1 - alpha / 4 and the objective alpha - alpha^2 / 8."""
    with pytest.warns(UserWarning) as caught:
        model = LDSDictionaryLearning(1, method="canonical", init=init, random_state=0).fit(copies())
    assert len(caught) == 1 and "1 of 1 atoms have an A with singular values up to" in str(caught[0].message)
    assert model.objective_ == pytest.approx(0.1 - 0.01 / 8, abs=1e-9)
    assert -model.score(copies()) == pytest.approx(model.objective_, abs=1e-9)


@parametrize("method", ["lbfgs", "canonical"], fast=1)
def test_dictionaries_never_rise_beyond_the_bound(tmp_path, method):
    data = sheared(noise=0.4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings = {"method": method, "alpha": 0.5, "random_state": 0, "tol": 0}
        whole = LDSDictionaryLearning(4, max_iter=8, **settings).fit(data)
        assert len(caught) <= (method == "canonical")
        LDSDictionaryLearning(4, max_iter=3, **settings).fit(data, checkpoint=tmp_path)
        resumed = LDSDictionaryLearning(4, max_iter=8, **settings).fit(data, checkpoint=tmp_path, resume=True)
    assert np.diff(whole.history_["fun"]).max() < 1e-12
    np.testing.assert_array_equal(resumed.systems_.A, whole.systems_.A)
    codes = LDSSparseCoder(whole.systems_, alpha=0.5).fit(data)
    assert -codes.score(data) == pytest.approx(whole.objective_)


def test_identified_sequences_keep_the_guard():
    """Constraint generation leaves singular values above one: a growth over a few steps that fades later."""
    t = np.arange(40)[:, None]
    X = [(1 + 2 * t) * 0.7**t @ np.ones((1, 3)) + 0.9**t * np.array([[3.0, 1.0, 2.0 + s]]) for s in (0, 0.01, 0.02)]
    data = LDSIdentifier(2, stabilizer="CG", center=False).fit_transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LDSKMeans(1, random_state=0).fit(data)
    gram = [np.mean([projection(a, b) for b in data]) for a in data]
    assert model.mean_kernel_value_ > max(gram) - 1e-9
