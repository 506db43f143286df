"""Encoders of bags: layout, normalization, streaming and errors."""

import numpy as np
import pytest
from mpcca.problems import drawn, mixture
from scipy.sparse import csr_matrix

import manifoldseq as ms
from manifoldseq_mpcca import FisherVector, MultiViewSuperVector, gradient_vectors

QUICK = {"random_state": 0, "max_iter": 5}


def bags(lengths=(12, 1, 30, 5, 0, 9, 60), seed=3, **options):
    (X, Y), _ = drawn(mixture(**options), sum(lengths), seed)
    cuts = np.cumsum(lengths)[:-1]
    return np.split(X, cuts), np.split(Y, cuts)


@pytest.mark.parametrize("name", ["fisher-vector", "super-vector"])
def test_conformance(name):
    ms.testing.check_multiview_estimator(ms.get_estimator(name)()).raise_for_failure()


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_layout_is_gradients_of_views_then_latent(covariance_type):
    """[G_x, G_y, Z]; of full noise the triangle, so scaled that inner products are those of the matrices."""
    X, Y = bags()
    plain = {"covariance_type": covariance_type, "intra_normalize": False, "gradient_scale": "likelihood", **QUICK}
    model = MultiViewSuperVector(2, n_latent=2, **plain).fit(X, Y)
    vectors, found = model.transform(X, Y), gradient_vectors(model.mixture_, X, Y, gradient_scale="likelihood")
    for v, n in enumerate((5, 4)):
        block = vectors[:, model.blocks_[f"view {v}"]].reshape(len(X), 2, -1)
        np.testing.assert_array_equal(block[..., :n], found.means[v])
        noise = found.noise[v].reshape(len(X), -1)
        flat = block[..., n:].reshape(len(X), -1)
        np.testing.assert_allclose(flat @ flat.T, noise @ noise.T, rtol=1e-10, atol=1e-8)
    np.testing.assert_array_equal(vectors[:, model.blocks_["latent"]], found.latent.reshape(len(X), -1))
    if covariance_type == "diag":
        assert vectors.shape == (len(X), 2 * (2 * 9 + 2))


def test_blocks_have_length_one_or_zero():
    X, Y = bags(spread=30.0)
    model = MultiViewSuperVector(3, n_latent=2, power=0.5, **QUICK).fit(X, Y)
    vectors = model.transform(X, Y)
    widths = [w for n in (5, 4) for _ in range(3) for w in (n, n)] + [2] * 3
    blocks = np.split(vectors, np.cumsum(widths)[:-1], axis=1)
    lengths = np.stack([np.linalg.norm(block, axis=1) for block in blocks], axis=1)
    total = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(total[[0, 1, 2, 3, 5, 6]], 1, rtol=1e-12)
    assert total[4] == 0  # the empty bag
    each = lengths * np.sqrt((lengths > 0).sum(axis=1, keepdims=True))
    assert (np.isclose(each, 1, rtol=1e-12, atol=0) | (each == 0)).all()
    assert (each == 0).any(axis=1)[1]  # one row is of one component here


def test_power_is_of_every_entry():
    X, Y = bags()
    plain = MultiViewSuperVector(2, intra_normalize=False, **QUICK)
    first = plain.fit_transform(X, Y)
    rooted = plain.set_params(power=0.5).fit_transform(X, Y)
    np.testing.assert_allclose(rooted, np.sign(first) * np.sqrt(np.abs(first)))


def test_parts_are_blocks_of_the_whole():
    X, Y = bags()
    whole = MultiViewSuperVector(2, intra_normalize=False, **QUICK).fit(X, Y)
    vectors, latent = whole.transform(X, Y), whole.blocks_["latent"]
    gradient = MultiViewSuperVector(2, parts="gradient", intra_normalize=False, **QUICK).fit(X, Y)
    assert set(gradient.blocks_) == {"view 0", "view 1"}
    np.testing.assert_array_equal(gradient.transform(X, Y), vectors[:, : latent.start])
    alone = MultiViewSuperVector(2, parts="latent", intra_normalize=False, **QUICK).fit_transform(X, Y)
    np.testing.assert_array_equal(alone, vectors[:, latent])


def test_without_latent_it_is_the_fisher_vector():
    X, Y = bags()
    a = MultiViewSuperVector(2, n_latent=0, **QUICK).fit_transform(X, Y)
    np.testing.assert_array_equal(a, FisherVector(2, **QUICK).fit_transform(X, Y))


def test_attributes_of_the_fit():
    X, Y = bags()
    model = FisherVector(2, **QUICK).fit(X, Y)
    assert model.n_features_in_ == 9 and model.n_iter_ == len(model.history_["fun"]) - 1 == 5
    assert model.status_ is ms.Status.MAX_ITERATIONS
    assert (np.diff(model.history_["fun"]) <= 0).all()


def test_an_interrupted_fit_says_so_and_goes_on(tmp_path):
    """Ctrl-C leaves the mixture so far; resumed, the fit ends where an undisturbed one does."""

    def interrupting(event):
        if event.nit == 2 and event.status is None:
            raise KeyboardInterrupt

    X, Y = bags()
    model = MultiViewSuperVector(2, **QUICK).fit(X, Y, observers=[interrupting], checkpoint=tmp_path)
    assert model.status_ is ms.Status.INTERRUPTED and np.isfinite(model.transform(X, Y)).all()
    model.fit(X, Y, checkpoint=tmp_path, resume=True)
    whole = MultiViewSuperVector(2, **QUICK).fit(X, Y)
    np.testing.assert_array_equal(model.transform(X, Y), whole.transform(X, Y))
    other = MultiViewSuperVector(2, **{**QUICK, "random_state": 1})
    with pytest.raises(ms.storage.CheckpointError, match="other data or settings"):
        other.fit(X, Y, checkpoint=tmp_path, resume=True)


def test_saved_and_loaded(tmp_path):
    X, Y = bags()
    model = MultiViewSuperVector(2, covariance_type="full", **QUICK).fit(X, Y)
    ms.storage.save_model(model, tmp_path)
    np.testing.assert_array_equal(ms.storage.load_model(tmp_path).transform(X, Y), model.transform(X, Y))


def test_data_frames_are_arrays():
    pd = pytest.importorskip("pandas")
    X, Y = (np.concatenate(view) for view in bags())
    found = FisherVector(2, **QUICK).fit_transform(pd.DataFrame(X), pd.DataFrame(Y))
    np.testing.assert_array_equal(found, FisherVector(2, **QUICK).fit_transform(X, Y))


def test_empty_bags_alone_have_zero_vectors():
    X, Y = bags()
    model = MultiViewSuperVector(2, **QUICK).fit(X, Y)
    np.testing.assert_array_equal(model.transform([X[4]], [Y[4]]), model.transform(X, Y)[4:5])
    with pytest.raises(ValueError, match="3 views were passed, but the model was fitted on 2 views"):
        model.transform([[X[4]], [Y[4]], [Y[4]]])


def test_stream_is_transform():
    X, Y = bags()
    model = MultiViewSuperVector(2, **QUICK).fit(X, Y)
    streamed = np.stack(list(model.stream(zip(X, Y, strict=True))))
    np.testing.assert_allclose(streamed, model.transform(X, Y), atol=1e-14)
    with pytest.raises(ValueError, match="the views of bag 1 have \\(4, 5\\) columns: pass \\(5, 4\\), as in fit"):
        list(model.stream([(X[0], Y[0]), (Y[0], X[0])]))


def test_an_endless_stream_is_encoded_as_it_comes():
    X, Y = bags(lengths=(200,))
    model = FisherVector(2, **QUICK).fit(X, Y)

    def endless():
        while True:
            yield X[0], Y[0]

    first = next(model.stream(endless()))
    np.testing.assert_allclose(first, model.transform(X, Y)[0], atol=1e-14)


class Counting:
    """Bags that are made when they are asked for."""

    def __init__(self, bags):
        self.bags, self.asked = bags, 0

    def __len__(self):
        return len(self.bags)

    def __getitem__(self, i):
        self.asked += 1
        return self.bags[i].astype(np.float32)


def test_lazy_bags_are_read_in_groups_and_again():
    X, Y = bags(lengths=(40,) * 20)
    lazy = Counting(X), Counting(Y)
    model = FisherVector(2, max_descriptors=200, **QUICK).fit(*lazy)
    encoded = model.transform(*lazy)
    np.testing.assert_allclose(
        encoded, model.transform([x.astype(np.float32) for x in X], [y.astype(np.float32) for y in Y])
    )
    assert lazy[0].asked == lazy[1].asked == 42  # fit and transform, each once and one bag to see the columns


def test_groups_do_not_change_a_vector():
    """Bags that are read in groups of 2**14 rows, and one that is longer than such a group, against each alone."""
    X, Y = bags(lengths=(9000, 9000, 3, 40_000, 0, 7))
    model = MultiViewSuperVector(2, **QUICK).fit([x[:200] for x in X], [y[:200] for y in Y])
    alone = np.vstack([model.transform([x], [y]) for x, y in zip(X, Y, strict=True)])
    np.testing.assert_allclose(model.transform(X, Y), alone, atol=1e-13)
    np.testing.assert_allclose(model.transform([x[::-1] for x in X], [y[::-1] for y in Y]), alone, atol=1e-11)


def test_one_view_three_views_and_rows():
    X, Y = bags()
    assert FisherVector(2, **QUICK).fit_transform([X]).shape == (7, 2 * 2 * 5)
    model = MultiViewSuperVector(2, n_latent=1, **QUICK).fit([X, Y, X])
    assert model.transform([X, Y, X]).shape == (7, 2 * (2 * 14 + 1))
    rows = FisherVector(2, **QUICK).fit_transform(np.concatenate(X), np.concatenate(Y))
    assert rows.shape == (sum(map(len, X)), 2 * 2 * 9)


def test_a_sample_is_even_over_bags():
    """Seen by the weights of components, one to each of three bags that lie far from each other."""
    rng = np.random.default_rng(0)
    X = [100.0 * i + rng.standard_normal((t, 1)) for i, t in enumerate((100, 3, 50))]
    found = FisherVector(3, max_descriptors=30, n_init=5, random_state=0).fit([X]).mixture_
    np.testing.assert_allclose(23 * found.weights[np.argsort(found.means[:, 0])], [10, 3, 10], rtol=1e-6)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda X, Y: (X[:2], Y), "the views have 2, 7 bags: pass the same objects in each"),
        (lambda X, Y: ([*X[:2], X[2][1:], *X[3:]], Y), "bag 2 has 29 and 30 rows in its views: pass paired"),
        (lambda X, Y: ([X[0][:, :4], *X[1:]], Y), "bag 1 has 5 and 4 columns in its views, but other bags have"),
        (lambda X, Y: ([X[0][:, 0], *X[1:]], Y), "bag 0 of view 0 has shape"),
        (lambda X, Y: (X, [Y[0] * np.nan, *Y[1:]]), "bag 0 of view 1 has NaN at row 0, column 0: remove or fill it"),
        (lambda X, Y: (X, [Y[0].astype(str), *Y[1:]]), "bag 0 of view 1 has dtype"),
        (lambda X, Y: ([], []), "there are no bags: pass at least one"),
        (lambda X, Y: ([x[:0] for x in X], [y[:0] for y in Y]), "every bag is empty: pass bags with descriptors"),
        (
            lambda X, Y: (X, [Y[0] * 1e200, *Y[1:]]),
            "bag 0 of view 1 has .*e\\+.*, which is too large to be squared: rescale",
        ),
        (lambda X, Y: (csr_matrix(X[0]), Y[0]), "view 0 is a sparse matrix: convert it with"),
        (lambda X, Y: (X[0], None), "X is of type ndarray: pass X and Y, or a list with one entry per view"),
        (lambda X, Y: (X, None), "or \\[bags\\] for the bags of one view"),
    ],
)
def test_bad_bags_raise_an_error(bad, sentence):
    X, Y = bad(*bags())
    with pytest.raises(ValueError, match=sentence):
        FisherVector(2, **QUICK).fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"gradient_scale": "none"}, "gradient_scale='none' is not known: choose 'paper'"),
        ({"power": 2.0}, "power=2.0 is not valid: pass a number above 0 and at most 1"),
        ({"intra_normalize": "l2"}, "intra_normalize='l2' is not valid: pass True or False"),
        ({"max_descriptors": 0}, "max_descriptors=0 is not valid: pass a whole number of at least 1, or None"),
        ({"max_descriptors": 1}, "max_descriptors=1 is less than n_components=2: increase"),
        ({"parts": "shared"}, "parts='shared' is not known: choose 'both', 'gradient' or 'latent'"),
        ({"covariance_type": "tied"}, "covariance_type='tied' is not known: choose 'diag' or 'full'"),
        ({"n_components": 0}, "n_components=0 is not valid"),
        ({"n_latent": 5}, "n_latent=5 exceeds the 4 columns of view 1"),
        ({"n_components": 1000}, "n_components=1000 exceeds the 117 rows"),
    ],
)
def test_bad_settings_raise_an_error(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        MultiViewSuperVector(**{"n_components": 2} | settings).fit(*bags())


def test_other_widths_than_in_fit_raise_an_error():
    X, Y = bags()
    with pytest.raises(ValueError, match="views have 4 and 5 columns, but in fit they had 5 and 4"):
        FisherVector(2, **QUICK).fit(X, Y).transform(Y, X)
