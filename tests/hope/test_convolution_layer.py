"""Convolutional features as a layer of torch: the same features, exact gradients, training, and bad input."""

import importlib.util

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from manifoldseq.torch import RiemannianSGD, orthonormality
from manifoldseq_hope import (
    HOPE,
    ConvolutionalFeatures,
    HOPEConvolution,
    PCAMovMF,
    SphericalKMeans,
    VonMisesFisherMixture,
)

IMAGES = load_digits().images[:24]
COLOUR = np.stack([IMAGES, IMAGES[::-1], IMAGES.transpose(0, 2, 1)], axis=-1)[:, :7]
LABELS = load_digits().target[:24]


def learned(model, images=IMAGES, **settings):
    """Return fitted features, of few patches."""
    made = {"patch_size": 3, "n_patches": 700, "random_state": 0} | settings
    return ConvolutionalFeatures(model, **made).fit(images)


@pytest.mark.parametrize(
    ("model", "images", "settings"),
    [
        (HOPE(7, n_latent=4, kappa=20.0), IMAGES, {"keep_weights": True}),
        (HOPE(7, n_latent=4, normalize_z=False), IMAGES, {"stride": (1, 2), "power": 1.0}),
        (HOPE(7, n_latent=4, prepare="center", kappa=20.0), IMAGES, {"pooling": (3, 1)}),
        (PCAMovMF(7, n_latent=4), COLOUR, {"patch_size": (3, 2), "pooling": (3, 2), "overlap": True, "power": 0.7}),
        (VonMisesFisherMixture(7, kappa="shared"), COLOUR, {"drop_empty": True}),
        (SphericalKMeans(6), IMAGES, {"quantile": 0.5}),
    ],
)
def test_the_layer_has_the_features_of_numpy(model, images, settings):
    images = images.copy()
    images[3, :5] = 7  # constant patches
    images[4] = 0
    features = learned(model, images, **settings)
    layer = HOPEConvolution(features).double()
    x = torch.tensor(images if images.ndim == 3 else images.transpose(0, 3, 1, 2))
    expected = features.transform(images)
    found = layer(x).detach().numpy()
    assert expected.any() and not found[4].any()
    # parameters are rounded to float32, and a square root is steep at zero: sums are compared
    np.testing.assert_allclose(
        found ** (1 / features.power), expected ** (1 / features.power), rtol=1e-5, atol=1e-5 * expected.max() ** 2
    )


def test_gradients_are_those_of_differences_through_projection_units_and_images():
    features = learned(HOPE(5, n_latent=4, kappa=20.0), COLOUR, overlap=True, quantile=0.3)
    layer = HOPEConvolution(features).double()
    x = torch.tensor(COLOUR[:2].transpose(0, 3, 1, 2), requires_grad=True)

    def of(U, weight, bias, x):
        return torch.func.functional_call(layer, {"U": U, "weight": weight, "bias": bias}, (x,)).sum(0)

    parts = [p.detach().clone().requires_grad_() for p in (layer.U, layer.weight, layer.bias)]
    assert torch.autograd.gradcheck(of, (*parts, x), eps=1e-7, atol=1e-4, fast_mode=True)


def test_it_learns_and_stays_orthonormal_and_blank_images_leave_no_nan():
    features = learned(PCAMovMF(12, n_latent=5, kappa=20.0))
    images = torch.tensor(IMAGES, dtype=torch.float32)
    images[0] = 0
    torch.manual_seed(0)
    net = torch.nn.Sequential(HOPEConvolution(features), torch.nn.Linear(48, 10))
    start = net[0].U.detach().clone()
    optimizer, losses = RiemannianSGD(net.parameters(), lr=0.02, momentum=0.9), []
    for _ in range(25):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images), torch.tensor(LABELS))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0] and all(torch.isfinite(p).all() for p in net.parameters())
    assert net[0].orthonormality() == orthonormality(net[0].U) < 2e-6 and not torch.allclose(net[0].U, start, atol=1e-3)
    again = torch.nn.Sequential(HOPEConvolution(features), torch.nn.Linear(48, 10))
    again.load_state_dict(net.state_dict())
    torch.testing.assert_close(again(images), net(images), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_it_stands_behind_other_layers(dtype):
    features = learned(HOPE(7, n_latent=4, kappa=20.0))
    images = torch.tensor(IMAGES, dtype=torch.float32)
    images[0] = 0
    layer = HOPEConvolution(features)
    with torch.no_grad():
        expected = layer(images)
    before = torch.nn.Conv2d(1, 1, 1)
    torch.nn.init.ones_(before.weight)
    torch.nn.init.zeros_(before.bias)
    with torch.autocast("cpu", dtype=dtype):
        found = layer(before(images[:, None]))
        found.float().square().sum().backward()
    assert torch.linalg.norm(found.detach().float() - expected) < 0.02 * torch.linalg.norm(expected)
    assert all(torch.isfinite(p.grad).all() for p in (*before.parameters(), *layer.parameters()))
    assert layer.U.dtype == torch.float32


def test_bad_input_raises_an_error():
    with pytest.raises(ValueError, match="units of KMeans are not linear in directions: pass features of HOPE"):
        HOPEConvolution(learned(KMeans(4, n_init=1)))
    with pytest.raises(ValueError, match="units of HOPE are not linear"):
        HOPEConvolution(learned(HOPE(3, n_latent=3, family="gmm", max_iter=5)))
    with pytest.raises(ValueError, match="features is of type HOPE: pass fitted"):
        HOPEConvolution(HOPE())
    layer = HOPEConvolution(learned(SphericalKMeans(4)))
    with pytest.raises(ValueError, match=r"the images have shape \(2, 3, 8, 8\): pass \('N', 1, 8, 8\)"):
        layer(torch.zeros(2, 3, 8, 8))
    with pytest.raises(ValueError, match=r"images are torch.float64, but the layer is torch.float32: call images.to"):
        layer(torch.zeros(2, 8, 8, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"images are of type ndarray: pass a tensor, torch.as_tensor\(images\)"):
        layer(np.zeros((2, 8, 8), np.float32))
