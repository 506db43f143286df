"""The model ``hierarchical.subspace``: value and derivatives, updates, solvers, frames outside a partition."""

import dataclasses
import pickle

import autograd.numpy as anp
import numpy as np
import pytest
from helpers import parametrize
from hierarchical.problems import completed, frames, means, origins, printed_F, rotation, scatters

import manifoldseq as ms

build = ms.get_model("hierarchical.subspace").problem
TIGHT = ms.GradientNorm(1e-9, relative=True) | ms.MaxIterations(5000)


def random_point(problem, seed=0):
    return problem.manifold.random_point(np.random.default_rng(seed))


@pytest.mark.parametrize("center", ["mean", "zero", "other"])
@pytest.mark.parametrize("manifold", ["grassmann", "orthogonal"])
def test_value_is_the_printed_one(center, manifold):
    X, y = frames()
    mu_0 = origins(X)[center]
    problem = build((X, y), n_components=3, center=mu_0, manifold=manifold)
    V, mu = random_point(problem)
    assert problem.objective.value((V, mu)) == pytest.approx(printed_F(completed(V), 3, mu, mu_0, X, y), rel=1e-12)


@pytest.mark.parametrize("params", [{}, {"manifold": "orthogonal"}, {"n_components": 6, "center": 0}], ids=str)
def test_conformance(params):
    problem = build(frames(), **params)
    assert problem.manifold.names == ("V", "mu")
    ms.testing.check_objective(problem).raise_for_failure()
    ms.testing.check_objective(problem, random_point(problem)).raise_for_failure()


def test_registered_model_obeys_every_law():
    ms.testing.check_model("hierarchical.subspace").raise_for_failure()


def test_gradients_against_central_differences():
    X, y = frames()
    problem = build((X, y), n_components=3)
    point, rng = random_point(problem), np.random.default_rng(1)
    _, gradient = problem.objective.value_and_gradient(point)
    for i in range(2):
        for _ in range(5):
            u = rng.standard_normal(point[i].shape)

            def along(t, i=i, u=u):
                V, mu = (leaf + t * u if j == i else leaf for j, leaf in enumerate(point))
                # the printed F for V that is not orthonormal, by the identity (5)
                inside = sum(np.sum((V.T @ (x - mu[k])) ** 2) for x, k in zip(X, y, strict=True))
                return inside + np.sum((X - X.mean(axis=0)) ** 2) - np.sum(((X - X.mean(axis=0)) @ V) ** 2)

            numeric = (along(1e-5) - along(-1e-5)) / 2e-5
            assert np.vdot(gradient[i], u) == pytest.approx(numeric, rel=1e-7)


def test_hessian_in_a_centroid_has_rank_m():
    """2 n_k L_m L_m': the class mean is the minimizer that is one for every V, not the only one."""
    X, y = frames()
    problem = build((X, y), n_components=3)
    V, mu = random_point(problem)
    columns = []
    for j in range(9):
        tangent = np.zeros_like(mu)
        tangent[2, j] = 1.0
        columns.append(problem.objective.hessian_product((V, mu), (np.zeros_like(V), tangent))[1][2])
    np.testing.assert_allclose(columns, 2 * np.sum(y == 2) * V @ V.T, atol=1e-10)


def test_class_means_are_stationary_whatever_V_is():
    X, y = frames()
    problem = build((X, y), n_components=4)
    for seed in range(5):
        V, _ = random_point(problem, seed)
        _, (_, slope) = problem.objective.value_and_gradient((V, means(X, y)))
        assert np.abs(slope).max() < 1e-12
        (update, _) = problem.objective.updates
        np.testing.assert_allclose(update.apply((V, np.ones((5, 9))))[1], means(X, y), atol=1e-13)


@pytest.mark.parametrize(("N", "d", "h", "m"), [(120, 30, 5, 3), (120, 30, 5, 14), (120, 9, 5, 6), (120, 12, 5, 12)])
def test_update_of_V_is_the_best_one_for_these_centroids(N, d, h, m):
    X, y = frames(N, d, h)
    problem = build((X, y), n_components=m)
    V, mu = random_point(problem)
    S_0 = scatters(X, y, X.mean(axis=0))[1]
    about = sum(np.outer(x - mu[k], x - mu[k]) for x, k in zip(X, y, strict=True))
    best = np.trace(S_0) + np.linalg.eigvalsh(about - S_0)[:m].sum()
    update = problem.objective.updates[1]
    assert update.name == "V" and problem.objective.value(update.apply((V, mu))) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("params", [{}, {"n_components": 2}, {"center": 0}, {"manifold": "orthogonal"}], ids=str)
def test_closed_form_is_solved_at_once(params):
    problem = build(frames(d=20), **params)
    result = ms.minimize(problem)
    assert result.success and result.nit == 0
    assert next(iter(problem.initializers)) == "closed-form"


@pytest.mark.parametrize("seed", range(20))
def test_default_solver_finds_the_closed_form_from_random_starts(seed):
    problem = build(frames(N=200, d=(10, 40, 200)[seed % 3], h=6, seed=seed), n_components=(None, 3)[seed % 2])
    optimum = ms.minimize(problem).fun
    found = ms.minimize(problem, "random", seed=seed, stop=TIGHT)
    assert found.success
    assert found.fun == pytest.approx(optimum, rel=1e-10)


@pytest.mark.parametrize("solver", ["tr", "alternating"])
@pytest.mark.parametrize("seed", range(3))
def test_other_solvers_find_it_too(solver, seed):
    problem = build(frames(N=200, d=40, h=6, seed=seed), n_components=(None, 3)[seed % 2])
    found = ms.minimize(problem, "random", solver=solver, seed=seed, stop=TIGHT)
    assert found.fun == pytest.approx(ms.minimize(problem).fun, rel=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_both_components_of_the_orthogonal_group(seed):
    problem = build(frames(d=6), manifold="orthogonal", n_components=3)
    found = ms.minimize(problem, "random", seed=seed, stop=TIGHT)
    assert found.fun == pytest.approx(ms.minimize(problem).fun, rel=1e-10)


def test_alternating_updates_end_at_the_closed_form():
    problem = build(frames(d=25, h=6))
    point = random_point(problem)
    values = [problem.objective.value(point)]
    for _ in range(2):
        for update in problem.objective.updates:
            point = update.apply(point)
            values.append(problem.objective.value(point))
    assert np.diff(values).max() <= 1e-12 * values[0]
    assert values[-1] == pytest.approx(ms.minimize(problem).fun, rel=1e-13)


def test_the_eigenvalues_as_printed_take_too_many_coordinates():
    X, y = frames(1000, 64, 10)
    printed, ours = build((X, y), method="eigh"), build((X, y))
    assert ours.manifold.shape[0] == (64, 9)
    assert printed.manifold.shape[0][1] > 15
    assert ms.minimize(printed).fun == pytest.approx(ms.minimize(ours).fun, rel=1e-12)


def test_a_penalty_of_ones_own_from_the_closed_form():
    problem = build(frames(d=12, h=4))
    pull = np.random.default_rng(0).standard_normal((4, 12))
    penalty = ms.objective(lambda point: 50 * anp.sum((point[0] @ (point[0].T @ pull.T) - pull.T) ** 2))
    mine = dataclasses.replace(problem, objective=problem.objective + penalty)
    ms.testing.check_gradient(mine, "random").raise_for_failure()
    result = ms.minimize(mine, stop=TIGHT)
    assert result.success
    assert result.fun < mine.objective.value(mine.initializers["closed-form"](mine, None)) - 1.0
    assert problem.objective.value(result.x) > ms.minimize(problem).fun


def test_single_frames_average_to_the_whole():
    problem = build(frames())
    point, terms = random_point(problem), problem.objective.terms
    singles = [terms.batch(np.array([i])).value(point) for i in range(terms.n)]
    assert np.mean(singles) == pytest.approx(problem.objective.value(point), rel=1e-12)


@pytest.mark.parametrize("center", ["mean", "other"])
@pytest.mark.parametrize("kind", ["in no class", "in several classes"])
def test_frames_outside_a_partition(kind, center):
    X, codes = frames()
    members = codes[:, None] == np.arange(5)
    if kind == "in no class":
        labels = np.where(np.arange(len(X)) % 3 == 0, -1, codes)
        members &= (labels >= 0)[:, None]
    else:
        labels = members = members | (np.random.default_rng(0).random(members.shape) < 0.05)
    mu, mu_0 = np.array([X[of_class].mean(axis=0) for of_class in members.T]), origins(X)[center]
    problem = build((X, labels), partition=False, center=mu_0)
    S_w = sum(np.outer(x - mu[k], x - mu[k]) for k in range(5) for x in X[members[:, k]])
    S_0 = sum(np.outer(x - mu_0, x - mu_0) for x in X)
    eigenvalues = np.linalg.eigvalsh(S_w - S_0)
    m = problem.manifold.shape[0][1]
    assert m == (eigenvalues < -1e-9).sum()
    result = ms.minimize(problem)
    assert result.success and result.nit == 0
    assert result.fun == pytest.approx(np.trace(S_0) + eigenvalues[:m].sum(), rel=1e-10)
    (V, mu) = random_point(problem)
    inside = sum(np.sum((V.T @ (x - mu[k])) ** 2) for k in range(5) for x in X[members[:, k]])
    outside = np.sum((X - mu_0) ** 2) - np.sum(((X - mu_0) @ V) ** 2)
    assert problem.objective.value((V, mu)) == pytest.approx(inside + outside, rel=1e-10)
    ms.testing.check_objective(problem, (V, mu)).raise_for_failure()
    assert problem.objective.terms is None


def test_a_partition_by_the_general_path_is_the_same():
    X, y = frames(d=12)
    one, other = (ms.minimize(build((X, y), partition=partition)) for partition in (True, False))
    assert other.fun == pytest.approx(one.fun, rel=1e-12)
    np.testing.assert_allclose(one.x[0] @ one.x[0].T, other.x[0] @ other.x[0].T, atol=1e-10)


def test_a_list_of_sequences_is_one_class_each():
    X, y = frames()
    by_list = build([X[y == k] for k in range(5)])
    point = random_point(by_list)
    assert by_list.objective.value(point) == pytest.approx(build((X, y)).objective.value(point), rel=1e-13)


def test_the_problem_can_be_pickled():
    problem = build(ms.get_model("hierarchical.subspace").example(np.random.default_rng(0)))
    again, point = pickle.loads(pickle.dumps(problem)), random_point(problem)
    assert again.objective.value(point) == problem.objective.value(point)
    assert again.objective.terms.batch(np.arange(3)).value(point) == problem.objective.terms.batch(np.arange(3)).value(
        point
    )


def test_single_precision_frames_and_rotated_ones():
    X, y = frames(d=16, spread=3.0)
    value = ms.minimize(build((X, y))).fun
    assert ms.minimize(build((X.astype(np.float32), y))).fun == pytest.approx(value, rel=1e-6)
    assert ms.minimize(build((X @ rotation(16), y))).fun == pytest.approx(value, rel=1e-12)


X, Y = frames(20, 4, 2)
BAD = {
    "no list": (np.zeros((3, 2)), {}, "data must be a list of arrays, one per class, or a tuple"),
    "an empty list": ([], {}, "data must be a list"),
    "one class": ([X], {}, "every class centroid coincides with mu_0, so there is no subspace"),
    "constant frames": ((np.ones((20, 4)), Y), {}, "every class centroid coincides"),
    "NaN": (([*X[:3].tolist(), [1, np.nan, 0, 0]], [0, 0, 1, 1]), {}, "frame 3 has NaN in feature 1"),
    "infinity": (([*X[:3].tolist(), [1, 2, np.inf, 0]], [0, 0, 1, 1]), {}, "frame 3 has infinity in feature 2"),
    "overflow": ((1e200 * X, Y), {}, "the squares of the frames 0 to 19 overflow: scale X down"),
    "an empty class": ([X, X[:0]], {}, "class 1 is empty"),
    "other features": ([X, X[:, :2]], {}, "class 1 has 2 features but class 0 has 4"),
    "one dimension": ((X[0], Y), {}, r"X has shape \(4,\)"),
    "too few labels": ((X, Y[:5]), {}, r"y has shape \(5,\) for 20 frames"),
    "continuous labels": ((X, Y + 0.5), {}, "continuous"),
    "too many coordinates": ((X, Y), {"n_components": 5}, "None or a whole number from 1 to 4"),
    "a center of another size": ((X, Y), {"center": [1, 2]}, "center must be True, False or 4 finite numbers"),
    "an unknown center": ((X, Y), {"center": "median"}, "center='median' is not known"),
    "an unknown manifold": ((X, Y), {"manifold": "sphere"}, "manifold='sphere' is not known"),
    "an unknown method": ((X, Y), {"method": "qr"}, "method='qr' is not known"),
    "frames in no class": ((X, Y - 1), {}, r"labels put frames in no class \(-1\) or in several classes"),
    "frames in several classes": ((X, np.ones((20, 2), bool)), {}, "pass partition=False to allow such labels"),
    "labels of no kind": ((X, Y / 1), {"partition": False}, "labels must be whole numbers from -1"),
    "a class without frames": ((X, 2 * Y), {"partition": False}, "class 1 has no frame"),
    "a huge label": ((X, 10**12 * Y), {"partition": False}, "class 1 has no frame"),
    "only frames in no class": ((X, 0 * Y - 1), {"partition": False}, "class 0 has no frame"),
    "two classes as a tuple": ((X, X), {}, "if the two arrays are the frames of two classes"),
    "squares that vanish": ((1e-200 * X, Y), {}, "underflow in float64: scale X up"),
}


@parametrize("case", BAD, fast=8)
def test_bad_input_raises_an_error(case):
    data, params, words = BAD[case]
    with pytest.raises(ValueError, match=words):
        build(data, **params)
