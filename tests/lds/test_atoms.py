"""Updates of one atom: the gradient of (10), and Algorithm 1 as printed."""

import tracemalloc

import numpy as np
import pytest
from lds.sparse_problems import atom_problem, clustered

import manifoldseq as ms
from manifoldseq_lds import LDSDictionaryLearning, LDSSparseCoder, Systems
from manifoldseq_lds.coding._atom_families import SystemAtoms
from manifoldseq_lds.coding._lasso import objective
from manifoldseq_lds.systems._canonical_form import canonical_form

RATES = (0.1, 0.2, 0.7)


def system_atoms(kernel="projection", solver="pgd", inner=1):
    kernel = ms.get_kernel(kernel) if isinstance(kernel, str) else kernel
    return SystemAtoms(kernel, kernel.manifold(6, 2, 0.99), solver, RATES, inner)


@ms.kernel(domain="lds")
def unbounded(a, b):
    """A kernel whose k(S, S) is not constant."""
    import autograd.numpy as anp

    products = anp.dot(anp.transpose(a[1]), b[1])
    return anp.sum(products * products) + anp.sum(anp.dot(a[1], a[0]) * anp.dot(b[1], b[0])) ** 2


def mean_error(family, atoms, packed, Z):
    """The first part of (9) at given codes."""
    D = family.pack_atoms(atoms)
    return objective(family.cross(D, D), family.cross(D, packed), family.diag(packed), 0.0, Z)[0].mean()


@pytest.mark.parametrize("kernel", ["projection", unbounded])
def test_the_gradient_of_an_atom_is_half_of_that_of_the_error(kernel):
    """(10) is half of what (9) says of one atom, for kernels with and without constant diagonal."""
    family, systems = system_atoms(kernel), clustered(8)
    made, atoms, Z = atom_problem(family, systems)
    point = tuple(leaf[1] for leaf in atoms)
    _, gradient = family.weighted(point, made)
    direction = family.manifold.random_tangent(point, np.random.default_rng(1))

    def at(h):
        moved = family.manifold.nearest(tuple(p + h * d for p, d in zip(point, direction, strict=True)))
        leaves = tuple(np.stack([leaf[0], new, leaf[2]]) for leaf, new in zip(atoms, moved, strict=True))
        return mean_error(family, leaves, made.packed, Z)

    slope = sum(np.sum(g * d) for g, d in zip(gradient, direction, strict=True))
    assert 2 * slope == pytest.approx((at(1e-5) - at(-1e-5)) / 2e-5, rel=1e-6)


def test_one_step_is_algorithm_1_as_printed():
    """(16), (17) with dense inverses and (18), with a gradient by central differences."""
    family, systems = system_atoms(), clustered(8)
    made, atoms, _ = atom_problem(family, systems)
    point = tuple(leaf[1] for leaf in atoms)

    def value(lam, V, U):  # U leaves the Stiefel manifold: pack says what k is there
        S = family.kernel.pack([(lam[:, None] * V, U)])
        return (family.kernel.cross(S, made.packed) @ made.beta + family.kernel.cross(S, made.others) @ made.gamma)[0]

    numeric = []
    for i, leaf in enumerate(point):
        gradient = np.zeros(leaf.shape)
        for place in np.ndindex(leaf.shape):
            moved = [part.copy() for part in point]
            moved[i][place] += 1e-6
            up = value(*moved)
            moved[i][place] -= 2e-6
            gradient[place] = (up - value(*moved)) / 2e-6
        numeric.append(gradient)
    lam, V, U = point
    expected = [np.clip(lam - RATES[0] * numeric[0], -0.99, 0.99)]
    for X, G, tau in ((V, numeric[1], RATES[1]), (U, numeric[2], RATES[2])):
        W = G @ X.T - X @ G.T
        expected.append(np.linalg.solve(np.eye(len(X)) + tau / 2 * W, X - tau / 2 * W @ X))
    found, spent = family.updated(point, made, 1.0)
    assert spent == 1
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)


def test_an_atom_that_few_data_use_moves_down_the_error_of_all():
    """The first update of an epoch: half the gradient of (9) over all data, by differences, at rates for the whole."""
    data, rates = clustered(20), (0.5, 1.0, 3.0)
    init = Systems(0.9 * data.A[:3], data.C[:3])
    Z = LDSSparseCoder(init, alpha=1.0).fit(data).transform(data)
    assert 0 < (Z[:, 0] != 0).mean() < 0.5
    kernel = ms.get_kernel("projection")
    P = kernel.pack(data)

    def error(lam, V, U):
        D = kernel.pack([(lam[:, None] * V, U), *init[1:]])
        gram, cross = kernel.cross(D, D), kernel.cross(D, P)
        return np.mean([2 - 2 * z @ k + z @ gram @ z for z, k in zip(Z, cross.T, strict=True)])

    point, numeric = canonical_form(init.A[0], init.C[0]), []
    for i, leaf in enumerate(point):
        gradient = np.zeros(leaf.shape)
        for place in np.ndindex(leaf.shape):
            up, down = ([part.copy() for part in point] for _ in range(2))
            up[i][place] += 1e-6
            down[i][place] -= 1e-6
            gradient[place] = (error(*up) - error(*down)) / 4e-6
        numeric.append(gradient)
    expected = [np.clip(point[0] - rates[0] * numeric[0], -0.99, 0.99)]
    for X, G, tau in zip(point[1:], numeric[1:], rates[1:], strict=True):
        W = G @ X.T - X @ G.T
        expected.append(np.linalg.solve(np.eye(len(X)) + tau / 2 * W, X - tau / 2 * W @ X))
    settings = {"n_states": 2, "alpha": 1.0, "method": "pgd", "step_size": rates, "max_iter": 1}
    A, C = LDSDictionaryLearning(3, init=init, **settings).fit(data).systems_[0]
    np.testing.assert_allclose(A, expected[0][:, None] * expected[1], atol=1e-6)
    np.testing.assert_allclose(C, expected[2], atol=1e-6)


def test_memory_of_an_update_is_linear_in_the_outputs():
    """No m × m matrix is formed, as the n³ and m n² of the paper's count demand."""
    rng, peaks = np.random.default_rng(0), []
    for m in (1500, 3000):
        systems = Systems(np.tile(0.5 * np.eye(2), (4, 1, 1)), np.linalg.qr(rng.standard_normal((4, m, 2)))[0])
        model = LDSDictionaryLearning(2, n_states=2, method="pgd", init=systems[:2], max_iter=1, alpha=0.01)
        tracemalloc.start()
        model.fit(systems)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2.5 * peaks[0] and peaks[1] < 8 * 3000**2 / 4


def test_lbfgs_never_raises_the_error():
    family, systems = system_atoms(solver="lbfgs", inner=5), clustered()
    made, atoms, _ = atom_problem(family, systems)
    point = tuple(leaf[1] for leaf in atoms)
    new, _ = family.updated(point, made, 1.0)
    assert family.weighted(new, made)[0] < family.weighted(point, made)[0]
