"""Estimators: conventions, features, the way back, bad input."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import parametrize
from hope.problems import clusters, likelihood, unit
from scipy.linalg import null_space
from scipy.sparse import coo_array, csr_array, csr_matrix
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV

import manifoldseq as ms
from manifoldseq_hope import HOPE, PCAMovMF, SphericalKMeans, VonMisesFisherMixture, von_mises_fisher

X = clusters(240, 8, K=6, spread=0.4)


@parametrize(
    "estimator",
    [HOPE(), HOPE(family="gmm"), HOPE(family="gmm-full"), VonMisesFisherMixture(), PCAMovMF(), SphericalKMeans()],
    fast=2,
    ids=["hope", "gmm", "gmm-full", "vmf", "pca", "spherical"],
)
@pytest.mark.filterwarnings("ignore:row .* of X is all zeros")  # among sparse ones
def test_conventions(estimator):
    ms.testing.check_estimator(estimator).raise_for_failure()


@pytest.mark.parametrize("family", ["movmf", "gmm"])
def test_features_are_a_pruned_likelihood(family):
    """(37)-(39), and the exact value of the approximate likelihood."""
    model = HOPE(6, n_latent=4, family=family, random_state=0).fit(X)
    phi, eta, eps = model.log_contributions(X), model.transform(X), model.threshold_
    np.testing.assert_allclose(eta, np.maximum(phi - eps, 0), atol=1e-12)
    assert np.mean(eta > 0) == pytest.approx(0.05, abs=0.01)
    pruned = np.log(np.exp(np.maximum(phi, eps)).sum(axis=1))
    np.testing.assert_allclose(eps + np.log(np.exp(eta).sum(axis=1)), pruned, rtol=1e-12)
    assert (pruned >= np.logaddexp.reduce(phi, axis=1) - 1e-12).all()
    assert HOPE(6, n_latent=4, family=family, threshold=-3.0, random_state=0).fit(X).threshold_ == -3
    assert eta.dtype == float and model.transform(X.astype(np.float32)).dtype == np.float32


def test_layer_without_normalization_is_a_relu_layer():
    """Footnote 4 and section 5.1: w_k = U' mu_k, b_k = ln pi_k + ln C_M - eps."""
    from manifoldseq_hope import log_normalizer

    model = HOPE(6, n_latent=4, normalize_z=False, random_state=0).fit(X)
    (mu,) = model.parameters_
    bias = np.log(model.weights_) + log_normalizer(4, model.concentrations_) - model.threshold_
    relu = np.maximum(unit(X) @ (mu @ model.components_).T + bias, 0)
    np.testing.assert_allclose(model.transform(X), relu, atol=1e-9)
    layer = model.to_relu_layer()
    rows = unit(X).astype(np.float32)
    for made in (layer, layer.merged()):
        np.testing.assert_allclose(np.maximum(made(rows), 0), model.transform(X.astype(np.float32)), atol=1e-5)
    assert layer.n_inputs == 8 and layer.merged().weight.shape == (6, 8)
    with pytest.raises(ValueError, match=r"to_relu_layer cannot scale z to unit length .*normalize_z=False"):
        HOPE(6, n_latent=4, random_state=0).fit(X).to_relu_layer()
    with pytest.raises(ValueError, match="to_rbf_layer requires components that are Gaussians"):
        model.to_rbf_layer()


def test_gaussian_layer_is_a_radial_layer():
    """Footnote 5."""
    model = HOPE(6, n_latent=4, family="gmm", random_state=0).fit(X)
    z = model.project(X)
    apart = (z[:, None] - model.means_) ** 2 / model.covariances_
    height = np.log(model.weights_) - 0.5 * np.log(2 * np.pi * model.covariances_).sum(axis=1)
    expected = np.maximum(height - 0.5 * apart.sum(axis=2) - model.threshold_, 0)
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-9)
    centres, scales, heights = model.to_rbf_layer()
    z = (X - model.mean_) @ model.components_.T
    radial = heights - 0.5 * np.sum((z[:, None] - centres) ** 2 / scales, axis=2)
    np.testing.assert_allclose(np.maximum(radial, 0), model.transform(X), atol=1e-9)
    with pytest.raises(ValueError, match="diagonal covariances: fit with family='gmm'"):
        HOPE(6, n_latent=4, family="gmm-full", random_state=0).fit(X).to_rbf_layer()


@pytest.mark.parametrize("family", ["movmf", "gmm", "gmm-full"])
def test_trilateration(family):
    """Figure 2: K > M features locate z; the way back gives the signal part (4)."""
    model = HOPE(6, n_latent=2, family=family, threshold=-1e4, random_state=0).fit(X)
    z = model.project(X)
    z = unit(z) if family == "movmf" else z
    np.testing.assert_allclose(model.locate(model.transform(X)), z, atol=1e-6)
    rows = model.inverse_transform(model.transform(X))
    np.testing.assert_allclose(rows, z @ model.components_ + (0 if model.mean_ is None else model.mean_), atol=1e-6)
    assert np.isfinite(model.locate(np.zeros((2, 6)))).all()


@pytest.mark.parametrize("family", ["movmf", "gmm"])
def test_trilateration_leaves_out_what_is_zero(family):
    """Figure 2: a component that is far has the feature zero, which says nothing of its distance."""
    model = HOPE(6, n_latent=2, family=family, random_state=0).fit(X)
    model.threshold_ = np.sort(model.log_contributions(X), axis=1)[:, -4].min() - 1e-3  # four are near every row
    eta, z = model.transform(X), model.project(X)
    assert np.sum(eta == 0) > 50
    np.testing.assert_allclose(model.locate(eta), unit(z) if family == "movmf" else z, atol=1e-6)


def test_noise_has_mean_zero_as_rows_are_centred():
    """Footnote 1."""
    moved = X + np.linspace(1, 8, 8)
    model = HOPE(6, n_latent=4, family="gmm", random_state=0).fit(moved)
    rows, U = X - X.mean(axis=0), model.components_
    rest = rows - rows @ U.T @ U
    np.testing.assert_allclose(rest.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(model.residual_energy(moved), np.sum(rest**2, axis=1), atol=1e-9)
    np.testing.assert_allclose(model.project(moved).mean(axis=0), 0, atol=1e-9)
    axes = np.linalg.svd(rows, full_matrices=False)[2]  # none is spent on the mean
    share = np.sum((rows @ axes[4:].T) ** 2) / np.sum(rows**2)
    assert share <= model.residual_share_ * (1 + 1e-9) < 2 * share


@pytest.mark.parametrize(
    ("family", "prepare"),
    [("movmf", "unit"), ("movmf", None), ("movmf", "center"), ("gmm", "center"), ("gmm-full", "center")],
)
def test_draws_have_the_likelihood_of_the_data(family, prepare):
    model = HOPE(6, n_latent=4, family=family, prepare=prepare, random_state=0).fit(X)
    rows, labels = model.sample(4000, random_state=1)
    assert rows.shape == (4000, 8)
    np.testing.assert_allclose(np.bincount(labels, minlength=6) / 4000, model.weights_, atol=0.03)
    assert model.score(rows) == pytest.approx(model.score(X), abs=0.6)
    if prepare == "unit":
        np.testing.assert_allclose(np.sum(rows**2, axis=1), 1, atol=1e-12)
    energy = model.residual_energy(X).mean()
    assert model.residual_energy(rows).mean() == pytest.approx(energy, rel=0.05 if prepare else 0.15)


@pytest.mark.parametrize("family", ["movmf", "gmm"])
def test_rows_are_a_signal_and_noise_across_it(family):
    """(1)-(3) in a basis that completes U: of the data, and of rows drawn from the model."""
    model = HOPE(6, n_latent=4, family=family, random_state=0).fit(X)
    U, V = model.components_, null_space(model.components_).T
    rows = unit(X) if family == "movmf" else X - X.mean(axis=0)
    z, n = model.project(X), rows @ V.T
    np.testing.assert_allclose(z, rows @ U.T, atol=1e-12)
    np.testing.assert_allclose(z @ U + n @ V, rows, atol=1e-12)
    np.testing.assert_allclose(model.residual_energy(X), np.sum(n**2, axis=1), atol=1e-12)
    drawn = model.sample(4000, random_state=1)[0] - (0 if family == "movmf" else X.mean(axis=0))
    z, n = drawn @ U.T, drawn @ V.T
    assert np.mean(n**2) == pytest.approx(np.mean((rows @ V.T) ** 2), rel=0.05)
    if family == "movmf":  # of unit rows
        np.testing.assert_allclose(np.sum(z**2, axis=1) + np.sum(n**2, axis=1), 1, atol=1e-10)
    else:
        energy = model.weights_ @ (model.means_**2 + model.covariances_)
        np.testing.assert_allclose(np.mean(z**2, axis=0), energy, rtol=0.1)


@pytest.mark.parametrize("family", ["gmm", "gmm-full"])
def test_likelihood_of_a_row_is_its_density_by_scipy(family):
    """(6), (8), (11), (38): a mixture of normal distributions of x, each with the noise in its covariance."""
    model = HOPE(6, n_latent=4, family=family, random_state=0).fit(X)
    U = model.components_
    rest = model.noise_variance_ * (np.eye(8) - U.T @ U)
    spread = [np.diag(S) if S.ndim == 1 else S for S in model.covariances_]
    parts = [
        multivariate_normal(model.mean_ + m @ U, U.T @ S @ U + rest).logpdf(X)
        for m, S in zip(model.means_, spread, strict=True)
    ]
    expected = logsumexp(parts, axis=0, b=model.weights_[:, None])
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-9)
    assert model.log_likelihood_ == pytest.approx(expected.mean(), rel=1e-9)


def test_residual_energy_and_likelihood():
    model = HOPE(6, n_latent=4, random_state=0).fit(X)
    rows, U = unit(X), model.components_
    energy = np.sum(rows**2, axis=1) - np.sum((rows @ U.T) ** 2, axis=1)  # (20)
    np.testing.assert_allclose(model.residual_energy(X), energy, atol=1e-12)
    assert model.residual_share_ == pytest.approx(energy.mean())
    assert model.log_likelihood_ == pytest.approx(likelihood(model, X))
    assert model.score(3 * X) == pytest.approx(model.score(X))  # rows are brought to unit length


def test_score_is_a_density_of_rows():
    """Its exponential integrates to one, over the plane and over the sphere of three dimensions."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 2)) @ [[2.0, 0.5], [0.0, 0.4]] + [2.0, 1.0]
    axis = np.linspace(-25, 25, 501)
    plane = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    for M, prepare in [(1, None), (2, "center")]:
        model = HOPE(2, n_latent=M, prepare=prepare, random_state=0).fit(rows)
        total = np.exp(model.score_samples(plane + 1e-3)).sum() * 0.1**2
        assert total == pytest.approx(1, abs=0.03), (M, prepare)
    rows = rng.standard_normal((300, 3)) * [1.0, 1.0, 0.5] + [1.0, 0.0, 0.3]
    height, turn = (np.arange(200) + 0.5) / 100 - 1, 2 * np.pi * (np.arange(200) + 0.5) / 200
    z, phi = (part.ravel() for part in np.meshgrid(height, turn))  # equal areas
    across = np.sqrt(1 - z * z)
    sphere = np.column_stack([across * np.cos(phi), across * np.sin(phi), z])
    for model in (HOPE(2, n_latent=1), HOPE(2, n_latent=2), VonMisesFisherMixture(2)):
        density = model.set_params(random_state=0).fit(rows).score_samples(sphere)
        assert 4 * np.pi * np.exp(density).mean() == pytest.approx(1, abs=0.03), model


@parametrize(("M", "prepare"), [(1, None), (2, None), (2, "center"), (1, "unit"), (2, "unit"), (3, "unit")], fast=2)
def test_score_is_a_density_also_of_z_as_it_is(M, prepare):
    """Without (30) a component is one of directions given |z|; rows that are drawn have that density."""
    rng = np.random.default_rng(0)
    D = 3 if prepare == "unit" else 2
    rows = rng.standard_normal((300, D)) * [0.3, 0.2, 0.3][:D] + [0.3, 0.5, 0.2][:D]
    model = HOPE(2, n_latent=M, prepare=prepare, normalize_z=False, random_state=0).fit(rows)
    if prepare == "unit":
        height, turn = (np.arange(300) + 0.5) / 150 - 1, 2 * np.pi * (np.arange(300) + 0.5) / 300
        height, turn = (part.ravel() for part in np.meshgrid(height, turn))
        across, area = np.sqrt(1 - height * height), 4 * np.pi / 300**2
        grid = np.column_stack([across * np.cos(turn), across * np.sin(turn), height])
    else:
        axis, area = np.linspace(-3, 3, 601) + 1e-4, 0.01**2
        grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    mass = area * np.exp(model.score_samples(grid))
    assert mass.sum() == pytest.approx(1, abs=0.02)
    drawn, labels = model.sample(20_000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=0), mass @ grid, atol=0.02)
    np.testing.assert_allclose(drawn.T @ drawn / 20_000, (grid.T * mass) @ grid, atol=0.02)
    share = model.predict_proba(drawn)[:, 0]
    assert np.mean(labels == 0) == pytest.approx(share.mean(), abs=0.02)


@pytest.mark.parametrize("family", ["gmm", replace(von_mises_fisher(), names=("direction",))], ids=["gmm", "own"])
def test_score_says_where_it_is_no_density(family):
    unit_z = family == "gmm"
    model = HOPE(4, n_latent=3, family=family, normalize_z=unit_z, kappa=9.0, random_state=0).fit(X)
    for criterion in (model.score, model.bic, model.aic):
        with pytest.warns(UserWarning, match=f"score is not a density .* over the z of normalize_z={unit_z}"):
            assert np.isfinite(criterion(X))


@pytest.mark.parametrize("prepare", [None, "center"])
def test_score_follows_the_unit_of_the_rows(prepare):
    settings = dict(n_latent=4, prepare=prepare, tol=0.0, max_iter=15, random_state=0)
    value = HOPE(6, **settings).fit(X).score(X)
    for c in (1 / 64, 64.0):  # powers of two: the same steps
        assert HOPE(6, **settings).fit(c * X).score(c * X) == pytest.approx(value - 8 * np.log(c), abs=1e-9)


@pytest.mark.parametrize(("prepare", "scale"), [(None, 0.02), (None, 50.0), ("unit", 1.0)])
@pytest.mark.filterwarnings("ignore:X has .* different directions? for n_components")
def test_score_chooses_the_dimension(prepare, scale):
    rng = np.random.default_rng(1)
    z = 4 * unit(rng.standard_normal((6, 4)))[rng.integers(6, size=1600)] + 0.7 * rng.standard_normal((1600, 4))
    rows = z @ np.linalg.qr(rng.standard_normal((12, 4)))[0].T + 0.5 * rng.standard_normal((1600, 12))
    train, held = scale * rows[:800], scale * rows[800:]
    models = {M: HOPE(6, n_latent=M, prepare=prepare, random_state=0).fit(train) for M in (1, 2, 3, 4, 5, 6, 9)}
    assert max(models, key=lambda M: models[M].score(held)) == 4
    assert min(models, key=lambda M: models[M].bic(train)) == 4


def test_pca_comes_first_and_stays():
    model = PCAMovMF(6, n_latent=4, random_state=0).fit(X)
    rows = unit(X)
    axes = np.linalg.svd(rows, full_matrices=False)[2][:4]
    np.testing.assert_allclose(np.abs(model.components_ @ axes.T), np.eye(4), atol=1e-8)
    joint = HOPE(6, n_latent=4, solver="em", noise_variance=model.noise_variance_, tol=1e-7, random_state=0).fit(X)
    assert joint.log_likelihood_ > model.log_likelihood_


def test_spherical_kmeans_against_a_loop():
    rows = unit(X)
    model = SphericalKMeans(6, n_init=3, random_state=0).fit(X)
    centres = model.cluster_centers_
    labels = (rows @ centres.T).argmax(axis=1)
    np.testing.assert_array_equal(model.labels_, labels)
    for k in range(6):
        mean = rows[labels == k].sum(axis=0)
        np.testing.assert_allclose(centres[k], mean / np.linalg.norm(mean), atol=1e-6)
    assert model.inertia_ == pytest.approx(np.sum(1 - np.max(rows @ centres.T, axis=1)))
    assert np.diff(model.history_["fun"]).max() <= 1e-12
    np.testing.assert_allclose(model.transform(X), np.maximum(rows @ centres.T, 0), atol=1e-12)


@pytest.mark.parametrize(
    "make", [lambda: HOPE(6, n_latent=4), lambda: HOPE(6, n_latent=4, family="gmm"), lambda: PCAMovMF(6, n_latent=4)]
)
def test_saved_models_come_back(make, tmp_path):
    model = make().set_params(random_state=0).fit(X)
    ms.storage.save_model(model, tmp_path)
    again = ms.storage.load_model(tmp_path)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.score(X) == model.score(X)


@pytest.mark.parametrize("M", [1, 8])
@pytest.mark.parametrize("K", [1, 6])
@pytest.mark.parametrize("family", ["movmf", "gmm", "gmm-full"])
@pytest.mark.filterwarnings("ignore:X has .* different directions? for n_components")
def test_extreme_sizes(M, K, family):
    model = HOPE(K, n_latent=M, family=family, max_iter=5, random_state=0).fit(X)
    assert np.isfinite(model.score_samples(X)).all() and np.isfinite(model.sample(5, 0)[0]).all()
    assert model.transform(X).shape == (240, K)


def test_rows_of_zeros():
    rows = X.copy()
    rows[7] = 0
    with pytest.warns(UserWarning, match=r"row 7 of X is all zeros \(1 of 240 rows are\)"):
        model = HOPE(6, n_latent=4, random_state=0).fit(rows)
    with pytest.warns(UserWarning, match="row 7"):
        assert SphericalKMeans(3, random_state=0).fit(rows).labels_.shape == (240,)
    alone = HOPE(6, n_latent=4, random_state=0).fit(np.delete(rows, 7, axis=0))
    np.testing.assert_allclose(model.weights_, alone.weights_)
    assert np.isfinite(model.transform(rows)).all() and not model.project(rows)[7].any()
    with pytest.warns(UserWarning, match="row 7"):  # fit_transform is fit, then transform of the same rows
        assert HOPE(6, n_latent=4, random_state=0).fit_transform(rows).shape == (240, 6)
    with pytest.raises(ValueError, match="every row of X is all zeros"):
        HOPE(6, n_latent=4).fit(np.zeros((20, 8)))
    with pytest.raises(ValueError, match="row 7 of X is all zeros"):
        ms.get_model("hope.movmf").problem(rows)


@pytest.mark.parametrize(
    "estimator",
    [HOPE(3, n_latent=4), HOPE(3, n_latent=4, family="gmm"), VonMisesFisherMixture(3), PCAMovMF(3, n_latent=4)],
)
def test_rows_of_zeros_have_no_likelihood_where_directions_are_modelled(estimator):
    model = estimator.set_params(random_state=0, max_iter=5).fit(X)
    rows = X.copy()
    rows[[7, 9]] = 0
    assert np.isfinite(model.predict_proba(rows)).all() and len(model.predict(rows)) == 240  # as scikit-learn asks
    for method in (model.score_samples, model.score, model.log_contributions):
        if model.mean_ is not None:
            assert np.isfinite(method(rows)).all()
            continue
        with pytest.raises(
            ValueError, match=r"row 7 of X is all zeros \(2 of 240 rows are\) and has no direction: remove it"
        ):
            method(rows)


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (HOPE(n_latent=9), "n_latent=9 exceeds n_features=8: lower n_latent"),
        (HOPE(241, n_latent=4), "n_components=241 exceeds n_samples=240: lower n_components"),
        (HOPE(0, n_latent=1), "n_components=0 is not valid"),
        (HOPE(family="poisson"), "family='poisson' is not known"),
        (HOPE(prepare="whiten"), "prepare='whiten' is not known"),
        (HOPE(noise_variance="free"), "noise_variance='free' is not valid"),
        (HOPE(noise_variance=-1.0), r"noise_variance=-1\.0 is not valid"),
        (HOPE(init="ica"), "init='ica' is not known"),
        (HOPE(n_latent=4, init=np.ones((4, 8))), "init has shape"),
        (HOPE(solver="newton"), "unknown solver 'newton'"),
        (HOPE(solver_options={"step_size": 1}), "solver_options="),
        (HOPE(quantile=2.0), r"quantile=2\.0 is not valid"),
        (HOPE(kappa="one"), "kappa='one' is not valid"),
        (PCAMovMF(solver="newton"), "unknown solver 'newton'"),
        (SphericalKMeans(241), "n_clusters=241 exceeds n_samples=240"),
        (SphericalKMeans(threshold=2), "threshold=2 is not valid"),
    ],
)
def test_errors(estimator, words):
    with pytest.raises(ValueError, match=words):
        estimator.fit(X)


def test_nan_raises_an_error():
    rows = X.copy()
    rows[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        HOPE().fit(rows)
    with pytest.raises(ValueError, match="row 3 of X has NaN or infinity"):
        ms.get_model("hope.gmm").problem(rows)
    with pytest.raises(ValueError, match="zero"):
        HOPE().fit(X, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="eta has shape"):
        HOPE(6, n_latent=4, random_state=0).fit(X).locate(np.zeros((2, 5)))


@pytest.mark.parametrize(("family", "covariance_type"), [("gmm", "diag"), ("gmm-full", "full")])
def test_criteria_are_those_of_scikit_learn(family, covariance_type):
    """With M = D nothing is projected away: a Gaussian mixture, of rotated rows where it is diagonal."""
    model = HOPE(3, n_latent=8, family=family, random_state=0).fit(X)
    peer = GaussianMixture(3, covariance_type=covariance_type)
    means, covariances = model.means_, model.covariances_
    factors = 1 / np.sqrt(covariances) if family == "gmm" else np.linalg.cholesky(np.linalg.inv(covariances))
    peer.weights_, peer.means_, peer.covariances_, peer.precisions_cholesky_ = (
        model.weights_,
        means,
        covariances,
        factors,
    )
    rotated = (X - model.mean_) @ model.components_.T
    turns = 8 * 7 / 2 if family == "gmm" else 0  # the rotation that makes the covariances diagonal is learned too
    assert model.aic(X) == pytest.approx(peer.aic(rotated) + 2 * turns, rel=1e-9)
    assert model.bic(X) == pytest.approx(peer.bic(rotated) + turns * np.log(len(X)), rel=1e-9)


@pytest.mark.parametrize(
    ("model", "free"),
    [
        (VonMisesFisherMixture(5), 4 + 5 * 8),
        (VonMisesFisherMixture(5, kappa="shared"), 4 + 5 * 7 + 1),
        (VonMisesFisherMixture(5, kappa=20.0), 4 + 5 * 7),
        (HOPE(5, n_latent=3), 4 + 5 * 3 + 3 * 5 + 2),  # a subspace of 3 of 8 dimensions, and the law of |z|
        (HOPE(5, n_latent=3, prepare=None), 4 + 5 * 3 + 3 * 5 + 2 + 1),  # and the noise across it
        (HOPE(5, n_latent=3, prepare=None, noise_variance=0.1), 4 + 5 * 3 + 3 * 5 + 2),
        (HOPE(5, n_latent=3, normalize_z=False), 4 + 5 * 3 + 3 * 5 + 2),
        (PCAMovMF(5, n_latent=3), 4 + 5 * 3 + 3 * 5 + 2),
        (HOPE(5, n_latent=3, family="gmm-full"), 4 + 5 * (3 + 6) + 3 * 5 + 1 + 5),  # and the mean across the subspace
        (HOPE(5, n_latent=3, family="gmm", prepare="unit"), 4 + 5 * 6 + 3 * 5 + 3 + 1),
    ],
)
def test_criteria_count_what_is_free(model, free):
    model.set_params(random_state=0, max_iter=3).fit(X)
    density = model.score_samples(X)
    assert (model.aic(X) + 2 * density.sum()) / 2 == pytest.approx(free)
    assert (model.bic(X) + 2 * density.sum()) / np.log(len(X)) == pytest.approx(free)


@pytest.mark.slow
def test_the_criterion_finds_the_number_of_components():
    rows = unit(clusters(600, 8, K=6, spread=0.15))
    values = {
        K: VonMisesFisherMixture(K, kappa="shared", n_init=4, random_state=0).fit(rows).bic(rows)
        for K in (4, 5, 6, 7, 9)
    }
    assert min(values, key=values.__getitem__) == 6
    for model in (
        VonMisesFisherMixture("auto", kappa="shared", n_init=2),
        PCAMovMF("auto", n_latent=6, kappa="shared", n_init=2),
    ):
        model.set_params(random_state=0).fit(rows)
        (step,) = model.choice_.steps
        assert len(model.weights_) == 6 and model.choice_.best_params == {"n_components": 6}
        assert step.params[int(step.figure.argmin())] == step.params[step.chosen[0]] == {"n_components": 6}
        bic = {one["n_components"]: value for one, value in zip(step.params, step.figure, strict=True)}
        given = clone(model).set_params(n_components=5).fit(rows)
        assert not hasattr(given, "choice_")
        # what the curve omits is the same for every number of components
        assert bic[5] - bic[6] == pytest.approx(given.bic(rows) - model.bic(rows), rel=1e-6)
    with pytest.raises(ValueError, match="n_components='bic' is not known"):
        VonMisesFisherMixture("bic").fit(rows)


@parametrize(
    "make",
    [
        lambda: VonMisesFisherMixture(4),
        lambda: VonMisesFisherMixture(4, solver="online-em", batch_size=50),
        lambda: PCAMovMF(4, n_latent=5),
        lambda: SphericalKMeans(4),
    ],
    fast=1,
    ids=["vmf", "online", "pca", "spherical"],
)
def test_sparse_rows_are_the_same_rows(make, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.random((120, 30)) * (rng.random((120, 30)) < 0.15)
    rows[:, 0] += 0.1
    rows[7] = rows[3]
    model = make().set_params(random_state=0)
    dense, text = clone(model).fit(rows), clone(model).fit(coo_array(rows))
    assert text.score(csr_matrix(rows)) == pytest.approx(dense.score(rows), rel=1e-9)
    assert (text.predict(csr_array(rows)) == dense.predict(rows)).all()
    np.testing.assert_allclose(text.transform(csr_array(rows)), dense.transform(rows), atol=1e-7)
    twice = csr_array((np.r_[0.5 * rows[0], 0.5 * rows[0]], (np.zeros(60, int), np.tile(np.arange(30), 2))), (1, 30))
    np.testing.assert_allclose(text.transform(twice), dense.transform(rows[:1]), atol=1e-7)  # entries that add up
    if hasattr(text, "bic"):
        weight = rng.integers(1, 4, 120)
        a, b = (clone(model).fit(X, sample_weight=weight).log_likelihood_ for X in (rows, csr_array(rows)))
        assert a == pytest.approx(b, rel=1e-9)
        np.testing.assert_allclose(text.residual_energy(csr_array(rows)), dense.residual_energy(rows), atol=1e-9)
        assert text.bic(csr_array(rows)) == pytest.approx(dense.bic(rows), rel=1e-9)
    clone(model).fit(csr_array(rows), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="checkpoint"):  # of other rows, by what is in them
        clone(model).fit(csr_array(2 * rows**2), checkpoint=tmp_path, resume=True)


def test_the_way_back_with_fewer_components_than_columns(monkeypatch):
    """Least squares nearest to the mean of the centres, by the pseudoinverse; of many columns, no D by D arrays."""
    model = VonMisesFisherMixture(3, threshold=-400.0, random_state=0).fit(X)
    eta, (mu,), centres = model.transform(X), model.parameters_, model.directions_
    assert (eta > 0).all()
    start = eta @ centres / eta.sum(axis=1, keepdims=True)
    z = start + (unit(X) - start) @ mu.T @ np.linalg.pinv(mu.T)  # the features are those of the rows themselves
    np.testing.assert_allclose(model.inverse_transform(eta), unit(z), atol=1e-6)
    rng = np.random.default_rng(0)
    wide = csr_array((rng.random(600), (np.arange(600) % 30, rng.integers(0, 10**5, 600))), (30, 10**5))
    model = VonMisesFisherMixture(3, random_state=0).fit(wide)
    assert model.inverse_transform(model.transform(wide)).shape == wide.shape
    monkeypatch.setattr(ms.storage, "available_memory", lambda: 10**9)
    with pytest.raises(MemoryError, match=r"components_ is the identity of 100000 columns .*: use the rows themselves"):
        _ = model.components_


def test_text_is_never_made_dense():
    """A hundred thousand columns: an array of D columns squared would be 80 GB."""
    rng = np.random.default_rng(0)
    D, N = 100_000, 60
    topic = np.repeat([0, 1], N // 2)
    columns = rng.integers(0, 200, (N, 40)) + 50_000 * topic[:, None]
    rows = csr_array((np.ones(N * 40), (np.repeat(np.arange(N), 40), columns.ravel())), (N, D))
    for model in (VonMisesFisherMixture(2), PCAMovMF(2, n_latent=2), SphericalKMeans(2)):
        labels = model.set_params(random_state=0).fit(rows).predict(rows)
        assert (labels == topic).all() or (labels == 1 - topic).all()
        assert np.isfinite(model.score(rows))


def test_more_axes_than_half_of_few_sparse_rows():
    """Of 12 rows of 90 columns eight axes, or more than there are, or than rows; beyond memory a sentence."""
    rng = np.random.default_rng(0)
    rows = rng.random((12, 90)) * (rng.random((12, 90)) < 0.3)
    rows[10:] = rows[:2]  # of rank 10
    unit_rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    right = np.linalg.svd(unit_rows)[2]
    for M in (8, 12, 20):
        U = PCAMovMF(2, n_latent=M, random_state=0).fit(csr_array(rows)).components_
        np.testing.assert_allclose(U @ U.T, np.eye(M), atol=1e-9)
        kept = right[: min(M, 10)]
        np.testing.assert_allclose(kept @ U.T @ U, kept, atol=1e-6)
    million = csr_array((np.ones(40), (np.arange(40) % 20, np.arange(40) * 1000)), (20, 10**6))
    with pytest.raises(ValueError, match="n_latent=500000 axes of 1000000 columns do not fit into memory: pass fewer"):
        PCAMovMF(2, n_latent=500_000).fit(million)


@pytest.mark.slow
def test_auto_takes_no_more_axes_than_rows_span():
    """Half of the columns, but no D by D matrix of few or sparse rows; more batches may span what one does not."""
    rng = np.random.default_rng(0)
    few = rng.random((12, 90))
    columns = rng.integers(0, 10**5, (60, 40))
    wide = csr_array((rng.random(2400), (np.repeat(np.arange(60), 40), columns.ravel())), (60, 10**5))
    many = csr_array(rng.random((400, 300)) * (rng.random((400, 300)) < 0.1))
    made = [
        (PCAMovMF(2, n_latent="auto"), few, 11),
        (PCAMovMF(2, n_latent="auto"), csr_array(few), 11),
        (PCAMovMF(2, n_latent="auto"), wide, 59),
        (PCAMovMF(2, n_latent="auto"), many, 100),
        (PCAMovMF(2, n_latent="auto"), many.toarray(), 150),
        (HOPE(2, n_latent="auto"), few, 11),
        (HOPE(2, n_latent="auto"), X, 4),
    ]
    for model, rows, M in made:
        assert model.set_params(random_state=0).fit(rows).used_parameters_["n_latent"] == M
    batches = HOPE(2, n_latent="auto", random_state=0).partial_fit(few).partial_fit(few)
    assert batches.used_parameters_["n_latent"] == 45


@pytest.mark.parametrize("make", [HOPE, PCAMovMF])
def test_the_number_of_components_is_set_alone(make):
    assert make(7).get_params() == make(n_components=7).get_params() == make().set_params(n_components=7).get_params()
    model = make(7, random_state=0).fit(X)
    assert (len(model.weights_), model.components_.shape) == (7, (4, 8))
    search = GridSearchCV(make(random_state=0), {"n_components": [2, 3]}, cv=2, error_score="raise").fit(X)
    assert len(search.best_estimator_.weights_) == search.best_params_["n_components"]
    assert search.cv_results_["mean_test_score"][0] != search.cv_results_["mean_test_score"][1]


def test_zero_rows_are_warned_of_once():
    with pytest.warns(UserWarning, match="row 40 of X is all zeros") as caught:
        model = VonMisesFisherMixture("auto", max_iter=3, random_state=0).fit(np.concatenate([X[:40], 0 * X[:1]]))
    assert len(caught) == 1
    again = VonMisesFisherMixture("auto", max_iter=3, random_state=0).fit(X[:40])
    np.testing.assert_allclose(model.choice_.steps[0].figure, again.choice_.steps[0].figure)


@pytest.mark.parametrize(
    "model", [HOPE(4, n_latent=3), HOPE(4, n_latent=3, family="gmm"), VonMisesFisherMixture(4), PCAMovMF(4, n_latent=3)]
)
def test_fit_predict_is_fit_then_predict(model):
    model.set_params(random_state=0)
    labels = model.fit_predict(X)
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_array_equal(labels, clone(model).fit(X).predict(X))


@pytest.mark.parametrize("family", ["movmf", "gmm", "gmm-full"])
def test_what_describes_the_components_is_plain(family):
    """Fitted attributes are in the instance."""
    model = HOPE(4, n_latent=3, family=family, random_state=0).fit(X)
    names = {"movmf": ("concentrations_", "directions_"), "gmm": ("means_", "covariances_")}
    own, others = names["movmf" if family == "movmf" else "gmm"], names["gmm" if family == "movmf" else "movmf"]
    assert {*own, "n_capped_", "n_empty_"} <= vars(model).keys() and not vars(model).keys() & {*others}
    with pytest.raises(AttributeError, match=others[0]):
        getattr(model, others[0])
    model.set_params(family="gmm" if family == "movmf" else "movmf").fit(X)
    assert not vars(model).keys() & {*own}


@parametrize(
    "model",
    [
        HOPE(4, n_latent=3),
        HOPE(4, n_latent=3, solver="sgd"),
        VonMisesFisherMixture(4),
        PCAMovMF(4, n_latent=3),
        SphericalKMeans(4),
    ],
    fast=2,
)
def test_starts_are_the_same_on_every_executor(model):
    model.set_params(n_init=4, max_iter=5, random_state=0)
    serial, jobs = clone(model).fit(X), clone(model).set_params(n_jobs=2).fit(X)
    with ms.execution.using("threads", 3):
        threads = clone(model).fit(X)
    for other in (jobs, threads):
        np.testing.assert_array_equal(other.transform(X), serial.transform(X))
        np.testing.assert_array_equal(other.history_["fun"], serial.history_["fun"])
        assert other.status_ is serial.status_
