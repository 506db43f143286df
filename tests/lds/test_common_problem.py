"""The common problem (11), (12): weights of any sign, codes and atoms, compression, Algorithm 1."""

import pickle

import numpy as np
import pytest
from helpers import parametrize
from lds.items import to_item

import manifoldseq as ms
from manifoldseq_lds import SpanCompression, Systems, solve_common_problem

NAMES = ["projection", "martin", "martin-rbf", "grassmann", "symmetric-projection", "binet-cauchy"]


def copies(N=10, m=9, n=3, noise=0.3, seed=0):
    """Return noisy copies of one system, with first states."""
    rng = np.random.default_rng(seed)
    A, C = rng.standard_normal((n, n)), rng.standard_normal((m, n))
    A = A + noise * rng.standard_normal((N, n, n))
    A *= (0.85 / np.linalg.norm(A, 2, axis=(1, 2)))[:, None, None]
    C = np.linalg.qr(C + noise * rng.standard_normal((N, m, n)))[0]
    return Systems(A, C, x1=1 + 0.1 * rng.standard_normal((N, n)))


def build(name, data, **params):
    return ms.get_model(name).problem(data, **params)


@pytest.mark.parametrize("beta", [None, np.full(6, -1 / 6)], ids=["mean", "weights"])
@pytest.mark.parametrize("kernel", NAMES)
def test_models_take_every_kernel_by_name(beta, kernel):
    problem = build("lds.mean", copies(6), kernel=kernel, beta=beta)
    for start in problem.initializers:
        x = problem.initializers[start](problem, np.random.default_rng(0))
        assert problem.manifold.feasibility(x) < 1e-12 and np.isfinite(problem.objective.value(x))
    ms.testing.check_gradient(problem, x).raise_for_failure()
    first = problem.objective.value(problem.initializers["medoid"](problem, None))
    assert ms.minimize(problem, stop=ms.MaxIterations(15)).fun <= first


def test_conformance():
    ms.testing.check_model("lds.mean", copies(), beta=np.resize([-1.0, 0.5], 10)).raise_for_failure()


def test_weights_of_any_sign_are_the_weighted_row_of_the_kernel():
    data, beta = copies(), np.random.default_rng(1).standard_normal(10)
    problem = build("lds.mean", data, beta=beta)
    kernel = ms.get_kernel("projection")
    x = problem.manifold.random_point(np.random.default_rng(0))
    row = kernel.cross(kernel.pack([to_item(x)]), kernel.pack(data))[0]
    assert problem.objective.value(x) == pytest.approx(row @ beta, abs=1e-12)
    assert not problem.objective.updates  # (12) is not concave in U where weights have both signs
    assert [update.name for update in build("lds.mean", data, beta=-abs(beta)).objective.updates] == ["polar"]
    singles = [problem.objective.terms.batch(np.array([i])).value(x) for i in range(10)]
    assert np.mean(singles) == pytest.approx(problem.objective.value(x), abs=1e-12)


@parametrize("kernel", ["projection", "binet-cauchy"], fast=1)
def test_the_dictionary_is_the_reconstruction_error_as_a_function_of_one_atom(kernel):
    """(9), (10): differences in the mean squared residual in feature space, by Gram matrices, and in twice (10)."""
    data, atoms, r = copies(), copies(4, seed=1), 2
    if kernel == "projection":
        data, atoms = Systems(data.A, data.C), Systems(atoms.A, atoms.C)
    Z = np.random.default_rng(2).standard_normal((10, 4))
    problem = build("lds.dictionary", data, n_atoms=4, kernel=kernel, method="canonical")
    family = problem.data.model.family
    k = ms.get_kernel(kernel)
    P = k.pack(data)

    def reconstruction(point):
        items = list(atoms)
        items[r] = to_item(point)
        D = k.pack(items)
        residuals = k.diag(P) - 2 * np.sum(Z * k.cross(P, D), axis=1) + np.einsum("ij,jk,ik->i", Z, k.cross(D, D), Z)
        return residuals.mean()

    def whole(point):
        leaves = tuple(leaf.copy() for leaf in family.chosen(atoms))
        for leaf, part in zip(leaves, point, strict=True):
            leaf[r] = part
        return leaves, Z.T.copy()

    x, y = (family.manifold.random_point(np.random.default_rng(seed)) for seed in (3, 4))
    expected = reconstruction(x) - reconstruction(y)
    assert problem.objective.value(whole(x)) - problem.objective.value(whole(y)) == pytest.approx(expected, abs=1e-11)
    ms.testing.check_gradient(problem, whole(x)).raise_for_failure()
    again = pickle.loads(pickle.dumps(problem))
    assert again.objective.value(whole(x)) == problem.objective.value(whole(x))
    # (10) by its weights: those of the data and the other atoms, and that of the atom itself
    others = [j for j in range(4) if j != r]
    beta = np.concatenate([-Z[:, r], Z[:, r] @ Z[:, others]]) / 10
    items = k.pack([*data, *(atoms[j] for j in others)])
    printed = [
        k.cross(own, items)[0] @ beta + float(k.diag(own)[0]) * (Z[:, r] ** 2).sum() / 20
        for own in (k.pack([to_item(point)]) for point in (x, y))
    ]
    assert expected == pytest.approx(2 * (printed[0] - printed[1]), abs=1e-11)


@pytest.mark.parametrize("kernel", ["binet-cauchy", "martin", "grassmann"])
def test_the_mean_problem_is_the_mean_squared_distance(kernel):
    """(7): k(S, S) enters it where it varies, as for Binet-Cauchy, and only there."""
    data, k = copies(), ms.get_kernel(kernel)
    data = data if kernel == "binet-cauchy" else Systems(data.A, data.C)
    problem = build("lds.mean", data, kernel=kernel)
    P = k.pack(data)

    def squared(point):
        own = k.pack([to_item(point)])
        return np.mean(k.diag(P) + k.diag(own) - 2 * k.cross(own, P)[0])

    x, y = (problem.manifold.random_point(np.random.default_rng(seed)) for seed in (3, 4))
    assert problem.objective.value(x) - problem.objective.value(y) == pytest.approx(squared(x) - squared(y), abs=1e-11)
    medoid = problem.objective.value(problem.initializers["medoid"](problem, None))
    K = k.cross(P, P)
    best = (k.diag(P) * (not k.constant_diagonal) - 2 * K.mean(axis=1)).min()
    assert medoid == pytest.approx(best, rel=1e-9, abs=1e-11)


def test_bad_weights_are_named():
    with pytest.raises(ValueError, match="one finite weight for each of the 10 systems"):
        build("lds.mean", copies(), beta=np.ones(3))


def test_settings_of_the_kernel_reach_the_kernel():
    data = copies()
    x = build("lds.mean", data).manifold.random_point(np.random.default_rng(0))
    value = build("lds.mean", data, kernel=ms.get_kernel("grassmann", n_steps=2)).objective.value(x)
    assert value != build("lds.mean", data, kernel="grassmann").objective.value(x)


@pytest.mark.parametrize("kernel", ["projection", "grassmann", "symmetric-projection"])
def test_polar_update_never_raises_a_sum_with_negative_weights(kernel):
    data = copies(noise=1.0)
    (update,) = build("lds.mean", data, kernel=kernel).objective.updates
    problem = build("lds.mean", data, kernel=kernel)
    for seed in range(5):
        x = problem.manifold.random_point(np.random.default_rng(seed))
        values = [problem.objective.value(x)]
        for _ in range(40):
            x = update.apply(x)
            values.append(problem.objective.value(x))
        assert np.diff(values).max() <= 1e-12 and values[-1] < values[0] - 0.01


def test_compression_keeps_every_product_of_outputs():
    data = copies(6, m=200)
    span = SpanCompression.of(data)
    assert span.factor is not None and span.systems.C.shape == (6, 18, 3)
    np.testing.assert_allclose(
        np.einsum("iab,jac->ijbc", span.systems.C, span.systems.C),
        np.einsum("iab,jac->ijbc", data.C, data.C),
        rtol=0,
        atol=1e-13,
    )
    np.testing.assert_allclose(span.expand(span.systems.C), data.C, rtol=0, atol=1e-12)
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((200, 3)))[0]
    with pytest.raises(ValueError, match="not in the span"):
        span.coordinates(U)
    wider = SpanCompression.of(data, U)
    np.testing.assert_allclose(wider.expand(wider.coordinates(U)), U, rtol=0, atol=1e-12)


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-5])
def test_compression_of_duplicates_and_near_duplicates(noise):
    """Exact duplicates lose their columns; near ones take the QR route, so that their small difference stays right."""
    data = copies(3, m=100)
    near = np.linalg.qr(data.C + noise * np.random.default_rng(1).standard_normal(data.C.shape))[0]
    near *= np.sign(np.einsum("iab,iab->ib", near, data.C))[:, None, :]
    span = SpanCompression.of(Systems(np.tile(data.A, (2, 1, 1)), np.concatenate([data.C, near])))
    assert span.systems.n_outputs in ((9,) if noise == 0 else (9, 18))
    back = span.expand(span.systems.C)
    np.testing.assert_allclose(back, np.concatenate([data.C, near]), rtol=0, atol=1e-8 if noise == 1e-9 else 1e-12)
    np.testing.assert_allclose(back.swapaxes(1, 2) @ back, np.broadcast_to(np.eye(3), (6, 3, 3)), atol=1e-8)


@parametrize("kernel", NAMES, fast=2)
@pytest.mark.parametrize("solver", ["lbfgs", "pgd"])
def test_iterates_in_the_span_are_those_without_compression(solver, kernel):
    data = copies(5, m=150)
    if kernel != "binet-cauchy":
        data = Systems(data.A, data.C)
    seen = {}
    for compress in (False, True):
        for n in (1, 5, 15):
            result = solve_common_problem(
                data, kernel=kernel, over="canonical", solver=solver, compress=compress, stop=ms.MaxIterations(n)
            )
            seen[compress, n] = result.x
            assert np.abs(result.x[2].T @ result.x[2] - np.eye(3)).max() < 1e-11
    for n in (1, 5, 15):
        for a, b in zip(seen[False, n], seen[True, n], strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)


def test_a_given_start_is_part_of_the_span():
    data, beta = copies(4, m=120), np.array([1.0, -2.0, 0.5, -1.0])
    start = ms.manifolds.CanonicalLDS(120, 3).random_point(np.random.default_rng(0))
    plain, within = (
        solve_common_problem(data, beta, over="canonical", start=start, compress=compress, stop=ms.MaxIterations(10))
        for compress in (False, True)
    )
    for a, b in zip(plain.x, within.x, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-7)


def test_compression_is_chosen_where_it_pays():
    assert SpanCompression.pays(50, 20000, 10) and SpanCompression.pays(50, 2500, 10)
    assert not SpanCompression.pays(50, 177, 10)  # the span is the whole space
    assert not SpanCompression.pays(5000, 200000, 10)  # a basis of 50,000 columns costs more than the run
    with pytest.raises(ValueError, match="choose True, False or 'auto'"):
        solve_common_problem(copies(3), compress="yes")
    gain = ms.kernel(lambda a, b: ((a[1] @ a[0] @ a[1].T) * (b[1] @ b[0] @ b[1].T)).sum())
    with pytest.raises(ValueError, match="requires a kernel with products_only"):
        solve_common_problem(copies(3), kernel=gain, compress=True)
    data = Systems(copies(3).A, copies(3).C)
    assert np.isfinite(solve_common_problem(data, kernel=gain, own=1.0, stop=ms.MaxIterations(2)).fun)


def test_algorithm_1_as_printed_at_toolbox_scale_and_with_backtracking():
    """The same rates on (8) and on half of it are two methods; backtracking never ends above its start."""
    problem = build("lds.mean", copies(noise=0.8))
    runs = {
        "printed": {"step_size": (0.1, 0.1, 1.0), "backtracking": False},
        "toolbox": {"step_size": (0.05, 0.05, 0.5), "backtracking": False},
        "backtracking": {"step_size": (0.1, 0.1, 1.0)},
    }
    ends = {
        name: ms.minimize(problem, solver="pgd", options=options, stop=ms.MaxIterations(60))
        for name, options in runs.items()
    }
    assert np.diff(ends["backtracking"].history["fun"]).max() <= 0
    half = ms.Problem(problem.manifold, 0.5 * problem.objective, problem.initializers)
    same = ms.minimize(half, solver="pgd", options=runs["printed"], stop=ms.MaxIterations(60))
    np.testing.assert_allclose(2 * same.history["fun"], ends["toolbox"].history["fun"], rtol=1e-9)
    assert np.abs(ends["printed"].history["fun"] - ends["toolbox"].history["fun"]).max() > 1e-6


@pytest.mark.parametrize("sign", ["negative", "mixed"])
def test_stochastic_pgd_lowers_the_common_problem(sign):
    data = copies(60, noise=0.8)
    beta = np.full(60, -1 / 60) if sign == "negative" else np.where(np.arange(60) % 3, -1 / 60, 0.5 / 60)
    problem = build("lds.mean", data, beta=beta)
    options = {"batch_size": 20, "rates": (0.1, 0.1, 1.0), "step_size": ms.solvers.Halving(1.0, every=30)}
    result = ms.minimize(problem, "random", solver="stochastic-pgd", options=options, stop=ms.MaxIterations(90), seed=0)
    start = problem.initializers["random"](problem, np.random.default_rng(0))
    assert result.fun < problem.objective.value(start) and problem.manifold.feasibility(result.x) < 1e-10
    assert result.fun < 0.8 * ms.minimize(problem, seed=0).fun


@pytest.mark.parametrize("systems", [copies(3)[:0], [np.ones((9, 2))]])
def test_the_common_problem_asks_for_systems(systems):
    with pytest.raises(ValueError, match="systems are not a nonempty Systems object"):
        solve_common_problem(systems)


@pytest.mark.parametrize("bound", [0.5, 0.7, 0.99])
@pytest.mark.parametrize("beta", [None, [-1.0, 0.6, -0.8]])
def test_canonical_problem_has_the_minimum_of_a_grid(beta, bound):
    """(12) with one state and two outputs, where the kernel is a formula: all |a| up to the bound, all directions."""
    a, angles = np.array([0.8, -0.3, 0.6]), np.array([0.2, 1.0, 1.7])
    data = Systems(a[:, None, None], np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None])
    weights = np.full(3, -2 / 3) if beta is None else beta
    x, angle = np.linspace(-bound, bound, 401)[:, None, None], np.linspace(0, np.pi, 721)[None, :, None]
    squares = (1 - x**2) * (1 - a**2) / (1 - x * a) ** 2 * np.cos(angle - angles) ** 2
    least = (squares @ np.array(weights)).min()
    problem = build("lds.mean", data, bound=bound, beta=beta)
    found = [ms.minimize(problem, "random", seed=seed) for seed in range(4)]
    best = min(found, key=lambda result: result.fun)
    assert least - 1e-4 < best.fun <= least + 1e-12
    assert all(np.abs(result.x[0]).max() <= bound for result in found)


def test_canonical_problem_is_the_sum_over_truncated_subspaces():
    """(12): the kernel of ([U; U L V; U (L V)^2; ...]) with every datum; solutions stay in the constraints."""
    data, bound = copies(5, m=6), 0.6
    data = Systems(data.A, data.C)
    problem = build("lds.mean", data, bound=bound)

    def subspace(A, C):
        return np.linalg.qr(np.vstack([C @ np.linalg.matrix_power(A, t) for t in range(200)]))[0]

    starts = [problem.manifold.random_point(np.random.default_rng(seed)) for seed in range(3)]
    solved = ms.minimize(problem, starts[0], stop=ms.MaxIterations(50)).x
    for lam, V, U in (*starts, solved):
        S = subspace(np.diag(lam) @ V, U)
        expected = -2 / 5 * sum(np.sum((S.T @ subspace(A, C)) ** 2) for A, C in data)
        assert problem.objective.value((lam, V, U)) == pytest.approx(expected, abs=1e-9)
    lam, V, U = solved
    np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-12)
    assert np.abs(lam).max() <= bound
