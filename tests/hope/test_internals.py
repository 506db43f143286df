"""Parts of HOPE that no fitted model shows: unit rows at the ends of the number range, reading in parts, retractions.

How many images are read and how often rows are retracted is in no result; a retraction is added in the code only.
"""

import importlib.util

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manifoldseq_hope import HOPE, ConvolutionalFeatures
from manifoldseq_hope.families._rows import unit_rows
from manifoldseq_hope.features import _convolution as convolution
from manifoldseq_hope.features import _patches as patches
from manifoldseq_hope.features._responses import Responses
from manifoldseq_hope.networks._schedule import ORTHOGONALITIES

RETRACTIONS = ("polar", "qr")
IMAGES = load_digits().data.reshape(-1, 8, 8)[:24]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def test_unit_rows_of_every_size():
    rng = np.random.default_rng(0)
    for dtype, sizes in (
        (np.float64, (0, 5e-324, 1e-300, 1e-160, 1, 1e160, 1e308)),
        (np.float32, (0, 1e-45, 1e-20, 3e38)),
    ):
        rows = rng.uniform(0.5, 1, (len(sizes), 6)) * np.array(sizes)[:, None]
        found = unit_rows(rows.astype(dtype))
        assert found.dtype == dtype and not found[0].any()
        np.testing.assert_allclose(np.linalg.norm(found[1:].astype(float), axis=1), 1, rtol=1e-6)
        wide = rows.astype(dtype)[2:].astype(np.longdouble)  # its exponents are wide enough
        np.testing.assert_allclose(
            found[2:].astype(float), (wide / np.sqrt(np.sum(wide**2, axis=1))[:, None]).astype(float), rtol=1e-6
        )


def test_images_mapped_to_files_are_read_in_parts(tmp_path, monkeypatch):
    np.save(tmp_path / "images.npy", IMAGES)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    features = ConvolutionalFeatures(HOPE(7, n_latent=4, kappa=20.0), patch_size=3, n_patches=900, random_state=0)
    expected = features.fit(IMAGES).transform(IMAGES)
    seen = []
    real = patches.read
    monkeypatch.setattr(patches, "_PIXELS", 9 * 36 * 10)
    monkeypatch.setattr(
        convolution, "read", lambda X, some, dtype, first: seen.append(some) or real(X, some, dtype, first)
    )
    out = np.memmap(tmp_path / "out", np.float64, "w+", shape=expected.shape)
    assert features.fit(mapped).transform(mapped, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert [part.stop - part.start for part in seen] == [10] * 2 + [4]
    with pytest.raises(ValueError, match=r"out has shape \(3, 3\)"):
        features.transform(mapped, out=np.zeros((3, 3)))


@pytest.mark.parametrize("statistics", [lambda Z: Z[:, ::-1], lambda Z: Z[:, :1]])
def test_statistics_of_a_family_may_be_views_and_fewer_than_projections(statistics):
    rng = np.random.default_rng(0)
    U, x = rng.standard_normal((3, 9)), rng.standard_normal((9, 20))
    z = U @ (x - x.mean(axis=0))
    expected = statistics((z / np.linalg.norm(z, axis=0)).T).T
    found = Responses(U, None, "z", statistics, np.ones((5, len(expected))), np.zeros(5)).inputs(x)
    np.testing.assert_allclose(found[:-1], expected, rtol=1e-12)
    assert (found[-1] == 1).all()


@needs_torch
@pytest.mark.parametrize("mode", RETRACTIONS)
def test_short_steps_are_retracted_once_in_a_while(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from manifoldseq.torch import RETRACTIONS as known
    from manifoldseq.torch import OrthonormalParameter, RiemannianSGD

    retract, calls = known[mode], []
    monkeypatch.setitem(known, mode, lambda Y: calls.append(0) or retract(Y))
    torch.manual_seed(8)
    start = torch.linalg.qr(torch.randn(60, 20))[0].T.contiguous()
    A = torch.randn(20, 60)
    found = {}
    for dtype in (torch.float32, torch.float64):
        U = OrthonormalParameter(retract(start.to(dtype)))
        optimizer = RiemannianSGD([U], lr=2e-6, momentum=0.9, retraction=mode)
        calls.clear()
        for _ in range(300):
            U.grad = A.to(dtype) * U.detach().square()
            optimizer.step()
            rows = U.detach().double()
            assert (rows @ rows.T - torch.eye(20)).abs().max() <= (2e-6 if dtype == torch.float32 else 1e-14)
        found[dtype] = U.detach().double(), len(calls)
    (short, few), (exact, all_) = found.values()
    assert 10 < few < 60 and all_ == 300  # in double precision these steps are long
    assert (short - exact).abs().max() < 5e-6 < 1e-3 < (short - start).abs().max()  # rounding of the increments


@needs_torch
def test_networks_know_every_retraction() -> None:
    from manifoldseq.torch import RETRACTIONS as known

    assert set(known) == set(RETRACTIONS) < set(ORTHOGONALITIES)
