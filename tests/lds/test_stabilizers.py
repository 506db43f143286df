"""Stabilizers: stable results, the printed formulas, and conditions that only the optimum satisfies."""

import sys

import numpy as np
import pytest
from scipy.optimize import minimize

from manifoldseq_lds import LDSIdentifier
from manifoldseq_lds.identification._stabilizers import STABILIZERS, minimize_quadratic, stabilize

pytest.importorskip("clarabel")

NAMES = [name for name in STABILIZERS if name != "NONE"]
ITERATED = ("WLS", "DWLS", "CG", "LB1", "LB2")
CLOSE = ("CG", "WLS", "DWLS", "MN", "HZP")
"""What obeys the law that the change is at most that of scaling the unstable eigenvalues onto the bound."""


def states(n=4, steps=16, growth=1.06, seed=0):
    """States of a singular value decomposition whose least squares is unstable."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n + 4, steps)).cumsum(axis=1) * growth ** np.arange(steps)
    _, s, Vt = np.linalg.svd(Y, full_matrices=False)
    return s[:n, None] * Vt[:n]


X = np.stack([states(seed=i) for i in range(8)])
A = X[:, :, 1:] @ np.linalg.pinv(X[:, :, :-1])


def radius(M):
    return np.abs(np.linalg.eigvals(M)).max(axis=-1)


def objective(M, X=X):
    """Squared error one step ahead, by a loop."""
    return np.array(
        [
            sum(np.sum((x[:, t + 1] - m @ x[:, t]) ** 2) for t in range(x.shape[1] - 1))
            for m, x in zip(M, X, strict=True)
        ]
    )


def change(M, A, X):
    """The norm |(M - A) X1| that the law is stated in, by a loop over steps."""
    return np.array(
        [
            np.sqrt(sum(np.sum(((m - a) @ x[:, t]) ** 2) for t in range(x.shape[1] - 1)))
            for m, a, x in zip(M, A, X, strict=True)
        ]
    )


def scaled_eigenvalues(a):
    """The matrix with eigenvectors as they are and unstable eigenvalues on the bound."""
    w, V = np.linalg.eig(a)
    return (V @ np.diag(w * np.minimum(1, (1 - 1e-9) / np.abs(w))) @ np.linalg.inv(V)).real


@pytest.fixture(scope="module")
def made():
    assert (radius(A) > 1).sum() >= 6
    return {name: stabilize(name, A, X, 0.99) for name in STABILIZERS}


@pytest.mark.parametrize("name", NAMES)
def test_results_are_stable(made, name):
    assert radius(made[name]).max() < 1
    np.testing.assert_array_equal(made["NONE"], A)


@pytest.mark.parametrize("name", sorted({*ITERATED, *CLOSE}))
def test_what_is_stable_stays(made, name):
    stable = 0.5 * A / np.linalg.norm(A, 2, axis=(1, 2))[:, None, None]
    np.testing.assert_array_equal(stabilize(name, stable, X, 0.99), stable)


def test_least_squares_objectives_are_in_the_order_of_their_feasible_sets(made):
    """CG asks for less than LB1, LB1 for less than SN and clipping; all pay for stability."""
    f = {name: objective(made[name]) for name in STABILIZERS}
    slack = 1 + 1e-7
    assert (f["CG"] <= f["LB1"] * slack).all()
    for name in ("SN", "clip"):
        assert (f["CG"] <= f[name]).all() and (f["LB1"] <= f[name] * slack).all()
    assert all((f[name] >= f["NONE"] * (1 - 1e-12)).all() for name in NAMES)


def test_soft_normalization_and_uniform_are_the_printed_formulas(made):
    for i in range(len(X)):
        U, singular, Vt = np.linalg.svd(A[i])
        np.testing.assert_allclose(made["SN"][i], U @ np.diag(np.tanh(1.25 * singular)) @ Vt, atol=1e-9)
        np.testing.assert_allclose(made["UN"][i], A[i] / 1.5)


@pytest.mark.slow
def test_minimal_and_hzp_go_from_least_squares_towards_the_printed_formulas_until_it_is_stable(made):
    """As far as this changes A less than scaling its unstable eigenvalues does."""
    nearer = 0
    for i in np.flatnonzero(radius(A) > 1):
        s = np.linalg.norm(X[i], axis=1)
        q = np.sum((X[i, :, -1] / s) ** 2)
        V = (X[i] / s[:, None]).T
        printed = {
            "MN": max(1 / (1 + (1 - q) ** -0.5), 1 - q) * A[i],
            "HZP": np.diag(s) @ V[1:].T @ V[:-1] @ np.linalg.inv(np.diag(s)),
        }
        for name, end in printed.items():
            assert radius(end) < 1
            line = A[i] + np.linspace(0, 1, 20001)[:, None, None] * (end - A[i])
            first = line[np.argmax(radius(line) < 1)]
            by_eigenvalues = scaled_eigenvalues(A[i])
            options = [first, A[i] / radius(A[i]), by_eigenvalues]
            best = options[int(np.argmin(change(options, [A[i]] * 3, [X[i]] * 3)))]
            np.testing.assert_allclose(made[name][i], best, atol=2e-3)
            nearer += best is first
    assert nearer >= 5


def damped(n, steps, seed):
    """States of sines in noise, whose least squares is now stable and now a little unstable."""
    rng = np.random.default_rng(seed)
    w, phase = rng.uniform(0.05, 3, (n // 2, 1)), rng.uniform(0, 6, (n // 2, n + 2, 1))
    t = np.arange(steps)
    Y = np.cos(w[:, None] * t + phase).sum(axis=0) + 10.0 ** rng.uniform(-6, -0.5) * rng.standard_normal((n + 2, steps))
    _, s, Vt = np.linalg.svd(Y, full_matrices=False)
    return s[:n, None] * Vt[:n]


@pytest.mark.parametrize("name", CLOSE)
@pytest.mark.parametrize("kind", ["growing", "sines", "sines without noise"])
def test_the_change_is_at_most_that_of_scaling_the_unstable_eigenvalues(name, kind):
    """The constant of the law is 1, up to rounding."""
    for n, steps in ((2, 12), (4, 40), (6, 60)):
        if kind == "growing":
            x = np.stack([states(n, steps, growth, seed) for seed, growth in enumerate((1.0, 1.02, 1.06, 1.1, 1.2))])
        elif kind == "sines":
            x = np.stack([damped(n, steps, seed) for seed in range(8)])
        else:
            phase = np.arange(n + 2)[:, None]
            Y = [sum(np.cos((0.1 + 0.4 * k) * np.arange(steps) + (k + 1) * phase) for k in range(n // 2))]
            x = np.stack([(s[:n, None] * Vt[:n]) for _, s, Vt in [np.linalg.svd(y, full_matrices=False) for y in Y]])
        a = x[:, :, 1:] @ np.linalg.pinv(x[:, :, :-1])
        unstable = radius(a) > 1 - 1e-9
        assert unstable.any()
        found = stabilize(name, a, x, 0.99)
        assert radius(found).max() < 1
        allowed = change(np.stack([scaled_eigenvalues(m) for m in a]), a, x)
        size = change(0 * a, a, x)
        assert (change(found, a, x) <= (1 + 1e-6) * allowed + 1e-14 * size).all()
        np.testing.assert_array_equal(found[~unstable], a[~unstable])


@pytest.mark.parametrize("name", CLOSE)
def test_a_double_eigenvalue_of_one_is_hardly_changed(name):
    """A trend and a sine: eigenvectors are parallel, and scaling one eigenvalue of two would change A by half."""
    t = np.arange(80)
    Y = np.stack([0.1 * t, np.ones(80), np.cos(0.3 * t), np.sin(0.3 * t)])
    _, s, Vt = np.linalg.svd(Y, full_matrices=False)
    x = (s[:, None] * Vt)[None]
    a = x[:, :, 1:] @ np.linalg.pinv(x[:, :, :-1])
    found = stabilize(name, a, x, 0.99)
    assert radius(found).max() < 1
    assert change(found, a, x)[0] < 1e-6 * np.linalg.norm(x)


def test_uniform_divides_again_where_once_is_not_enough():
    fast = 3.0 * np.eye(2)[None]
    np.testing.assert_allclose(stabilize("UN", fast, X[:1, :2], 0.99), fast / 1.5**3)


def test_constraint_generation_ends_at_the_boundary(made):
    """The objective falls towards the last unstable solution, so the result is as near to it as is stable."""
    for name in ("CG", "WLS", "DWLS"):
        edge = radius(made[name])[radius(A) > 1]
        assert (edge > 1 - 1e-3).all() and (edge < 1).all()


def test_one_state_is_clipped_at_one():
    """With one state all of them ask for |a| < 1, and least squares is as near as one can get."""
    x = 1.2 ** np.arange(8.0)[None, None]
    for name in ("CG", "WLS", "DWLS", "LB1"):
        np.testing.assert_allclose(stabilize(name, np.array([[[1.2]]]), x, 0.99), 1, atol=2e-5)


def test_dwls_is_the_weighted_form_of_least_squares(made):
    """``S P (Abar W) P' S^-1`` with W diagonal: Abar^-1 times the result in these coordinates is diagonal."""
    for i in range(len(X)):
        s = np.linalg.norm(X[i], axis=1)
        V = X[i] / s[:, None]
        L, P = np.linalg.eigh(V[:, :-1] @ V[:, :-1].T)
        Abar = P.T @ V[:, 1:] @ V[:, :-1].T @ P / L
        weighted = P.T @ (made["DWLS"][i] / s[:, None] * s) @ P
        W = np.linalg.solve(Abar, weighted)
        np.testing.assert_allclose(W, np.diag(np.diag(W)), atol=1e-6 * np.abs(W).max())


def test_cg_meets_its_optimality_conditions():
    """Against scipy on the same cuts: two states, cuts found by the same rule, the problem solved by SLSQP."""
    x = states(n=2, steps=12, growth=1.1, seed=3)
    least = x[:, 1:] @ np.linalg.pinv(x[:, :-1])

    def f(a):
        return np.sum((x[:, 1:] - a.reshape(2, 2) @ x[:, :-1]) ** 2) / scale

    scale = np.sum(x**2)
    cuts, a, last = [], least.ravel(), least.ravel()
    while radius(a.reshape(2, 2)) > 1 - 1e-9:
        U, _, Vt = np.linalg.svd(a.reshape(2, 2))
        cuts.append(np.outer(U[:, 0], Vt[0]).ravel())
        inequalities = {"type": "ineq", "fun": lambda a: 1 - np.array(cuts) @ a}
        last, a = a, minimize(f, 0.1 * least.ravel(), constraints=inequalities, tol=1e-14, options={"maxiter": 500}).x
    inside = np.linspace(1, 0, 200001)
    path = last + inside[:, None] * (a - last)
    keep = radius(path.reshape(-1, 2, 2)) < 1
    first_unstable = np.argmin(keep) if not keep.all() else len(keep)
    expected = path[first_unstable - 1].reshape(2, 2)
    np.testing.assert_allclose(stabilize("CG", least[None], x[None], 0.99)[0], expected, atol=1e-4)


def test_lb1_is_a_fixed_point_of_projected_gradient(made):
    """Least squares under ``sigma_max <= 1``: a gradient step and clipping of the singular values change nothing."""
    for i in range(len(X)):
        G, h = X[i, :, :-1] @ X[i, :, :-1].T, X[i, :, 1:] @ X[i, :, :-1].T
        step = made["LB1"][i] - (made["LB1"][i] @ G - h) / np.linalg.norm(G, 2)
        U, s, Vt = np.linalg.svd(step)
        np.testing.assert_allclose(made["LB1"][i], U @ np.diag(np.minimum(s, 1)) @ Vt, atol=1e-5)
    assert np.linalg.norm(made["LB1"], 2, axis=(1, 2)).max() <= 1


def test_lb2_of_a_diagonal_system_has_a_closed_form():
    """One number: minimize ``1.2 p - sqrt(p (p - 1))``, so ``a = sqrt(1 - 1 / p)``; another, stable mode stays."""
    for a, steps in ((1.2, 12), (1.05, 12)):
        p = minimize(lambda p, a=a: a * p[0] - np.sqrt(p[0] * (p[0] - 1)), [2.0], bounds=[(1.0001, None)], tol=1e-14).x[
            0
        ]
        x = states(n=2, steps=steps)
        found = stabilize("LB2", np.diag([a, 0.5])[None], x[None], 0.99)[0]
        np.testing.assert_allclose(found, np.diag([np.sqrt(1 - 1 / p), 0.5]), atol=2e-3)


def test_lb2_is_feasible_and_beats_feasible_neighbours():
    """``|Q - A P|`` of random stable Lyapunov pairs near the solution is never smaller."""
    rng = np.random.default_rng(0)
    x = states(n=2, growth=1.1, seed=3)
    least = x[:, 1:] @ np.linalg.pinv(x[:, :-1])
    M = stabilize("LB2", least[None], x[None], 0.99)[0]

    def lowest(M):
        """The least objective over P for a given A = Q P^-1, with P scaled until ``P - A P A' >= I`` is tight."""

        def of(parameters):
            angle, log_ratio = parameters
            R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            P = R @ np.diag([1, np.exp(log_ratio)]) @ R.T
            gap = np.linalg.eigvalsh(P - M @ P @ M.T)[0]
            return np.linalg.norm((M - least) @ P) / gap if gap > 0 else 1e9

        grid = [(angle, ratio) for angle in np.linspace(0, np.pi, 12, endpoint=False) for ratio in np.arange(0, 4, 0.5)]
        return minimize(of, min(grid, key=of), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9}).fun

    value = lowest(M)
    assert np.isfinite(value)
    for _ in range(12):
        near = M + 0.05 * rng.standard_normal((2, 2))
        if radius(near) < 1:
            assert lowest(near) > value * (1 - 1e-5)


def test_semidefinite_program_against_scipy():
    """The smallest ``|x - c|^2`` with ``[[1, x1], [x1, x2]] >= 0``: a parabola ``x2 >= x1^2``."""
    F = np.zeros((2, 2, 2))
    F[0, 0, 1] = F[0, 1, 0] = F[1, 1, 1] = 1
    F0 = np.diag([1.0, 0.0])
    c = np.array([1.5, -0.5])
    found = minimize_quadratic("LB1", np.eye(2), c, F0, F)
    line = minimize(lambda t: (t[0] - c[0]) ** 2 + (t[0] ** 2 - c[1]) ** 2, [0.5], tol=1e-14).x[0]
    np.testing.assert_allclose(found, [line, line**2], atol=1e-5)
    assert np.square(found - c).sum() == pytest.approx(np.square(np.array([line, line**2]) - c).sum(), rel=1e-9)
    with pytest.raises(ValueError, match="the semidefinite program of stabilizer='LB2' ended with"):
        minimize_quadratic("LB2", np.eye(2), c, -F0, 0 * F)


@pytest.mark.parametrize("name", ["LB1", "LB2"])
def test_without_the_solver_one_sentence_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    sequences = [x.T for x in X]
    with pytest.raises(ImportError, match=rf"stabilizer='{name}' .* clarabel, .*`pip install 'manifoldseq-lds\[sdp\]'"):
        LDSIdentifier(4, stabilizer=name).fit(sequences)
    assert LDSIdentifier(4, stabilizer="CG").fit_transform(sequences).A.shape == (8, 4, 4)


@pytest.mark.parametrize("name", NAMES)
def test_missing_directions_stay_zero_states(name):
    """A growing sequence in one dimension, identified with three states; and one that is at rest."""
    line = np.outer(1.1 ** np.arange(10), [1.0, 2.0, 2.0])
    found = LDSIdentifier(3, center=False, scale=False, stabilizer=name).fit_transform([line, np.zeros((10, 3))])
    assert radius(found.A).max() < 1
    np.testing.assert_allclose(found.A[0].ravel()[1:], 0, atol=1e-8)
    np.testing.assert_array_equal(found.A[1], 0)


@pytest.mark.parametrize("name", ["NONE", None])
def test_marginal_least_squares_raises_an_error(name):
    turn = np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    Y = [np.linalg.matrix_power(turn, t) @ [1.0, 0.0] * 1.00001**t for t in range(40)]
    with pytest.raises(ValueError, match=r"^system 0 is unstable: A has spectral radius 1, .* with LDSIdentifier"):
        LDSIdentifier(2, center=False, stabilizer=name).fit_transform([np.array(Y)])


@pytest.mark.parametrize("name", NAMES)
def test_every_stabilizer_through_the_estimator(name):
    rng = np.random.default_rng(1)
    Y = [1.05 ** np.arange(20)[:, None] * rng.standard_normal((20, 5)).cumsum(axis=0) for _ in range(3)]
    systems = LDSIdentifier(3, stabilizer=name).fit_transform(Y)
    assert radius(systems.A).max() < 1
    assert LDSIdentifier(3, stabilizer=name).fit(Y).simulate(systems, 400, noise=False).max() < 1e3
