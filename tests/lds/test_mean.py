"""The kernel mean of systems: canonical form, initializers, objective, and its closed-form update."""

import pickle

import numpy as np
import pytest
from lds.items import change_state_basis, example, to_item

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, ProjectionKernel, Systems

KERNEL = ProjectionKernel()
build = ms.get_model("lds.mean").problem


def noisy_copies(N=12, m=9, n=3, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    A, C = rng.standard_normal((n, n)), rng.standard_normal((m, n))
    A = A + noise * rng.standard_normal((N, n, n))
    A *= (0.85 / np.linalg.norm(A, 2, axis=(1, 2)))[:, None, None]
    return Systems(A, np.linalg.qr(C + noise * rng.standard_normal((N, m, n)))[0])


def first_gain(first, second):
    """Inner product of the outputs' maps; at module level, so that it can be pickled."""
    return (first[1] * second[1]).sum()


def canonical_form(system, **params):
    """Return the point of the only datum of a mean."""
    problem = build(system, **params)
    return problem.initializers["medoid"](problem, np.random.default_rng(0))


def test_canonical_form_is_p_equivalent():
    """The first state takes part with a kernel that looks at it, and changes nothing of the others."""
    data = example(np.random.default_rng(0))
    data = Systems(0.9 * data.A / np.linalg.norm(data.A, 2, axis=(1, 2))[:, None, None], data.C, x1=data.x1)
    for i in range(5):
        form = canonical_form(data[[i]], kernel="binet-cauchy")
        A, C, first = to_item(form)
        P = data.C[i].T @ C  # C P = the canonical outputs
        np.testing.assert_allclose(P.T @ P, np.eye(3), atol=1e-14)
        np.testing.assert_allclose(P.T @ data.A[i] @ P, A, atol=1e-14)
        np.testing.assert_allclose(P @ first, data.x1[i], atol=1e-14)
        np.testing.assert_allclose(form[1] @ form[1].T, np.eye(3), atol=1e-14)
        for a, b in zip(canonical_form(Systems(data.A[[i]], data.C[[i]])), form, strict=False):
            np.testing.assert_allclose(a, b, atol=1e-14)


def test_canonical_form_clips_at_the_bound():
    steep = Systems([[[0.5, 3.0], [0.0, 0.5]]], [np.eye(2)])  # spectral radius 0.5, norm 3.08
    with pytest.warns(UserWarning, match=r"up to 3\.081, .* requires bound=0\.9"):
        lam, V, _ = canonical_form(steep, bound=0.9)
    assert lam.max() == 0.9
    assert lam.min() == pytest.approx(0.25 / np.linalg.norm([[0.5, 3.0], [0.0, 0.5]], 2))
    assert np.abs(np.linalg.eigvals(lam[:, None] * V)).max() < 0.9


def test_medoid_is_the_member_with_the_largest_row_sum():
    data = noisy_copies()
    problem = build(data, kernel=KERNEL)
    assert next(iter(problem.initializers)) == "medoid"
    P = KERNEL.pack(data)
    sums = KERNEL.cross(P, P).sum(axis=1)
    start = problem.initializers["medoid"](problem, np.random.default_rng(0))
    assert problem.objective.value(start) == pytest.approx(-2 / 12 * sums.max(), abs=1e-12)
    random = problem.initializers["random"](problem, np.random.default_rng(0))
    assert problem.manifold.feasibility(random) < 1e-12


def test_objective_is_the_mean_squared_distance_up_to_a_constant():
    data = noisy_copies()
    problem = build(data, kernel=KERNEL)
    x, y = (problem.manifold.random_point(np.random.default_rng(seed)) for seed in (1, 2))
    P = KERNEL.pack(data)

    def mean_squared_distance(point):
        own = KERNEL.pack([to_item(point)])
        return np.mean(KERNEL.diag(P) + KERNEL.diag(own) - 2 * KERNEL.cross(own, P)[0])

    expected = mean_squared_distance(x) - mean_squared_distance(y)
    assert problem.objective.value(x) - problem.objective.value(y) == pytest.approx(expected, abs=1e-12)


def test_a_kernel_without_constant_diagonal_adds_its_self_term():
    overlap = ms.kernel(lambda a, b: ms.linalg.stein(a[0], b[0], a[1].T @ b[1])[0, 0])
    data = noisy_copies(4)
    problem = build(data, kernel=overlap)
    x = problem.manifold.random_point(np.random.default_rng(0))
    item, P = to_item(x), overlap.pack(zip(data.A, data.C, strict=True))
    expected = overlap(item, item) - 2 * np.mean(overlap.cross(overlap.pack([item]), P))
    assert problem.objective.value(x) == pytest.approx(expected, abs=1e-12)
    ms.testing.check_gradient(problem).raise_for_failure()


def test_conformance():
    problem = build(noisy_copies(), kernel=KERNEL)
    ms.testing.check_gradient(problem).raise_for_failure()
    ms.testing.check_objective(problem).raise_for_failure()


def test_single_data_average_to_the_whole():
    problem = build(noisy_copies(), kernel=KERNEL)
    x = problem.manifold.random_point(np.random.default_rng(0))
    terms = problem.objective.terms
    singles = [terms.batch(np.array([i])).value(x) for i in range(terms.n)]
    assert np.mean(singles) == pytest.approx(problem.objective.value(x), abs=1e-12)


def test_polar_update_never_raises_the_objective():
    problem = build(noisy_copies(noise=1.0), kernel=KERNEL)
    (update,) = problem.objective.updates
    for seed in range(5):
        x = problem.manifold.random_point(np.random.default_rng(seed))
        values = [problem.objective.value(x)]
        for _ in range(60):
            y = update.apply(x)
            assert y[0] is x[0] and y[1] is x[1]
            x = y
            values.append(problem.objective.value(x))
        assert np.diff(values).max() <= 1e-12
        assert values[-1] < values[0] - 0.01


def test_mean_of_equivalent_systems_is_the_system():
    data = noisy_copies(1)
    copies = Systems.from_items([data[0], change_state_basis(data[0])] * 3)
    problem = build(copies, kernel=KERNEL)
    for start in ("medoid", "random"):
        result = ms.minimize(problem, start, seed=0, stop=ms.GradientNorm(1e-9) | ms.MaxIterations(2000))
        if start == "medoid":
            assert result.fun == pytest.approx(-2 * 3, abs=1e-8)
        assert result.fun >= -2 * 3 - 1e-8
    k = KERNEL.cross(KERNEL.pack([to_item(ms.minimize(problem).x)]), KERNEL.pack(copies))
    np.testing.assert_allclose(k, 3.0, rtol=0, atol=1e-8)


@pytest.mark.parametrize("solver", ["lbfgs", "pgd"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_solvers_never_end_above_the_medoid(solver, seed):
    problem = build(noisy_copies(noise=0.8, seed=seed), kernel=KERNEL)
    result = ms.minimize(problem, solver=solver, stop=ms.MaxIterations(60))
    assert result.fun < problem.objective.value(problem.initializers["medoid"](problem, np.random.default_rng(0)))
    assert np.all(np.diff(result.history["fun"]) <= 1e-12)


def test_sequences_are_identified_first():
    t = np.arange(40)[:, None]
    X = [0.95**t * np.cos(t * w + np.arange(3)) for w in (0.3, 0.35, 0.4)]
    by_sequences = build(X, identifier=LDSIdentifier(2, center=False), kernel=KERNEL)
    by_systems = build(LDSIdentifier(n_states=2, center=False).fit_transform(X), kernel=KERNEL)
    x = by_systems.manifold.random_point(np.random.default_rng(0))
    assert by_sequences.objective.value(x) == by_systems.objective.value(x)


@pytest.mark.parametrize("kernel", ["projection", ms.kernel(first_gain)])
def test_the_problem_can_be_pickled(kernel):
    problem = build(noisy_copies(4), kernel=kernel)
    again = pickle.loads(pickle.dumps(problem))
    x = problem.manifold.random_point(np.random.default_rng(0))
    assert again.objective.value(x) == problem.objective.value(x)
    assert len(again.objective.updates) == (kernel == "projection")
    np.testing.assert_array_equal(
        again.initializers["medoid"](again, None)[0], problem.initializers["medoid"](problem, None)[0]
    )


def test_scale_is_a_setting_of_the_identifier():
    t = np.arange(40)[:, None]
    X = [0.95**t * np.cos(t * w + np.arange(3)) * [1, 10, 100] for w in (0.3, 0.35, 0.4)]
    x = build(X, n_states=2).manifold.random_point(np.random.default_rng(0))
    values = [build(X, identifier=LDSIdentifier(2, scale=scale)).objective.value(x) for scale in (True, False)]
    expected = build(LDSIdentifier(2, scale=False).fit_transform(X)).objective.value(x)
    assert values[0] != values[1] == expected


class Protocol:
    """What a kernel object must have, and no more: the projection kernel with fewer claims."""

    name, domain, constant_diagonal = "protocol", "lds", True
    positive_definite, products_only, convex_in_output, self_term = True, False, False, None
    pack, cross, diag, weighted, manifold = (
        getattr(KERNEL, name) for name in ("pack", "cross", "diag", "weighted", "manifold")
    )


def test_a_kernel_object_needs_no_more_than_the_protocol():
    data = noisy_copies(6)
    problem = build(data, kernel=Protocol())
    x = problem.manifold.random_point(np.random.default_rng(0))
    assert problem.objective.value(x) == build(data).objective.value(x) and not problem.objective.updates
    del (lacking := type("Lacking", (), dict(vars(Protocol)))).constant_diagonal
    with pytest.raises(ValueError, match=r"has no constant_diagonal: add these attributes of ms\.kernels\.Kernel"):
        build(data, kernel=lacking())
    lacking.constant_diagonal = False
    with pytest.raises(ValueError, match="has no self_term, which constant_diagonal=False requires"):
        build(data, kernel=lacking())


def test_no_systems_raise_an_error():
    with pytest.raises(ValueError, match="no systems"):
        build(noisy_copies(2)[[]])


def test_a_mean_of_noisy_systems_ends_as_solved() -> None:
    """Rounding hides the curvature where L-BFGS stalls, 4e-12 of the value above the minimum."""
    rng = np.random.default_rng(0)

    def stable(A: np.ndarray) -> np.ndarray:
        U, s, Vt = np.linalg.svd(A)
        return U * np.tanh(1.25 * s) @ Vt

    A0, C0 = stable(1.2 * rng.standard_normal((10, 10)) / 10**0.5), np.linalg.qr(rng.standard_normal((80, 10)))[0]
    As, Cs = [], []
    for _ in range(20):
        A = stable(0.9 * A0 + 0.3 * rng.standard_normal((10, 10)) / 10**0.5)
        C = np.linalg.qr(C0 + 0.3 * rng.standard_normal((80, 10)) / 80**0.5)[0]
        P = np.linalg.qr(rng.standard_normal((10, 10)))[0]
        As.append(P.T @ A @ P)
        Cs.append(C @ P)
    problem = build(Systems(np.stack(As), np.stack(Cs)))
    start = problem.initializers["medoid"](problem, rng)
    default, exact = (ms.minimize(problem, start, solver=solver) for solver in ("auto", "tr"))
    assert default.solver == "lbfgs-tr" and default.success and exact.success
    assert default.fun == pytest.approx(exact.fun, rel=1e-12)
