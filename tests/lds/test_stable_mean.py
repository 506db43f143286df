"""Means over all stable systems: points [A; C] in output-normal form, all centres in one call."""

import warnings

import numpy as np
import pytest
from lds.clusterings import generated, projection
from lds.test_bound import copies, sheared
from scipy.linalg import subspace_angles

import manifoldseq as ms
from manifoldseq_lds import LDSDictionaryLearning, LDSIdentifier, LDSKMeans, Systems, solve_common_problem
from manifoldseq_lds.means._stable_systems import orthonormal, points_of


def output_normal(system):
    """One system in the basis where its observability Gramian, a truncated sum, is the identity."""
    A, C = system[:2]
    G = sum((C @ np.linalg.matrix_power(A, t)).T @ (C @ np.linalg.matrix_power(A, t)) for t in range(400))
    T = np.linalg.cholesky(G).T
    return np.vstack([T @ A @ np.linalg.inv(T), C @ np.linalg.inv(T)])


@pytest.mark.parametrize("name", ["projection", "martin"])
def test_values_and_gradients_of_groups_are_those_of_the_kernel(name):
    kernel = ms.get_kernel(name)
    data, points = sheared(N=9), np.stack([output_normal(one) for one in sheared(N=3, seed=5)])
    packed, beta = kernel.pack(data), np.random.default_rng(0).standard_normal(9)
    groups = [(4, 9), (0, 4), (4, 9)]  # in any order, and more than once
    values, gradients = kernel.weighted_groups(points, packed, beta, groups)

    def value(k, point):
        rows = range(*groups[k])
        cosines = [
            np.cos(subspace_angles(_observability(point[:3], point[3:]), _observability(*data[i]))) for i in rows
        ]
        power = np.sum if name == "projection" else np.prod
        return sum(beta[i] * power(c**2) for i, c in zip(rows, cosines, strict=True))

    rng = np.random.default_rng(1)
    M = ms.manifolds.Stiefel(8, 3)
    for k in range(3):
        assert values[k] == pytest.approx(value(k, points[k]), abs=1e-10)
        u = M.random_tangent(points[k], rng)
        u *= 1e-5 / np.linalg.norm(u)
        slope = value(k, M.retract(points[k], u)) - value(k, M.retract(points[k], -u))
        assert np.sum(gradients[k] * u) == pytest.approx(slope / 2, rel=1e-5, abs=1e-11)


def _observability(A, C, steps=120):
    rows = [C]
    for _ in range(steps - 1):
        rows.append(rows[-1] @ A)
    return np.vstack(rows)


def test_a_point_at_the_unit_circle_has_no_finite_value_and_disturbs_no_other():
    kernel = ms.get_kernel("projection")
    packed, points = kernel.pack(sheared(N=4)), np.stack([output_normal(one) for one in sheared(N=2, seed=5)])
    rotation = np.vstack([np.eye(3), np.zeros((5, 3))])
    groups, beta = [(0, 4)] * 3, np.ones(4)
    values, gradients = kernel.weighted_groups(np.stack([points[0], rotation, points[1]]), packed, beta, groups)
    alone, slopes = kernel.weighted_groups(points, packed, beta, groups[:2])
    assert values[1] == np.inf and np.isfinite(gradients).all()
    np.testing.assert_allclose(values[::2], alone)
    np.testing.assert_allclose(gradients[::2], slopes)


@pytest.mark.parametrize("solver", ["lbfgs", "pgd"])
@pytest.mark.parametrize("kernel", ["projection", "martin"])
def test_the_span_holds_the_solution_over_all_stable_systems(solver, kernel):
    """Compressed and not, the systems after some iterations are the same; a start may be given."""
    near, start = sheared(N=6, m=40), sheared(N=1, m=40, seed=3)
    first = (np.ones(3), start.A[0], start.C[0])
    for given in ("medoid", first):
        points = [
            solve_common_problem(
                near, kernel=kernel, solver=solver, start=given, compress=compress, stop=ms.MaxIterations(8)
            )
            for compress in (False, True)
        ]
        assert points[0].fun == pytest.approx(points[1].fun, rel=1e-8)
        a, b = ((lam[:, None] * V, U) for lam, V, U in (result.x for result in points))
        assert projection(a, b, steps=150) == pytest.approx(3, abs=1e-6)
    with pytest.raises(ValueError, match="over='all' is not known: choose 'auto' or 'canonical'"):
        solve_common_problem(near, over="all")


@pytest.mark.parametrize("seed", range(3))
def test_no_mean_is_below_the_medoid_or_the_canonical_mean(seed):
    data = sheared(N=10, noise=0.5, seed=seed)[::2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LDSKMeans(1, n_init=1, max_iter=100, tol=1e-10).fit(data)
        found = solve_common_problem(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        within = solve_common_problem(data, over="canonical")
    medoid = max(np.mean([projection(a, b, steps=150) for b in data]) for a in data)
    value = np.mean([projection(model.systems_[0], b, steps=150) for b in data])
    assert value == pytest.approx(model.mean_kernel_value_, abs=1e-8)
    assert value > max(medoid, -within.fun / 2) - 1e-9 and -found.fun / 2 > value - 1e-6
    lam, V, U = found.x
    np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-12)
    here = np.mean([projection((lam[:, None] * V, U), b, steps=150) for b in data])
    assert here == pytest.approx(-found.fun / 2, abs=1e-8)


@pytest.mark.slow
def test_means_with_moments_are_not_below_the_medoid_and_rarely_below_the_canonical_mean():
    """Moments that have nothing to do with the dynamics: the Gaussian makes local optima."""
    behind = 0
    for seed in range(4):
        data = sheared(N=10, noise=0.5, seed=seed)[::2]
        data = Systems(data.A, data.C, moments=np.random.default_rng(seed).standard_normal((5, 4)))
        value = {}
        for mean in ("exact", "medoid", "canonical"):
            with warnings.catch_warnings():
                warnings.simplefilter("error" if mean == "exact" else "ignore")
                model = LDSKMeans(1, moments="both", mean=mean, max_iter=200, tol=1e-12, random_state=0).fit(data)
            value[mean], found = model.mean_kernel_value_, model.systems_
            assert found.moments is not None and data.moments is not None
            gaussian = np.exp(-((data.moments - found.moments[0]) ** 2) @ model.moment_weights_)
            by_hand = np.mean([g * projection(found[0], b, steps=150) for g, b in zip(gaussian, data, strict=True)])
            assert by_hand == pytest.approx(value[mean], abs=1e-8)
            if mean == "exact":
                assert np.diff(model.history_["fun"]).max() < 1e-12
                assert model.partial_fit(data).mean_kernel_value_ > value[mean] - 1e-6
        assert value["exact"] > value["medoid"] - 1e-9
        behind += value["exact"] < value["canonical"] - 1e-9
    assert behind <= 1


def test_identical_and_equivalent_systems_are_their_mean():
    for data in (copies(), copies(A=np.array([[0.9, 2.0, 0.0], [0.0, 0.9, 1.0], [0.0, 0.0, 0.8]]), m=4)):
        n = data.n_states
        P = np.linalg.qr(np.random.default_rng(0).standard_normal((n, n)))[0]
        turned = Systems(P.T @ data.A @ P, data.C @ P)
        both = Systems.concatenate([Systems(data.A, data.C), turned])
        model = LDSKMeans(1, random_state=0).fit(both)
        assert model.mean_kernel_value_ == pytest.approx(n, abs=1e-8)
        assert projection(model.systems_[0], data[0], steps=400) == pytest.approx(n, abs=1e-8)
        assert solve_common_problem(both).fun == pytest.approx(-2 * n, abs=1e-8)


@pytest.mark.parametrize("init", ["random", "k-means"])
def test_an_atom_of_equal_systems_is_the_system(init):
    """One atom for equal systems: its code is 1 - alpha / 4 and the objective alpha - alpha^2 / 8."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LDSDictionaryLearning(1, init=init, random_state=0).fit(copies())
    assert model.objective_ == pytest.approx(0.1 - 0.01 / 8, abs=1e-9)
    assert -model.score(copies()) == pytest.approx(model.objective_, abs=1e-9)
    model.partial_fit(copies())  # goes on from it
    assert -model.score(copies()) == pytest.approx(0.1 - 0.01 / 8, abs=1e-9)


def test_atoms_are_sought_among_all_stable_systems():
    data = sheared(N=20, noise=0.4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = [
            LDSDictionaryLearning(3, method=method, init=data[[0, 1, 2]], inner_iter=5, max_iter=15).fit(data)
            for method in ("lbfgs", "canonical")
        ]
    assert both[0].objective_ < both[1].objective_
    assert np.diff(both[0].history_["fun"]).max() < 1e-12


def test_clustering_beats_medoids_on_undamped_systems():
    """Constraint generation leaves modes next to the unit circle, where the objective is flat but for narrow minima."""
    rng, t = np.random.default_rng(0), np.arange(60)[:, None]
    X = [
        np.cos(t * (0.3, 0.5)[i % 2] + rng.uniform(0, 6) + np.arange(4)) + 0.3 * rng.standard_normal((60, 4))
        for i in range(16)
    ]
    data = LDSIdentifier(4, stabilizer="CG").fit_transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LDSKMeans(2, random_state=0, n_init=2).fit(data)
    medoids = LDSKMeans(2, mean="medoid", random_state=0, n_init=2).fit(data)
    assert model.mean_kernel_value_ > medoids.mean_kernel_value_
    Systems(model.systems_.A, model.systems_.C)  # stable, with orthonormal outputs
    np.testing.assert_array_equal(model.predict(data), model.labels_)


def test_every_centre_of_one_call_is_that_of_a_call_of_its_own():
    """The batch changes nothing: K means from one start each, in one fit and in K fits."""
    data = generated()
    labels = np.arange(30) % 3
    whole = LDSKMeans(3, init=labels, max_iter=1, relocate=False).fit(data)
    for k in range(3):
        rows = np.flatnonzero(labels == k)
        one = LDSKMeans(1, init=np.zeros(len(rows), int), max_iter=1, relocate=False).fit(data[rows])
        assert projection(one.systems_[0], whole.systems_[k]) == pytest.approx(3, abs=1e-7)


def test_outputs_that_lose_a_rank_are_told():
    """Two modes seen by one output: no system of two states with orthonormal outputs has this subspace."""
    kernel = ms.get_kernel("projection")
    A, c = np.array([[0.5, 1.0], [0.0, 0.3]]), np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    packed = kernel.pack([(A, c)] * 3)
    systems, deficient = orthonormal(points_of(packed))
    assert deficient.all()
    np.testing.assert_allclose(systems.C.swapaxes(1, 2) @ systems.C, np.broadcast_to(np.eye(2), (3, 2, 2)), atol=1e-12)
