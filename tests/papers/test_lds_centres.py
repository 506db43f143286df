"""Centre rules that the paper compares its mean with: Algorithm 1 at fixed rates, alignment, embedding, subspaces."""

import numpy as np
import pytest
from lds.clusterings import CLASSES, generated, oscillations, projection
from scipy.linalg import orth, solve_discrete_lyapunov, subspace_angles
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms
from manifoldseq_lds import LDSKMeans, Systems
from manifoldseq_lds.systems._record import change_state_basis
from manifoldseq_papers import AlignMean, FixedSteps, GrassMean, MDSMean
from manifoldseq_papers.lds._centre_baselines import ROTATIONS, aligning_rotations, nearest_to_the_mean
from manifoldseq_papers.lds._observability import subspace_mean

RULES = {
    "printed": FixedSteps(),
    "toolbox": FixedSteps(1.0, rescale=True),
    "align": AlignMean(),
    "mds": MDSMean(),
    "grass": GrassMean(),
}


def alignment_cost(A, C, A0, C0, Q):
    """Return ``norm(Q'AQ - A0)**2 + norm(CQ - C0)**2``, of every system or of one."""
    norms = (np.linalg.norm(gap, axis=(-2, -1)) for gap in (Q.swapaxes(-1, -2) @ A @ Q - A0, C @ Q - C0))
    return sum(norm**2 for norm in norms)


@pytest.mark.parametrize("mean", RULES)
def test_every_rule_finds_the_classes_by_name_and_as_an_object(mean):
    settings = {"n_init": 2, "max_iter": 10, "random_state": 0}
    fitted = LDSKMeans(CLASSES, mean=f"papers:{mean}", **settings).fit(generated())
    assert adjusted_rand_score(np.arange(30) % CLASSES, fitted.labels_) == 1
    Systems(fitted.systems_.A, fitted.systems_.C)  # stable, orthonormal
    given = LDSKMeans(CLASSES, mean=RULES[mean], **settings).fit(generated())
    np.testing.assert_array_equal(given.systems_.A, fitted.systems_.A)


@pytest.mark.parametrize("mean", RULES)
def test_kernels_with_moments_ask_for_another_rule(mean):
    fit = LDSKMeans(2, n_states=2, moments="size", mean=mean, random_state=0, n_init=1, max_iter=2).fit
    if mean == "mds":
        assert fit(oscillations()).systems_.moments is not None
        return
    with pytest.raises(ValueError, match=f"mean='{mean}' is not defined with moments='size'"):
        fit(oscillations())


@pytest.mark.parametrize("mean", ["align", "grass", "mds"])
def test_the_centre_of_equivalent_copies_is_the_system(mean):
    item = generated(N=1, noise=0.3)[0]
    copies = Systems.from_items([item, change_state_basis(item), item])
    fitted = LDSKMeans(1, mean=mean).fit(copies)
    assert projection(fitted.systems_[0], item) == pytest.approx(3, abs=1e-5)


@pytest.mark.parametrize("mean", ["align", "mds", "grass"])
def test_duplicates_and_a_single_system(mean):
    one = generated(N=1)
    assert LDSKMeans(1, mean=mean).fit(one).mean_kernel_value_ == pytest.approx(3, abs=1e-6)
    with pytest.warns(ConvergenceWarning, match="2 clusters have 1 different centres"):
        fitted = LDSKMeans(2, mean=mean, random_state=0, max_iter=4).fit(one[[0] * 5])
    assert np.bincount(fitted.labels_, minlength=2).all()


def test_conformance():
    ms.testing.check_sequence_estimator(LDSKMeans(3, n_states=3, mean="papers:align")).raise_for_failure()


def naive_toolbox(data, labels, epochs):
    """The authors' rule, one pair at a time: Sylvester-type solves, five steps at 0.1 and 1 on -(1/N) sum k."""

    def stein(A1, A2, Q):
        n = len(Q)
        return np.linalg.solve(np.eye(n * n) - np.kron(A1.T, A2.T), Q.ravel()).reshape(n, n)

    def kernel(x, y):
        (A1, C1), (A2, C2) = x, y
        G = stein(A1, A2, C1.T @ C2)
        G1, G2 = (solve_discrete_lyapunov(A.T, C.T @ C) for A, C in (x, y))
        return float(np.trace(np.linalg.inv(G1) @ G @ np.linalg.inv(G2) @ G.T))

    def cayley(X, g, tau):
        W = g @ X.T - X @ g.T
        eye = np.eye(len(X))
        return np.linalg.solve(eye + tau / 2 * W, (eye - tau / 2 * W) @ X)

    def descend(lam, V, U, members, h=1e-6):
        def cost(lam, V, U):
            return -np.mean([kernel((np.diag(lam) @ V, U), x) for x in members])

        for _ in range(5):
            g = []
            for part in range(3):
                x = [lam, V, U]
                grad = np.zeros_like(x[part])
                for index in np.ndindex(grad.shape):
                    e = np.zeros_like(grad)
                    e[index] = h
                    up, down = ([*x[:part], x[part] + s * e, *x[part + 1 :]] for s in (1, -1))
                    grad[index] = (cost(*up) - cost(*down)) / (2 * h)
                g.append(grad)
            lam = lam - 0.1 * g[0]
            lam = lam * 0.999 / max(0.999, np.abs(lam).max())
            V, U = cayley(V, g[1], 0.1), cayley(U, g[2], 1.0)
        return lam, V, U

    items = [(A, C) for A, C in data]
    centres, K = [], labels.max() + 1
    for k in range(K):
        members = [items[i] for i in np.flatnonzero(labels == k)]
        A, C = members[int(np.argmax([sum(kernel(a, b) for b in members) for a in members]))]
        W, s, Zt = np.linalg.svd(A)
        centres.append((s, Zt @ W, C @ W))
    objective = []
    for _ in range(epochs):
        centres = [descend(*c, [items[i] for i in np.flatnonzero(labels == k)]) for k, c in enumerate(centres)]
        values = np.array([[kernel((np.diag(lam) @ V, U), x) for lam, V, U in centres] for x in items])
        labels = values.argmax(axis=1)
        objective.append(values.max(axis=1).mean())
    return labels, objective


def test_the_toolbox_rule_agrees_with_a_naive_loop():
    data = generated(N=7, m=4, n=2, noise=0.4, seed=1)
    start = np.array([0, 1, 0, 1, 0, 1, 0])
    labels, objective = naive_toolbox(data, start, epochs=2)
    fitted = LDSKMeans(2, mean="papers:toolbox", init=start, max_iter=2, tol=0).fit(data)
    np.testing.assert_array_equal(fitted.labels_, labels)
    np.testing.assert_allclose(fitted.history_["mean_kernel_value"][1:], objective, rtol=1e-7)


@pytest.mark.parametrize("start", ROTATIONS)
def test_rotations_align_rotated_copies(start):
    rng = np.random.default_rng(0)
    A, C = generated(N=1, n=4)[0][:2]
    P = np.linalg.qr(rng.standard_normal((8, 4, 4)))[0]
    turned = P.swapaxes(1, 2) @ A @ P, C @ P
    Q = aligning_rotations(*turned, A, C, rate=0.2, n_steps=100, start=start)
    np.testing.assert_allclose(Q.swapaxes(1, 2) @ Q, np.broadcast_to(np.eye(4), Q.shape), atol=1e-10)
    costs = alignment_cost(*turned, A, C, Q)
    assert np.median(costs) < 1e-6
    if start != "printed":  # -Q has the determinant of Q: half of the rotations are out of its reach
        np.testing.assert_allclose(Q, P.swapaxes(1, 2), atol=1e-3)


def test_alignment_steps_down_the_gradient_of_its_cost():
    """One step from a start is the Cayley step along half the gradient, here by central differences."""
    rng = np.random.default_rng(1)
    systems = generated(N=2, n=3, noise=0.5)
    (A, C), (A0, C0) = ((a, c) for a, c in systems)
    Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    gradient = np.zeros((3, 3))
    for index in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[index] = 1e-6
        up, down = (alignment_cost(A, C, A0, C0, Q + sign * step) for sign in (1, -1))
        gradient[index] = (up - down) / 2e-6
    expected = ms.linalg.cayley(Q, gradient / 2, 0.1)
    reduced = -(A @ Q @ A0.T + A.T @ Q @ A0 + C.T @ C0)
    np.testing.assert_allclose(ms.linalg.cayley(Q, reduced, 0.1), expected, atol=1e-8)
    near = ms.linalg.polar(C.T @ C0)  # one step of the rule from its start
    gradient = np.zeros((3, 3))
    for index in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[index] = 1e-6
        up, down = (alignment_cost(A, C, A0, C0, near + sign * step) for sign in (1, -1))
        gradient[index] = (up - down) / 2e-6
    stepped = aligning_rotations(A[None], C[None], A0, C0, rate=0.1, n_steps=1, start="polar")[0]
    np.testing.assert_allclose(stepped, ms.linalg.cayley(near, gradient / 2, 0.1), atol=1e-8)
    moved = aligning_rotations(A[None], C[None], A0, C0, rate=0.05, n_steps=50)
    still = aligning_rotations(A[None], C[None], A0, C0, rate=0.05, n_steps=0)
    assert alignment_cost(A, C, A0, C0, moved[0]) < alignment_cost(A, C, A0, C0, still[0])


@pytest.mark.parametrize("seed", range(5))
def test_embedding_agrees_with_the_definition(seed):
    """Coordinates from double centring, and the row nearest to their mean, by loops."""
    rng = np.random.default_rng(seed)
    D = rng.uniform(0.5, 2, (12, 12))
    D = np.triu(D, 1) + np.triu(D, 1).T  # no metric: some eigenvalues are negative
    J = np.eye(12) - 1 / 12
    w, W = np.linalg.eigh(-J @ D**2 @ J / 2)
    for n_components in (3, None):
        kept = [i for i in np.argsort(-w)[:n_components] if w[i] > 0]
        X = np.stack([np.sqrt(w[i]) * W[:, i] for i in kept], axis=1)
        expected = min(range(12), key=lambda i: np.linalg.norm(X[i] - X.mean(axis=0)))
        assert nearest_to_the_mean(D**2, n_components) == expected


@pytest.mark.parametrize("seed", range(10))
def test_embedding_of_a_positive_kernel_gives_the_medoid(seed):
    data = generated(N=15, noise=0.6, seed=seed)
    kernel = ms.get_kernel("projection")
    K = kernel.cross(kernel.pack(data), kernel.pack(data))
    assert nearest_to_the_mean(2 * (3 - K)) == K.sum(axis=1).argmax()


def test_mds_means_are_members_chosen_by_martin_distances():
    data = generated(noise=0.4)
    fitted = LDSKMeans(2, mean=MDSMean(), kernel="martin-rbf", n_init=1, max_iter=5, random_state=0).fit(data)
    for k, centre in enumerate(fitted.systems_):
        rows = np.flatnonzero(fitted.labels_ == k)
        assert max(projection(centre, data[i]) for i in rows) == pytest.approx(3, abs=1e-6)


def test_grass_mean_is_the_leading_subspace():
    data = generated(N=6, noise=0.2)[[0, 3]]
    bases = [orth(np.vstack([C, C @ A, C @ A @ A])) for A, C in data]
    W = np.linalg.eigh(sum(basis @ basis.T for basis in bases))[1][:, -3:]
    A, C = subspace_mean(data.A, data.C, 3)
    shift = np.linalg.lstsq(W[:16], W[8:], rcond=None)[0]
    np.testing.assert_allclose(np.trace(A), np.trace(shift), atol=1e-8)
    assert subspace_angles(C, W[:8]).max() < 1e-6


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: AlignMean(rate=0), "rate=0"),
        (lambda: AlignMean(start="best"), "start='best'"),
        (lambda: AlignMean(n_steps=-1), "n_steps=-1"),
        (lambda: GrassMean(1), "n_steps=1"),
        (lambda: MDSMean(0), "n_components=0"),
    ],
)
def test_settings_of_rules_are_checked(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_rules_are_stored_with_the_model(tmp_path):
    fitted = LDSKMeans(2, n_states=2, mean=AlignMean(rate=0.3), random_state=0).fit(oscillations())
    ms.storage.save_model(fitted, tmp_path)
    again = ms.storage.load_model(tmp_path)
    assert again.mean == AlignMean(rate=0.3)
    np.testing.assert_array_equal(again.predict(oscillations()), fitted.labels_)
