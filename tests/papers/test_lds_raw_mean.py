"""The kernel mean in raw coordinates (A, C): model ``lds.mean-raw``."""

import numpy as np
import pytest
from lds.clusterings import oscillations

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, Systems

KERNELS = ["projection", "martin", "martin-rbf", "grassmann", "symmetric-projection", "binet-cauchy"]


SHEAR = np.array([[0.0, 3.0], [0.0, 0.0]])


def copies(A=None, N=10, m=9, n=3, noise=0.3):
    """Return noisy copies of one system, or equal ones of a given A, with first states."""
    rng = np.random.default_rng(0)
    if A is not None:
        return Systems([A] * N, [np.eye(m, len(A))] * N, np.ones((N, len(A))))
    A, C = rng.standard_normal((n, n)), rng.standard_normal((m, n))
    A = A + noise * rng.standard_normal((N, n, n))
    A *= (0.85 / np.linalg.norm(A, 2, axis=(1, 2)))[:, None, None]
    C = np.linalg.qr(C + noise * rng.standard_normal((N, m, n)))[0]
    return Systems(A, C, x1=1 + 0.1 * rng.standard_normal((N, n)))


def build(name, data, **params):
    return ms.get_model(name).problem(data, **params)


@pytest.mark.parametrize("kernel", KERNELS)
def test_takes_every_kernel_by_name(kernel):
    problem = build("lds.mean-raw", copies(N=6), kernel=kernel)
    for start in problem.initializers:
        x = problem.initializers[start](problem, np.random.default_rng(0))
        assert problem.manifold.feasibility(x) < 1e-12 and np.isfinite(problem.objective.value(x))
    ms.testing.check_gradient(problem, x).raise_for_failure()
    first = problem.objective.value(problem.initializers["medoid"](problem, None))
    assert ms.minimize(problem, stop=ms.MaxIterations(15)).fun <= first


def test_conformance():
    ms.testing.check_model("lds.mean-raw").raise_for_failure()


def test_sequences_are_identified_as_by_the_model_of_the_mean():
    X, identifier = oscillations(), LDSIdentifier(2, center=False)
    raw, canonical = (build(name, X, identifier=identifier) for name in ("lds.mean-raw", "lds.mean"))
    x = canonical.manifold.random_point(np.random.default_rng(0))
    assert raw.objective.value((x[0][:, None] * x[1], x[2])) == pytest.approx(canonical.objective.value(x), abs=1e-12)


def test_raw_coordinates_have_the_same_objective_and_reach_the_same_mean():
    data = copies(noise=0.1)
    canonical, raw = build("lds.mean", data), build("lds.mean-raw", data)
    x = canonical.manifold.random_point(np.random.default_rng(0))
    assert raw.objective.value((x[0][:, None] * x[1], x[2])) == pytest.approx(canonical.objective.value(x), abs=1e-12)
    assert raw.objective.value((1.2 * np.eye(3), x[2])) == np.inf
    transitions = raw.manifold.factors[0]
    stepped = transitions.retract(np.eye(3) * 0.9, np.full((2, 3, 3), 0.5))  # a batch of steps out of the set
    assert transitions.feasibility(np.eye(3) * 2) == pytest.approx(1.01)
    np.testing.assert_allclose(np.abs(np.linalg.eigvals(stepped)).max(axis=1), 0.99, rtol=1e-12)
    assert ms.minimize(raw).fun == pytest.approx(ms.minimize(canonical).fun, abs=1e-6)
    assert raw.manifold.dim == canonical.manifold.dim + 3  # Remark 2: n (n - 1) / 2 more


def test_raw_coordinates_have_no_bound_of_singular_values():
    result = ms.minimize(ms.get_model("lds.mean-raw").problem(copies(SHEAR)))
    assert result.fun == pytest.approx(-4, abs=1e-9)
