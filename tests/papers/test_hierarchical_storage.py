"""`hierarchical-storage` on small generated paths and on generated files in the layout of the real ones; its peers."""

import hashlib
import http.server
import threading
from functools import partial

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

import manifoldseq as ms
from manifoldseq_hierarchical import _nordland
from manifoldseq_papers.hierarchical import _runs, _storage_table
from manifoldseq_papers.hierarchical._generated_paths import dense_path, long_path, queries
from manifoldseq_papers.hierarchical._storage_table import hierarchical_storage

FAISS = "faiss is not installed"


@pytest.fixture
def folder(tmp_path):
    """Two seasons and two walks, the second of each a noisy copy of the first, in the layout of the real files."""
    rng = np.random.default_rng(0)
    X = long_path(60, 2048, correlation=3, seed=0)
    (tmp_path / "nordland").mkdir()
    for season, noise in (("spring", 0.0), ("winter", 1.0)):
        pixels = np.clip(128 + 30 * (X + noise * rng.standard_normal(X.shape)), 0, 255).astype(np.uint8)
        savemat(tmp_path / "nordland" / f"preprocessing-{season}-1-100-35601.mat", {"p": pixels.T})
    images = rng.integers(0, 256, (12, 24, 32), dtype=np.uint8)
    for part in ("ref", "query"):
        place = tmp_path / "corridor" / "datasets" / "corridor" / part
        place.mkdir(parents=True)
        for k, image in enumerate(images):
            Image.fromarray(image).resize((160, 120), Image.Resampling.NEAREST).save(place / f"{k:07d}.jpg")
    return tmp_path


def test_generated_paths():
    X = long_path(20_000, 8, seed=3)
    assert X.dtype == np.float32 and X.shape == (20_000, 8)
    assert X.var() == pytest.approx(1, abs=0.1)
    lagged = np.mean(X[:-100] * X[100:]) / X.var()
    assert lagged == pytest.approx(np.exp(-1), abs=0.1)
    np.testing.assert_allclose(dense_path(300, 4, length=100)[::299], long_path(100, 4)[[0, 99]], rtol=1e-6)
    t, Q = queries(X, 500, noise=0.1)
    assert np.std(Q - X[t]) == pytest.approx(0.1, rel=0.1)


@pytest.mark.slow
def test_rows_and_figure(tmp_path):
    pytest.importorskip("faiss", reason=FAISS)
    rows = hierarchical_storage(sizes=[6000], n_seeds=2, n_queries=60, figure=str(tmp_path / "curves.png"))
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    values = {(row["setting"], row["model"], row["metric"]): row["ours"] for row in rows}
    assert all(row["ours_se"] is not None and row["paper"] is None for row in rows)
    at = "long_path N=6000"
    assert values[at, "flat float32", "storage"] == 512 and values[at, "flat float32", "recall@1"] > 0.99
    assert values[at, "encoder 40/2", "recall@1"] > 0.9
    assert values[at, "encoder 20/2", "recall@1"] >= values[at, "PQ8 on key frames", "recall@1"]
    # codebooks are counted: 256 centroids of 128 coordinates
    assert values[at, "PQ16", "storage"] == pytest.approx(16 + 256 * 128 * 4 / 6000)


def test_every_byte_of_the_encoder_is_counted(monkeypatch):
    """150 points of 128 coordinates in 2 bits; their scales, the center, and a few numbers in under 300 bytes."""
    pytest.importorskip("faiss", reason=FAISS)
    for name, value in {"ENCODERS": ((40, 2),), "PEERS": {}, "_PROBES": (), "PATHS": {"long_path": long_path}}.items():
        monkeypatch.setattr(_storage_table, name, value)
    rows = hierarchical_storage(sizes=[6000], n_seeds=1, n_queries=60)
    values = {row["metric"]: row["ours"] for row in rows}
    kept = 150 * 128 * 2 / 8 + 2 * 128 * 4
    assert kept < 6000 * values["storage"] < kept + 300
    assert values["recall@1"] > 0.9


@pytest.mark.slow
def test_peers_find_what_they_keep():
    pytest.importorskip("faiss", reason=FAISS)
    from manifoldseq_papers.hierarchical import _peers

    X = long_path(6000, 16, seed=0)
    t, Q = queries(X, 100, noise=0.1, seed=0)
    exact = np.square(Q[:, None] - X[None]).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(_peers.flat(X).search(Q), exact)
    for make in (partial(_peers.product, groups=8), partial(_peers.product, groups=8, rotated=True), _peers.principal,
                 partial(_peers.inverted, groups=8, n_probe=64)):  # fmt: skip
        assert np.mean(np.abs(make(X).search(Q) - t) <= 10) > 0.9
        keyed = _peers.on_key_frames(make, 21)(X).search(Q)
        assert set((keyed - 10) % 21) == {0} and np.mean(np.abs(keyed - t) <= 10) > 0.5


@pytest.mark.parametrize("sizes", [[], [100], ["many"]])
def test_rejected_sizes(sizes):
    pytest.importorskip("faiss", reason=FAISS)
    with pytest.raises(ValueError, match="whole numbers of at least 5376"):
        hierarchical_storage(sizes=sizes)


@pytest.mark.slow
def test_real_runs(folder):
    pytest.importorskip("faiss", reason=FAISS)
    rows = hierarchical_storage(folder)
    values = {(row["setting"], row["model"], row["metric"]): row["ours"] for row in rows}
    for setting in ("nordland: winter in spring, ±1", "nordland: spring in winter, ±1", "corridor: query in ref, ±1"):
        assert values[setting, "encoder, all coordinates, 8 bits; Bayes, smoothed", "recall@1"] > 0.9
    assert values["corridor: ref in query, ±0", "flat float32", "storage"] == 24 * 32 * 4


def test_missing_files_are_named(folder):
    (folder / "nordland" / "preprocessing-winter-1-100-35601.mat").unlink()
    with pytest.raises(ValueError, match=r"preprocessing-winter.* does not exist"):
        _nordland.nordland(folder)
    for file in (folder / "corridor" / "datasets" / "corridor" / "query").iterdir():
        file.unlink()
    with pytest.raises(ValueError, match=r"no \.jpg files"):
        _runs.corridor(folder)


def test_the_dataset_is_read_from_a_folder(folder, monkeypatch, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "places").symlink_to(folder)
    monkeypatch.setenv("MANIFOLDSEQ_DATA", str(tmp_path / "data"))
    data = ms.hooks.get_dataset("nordland").loader()
    assert data.labels.tolist() == ["spring", "winter"]
    assert [X.shape for X in data.sequences] == [(60, 2048)] * 2
    np.testing.assert_allclose(data.sequences[0].mean(axis=0), 0, atol=1e-6)


def test_the_dataset_is_fetched_once_and_checked(folder, monkeypatch, tmp_path):
    pytest.importorskip("pooch", reason="pooch is not installed")
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (folder / "nordland").iterdir()}
    monkeypatch.setattr(_nordland, "_FILES", dict(sorted(files.items())))
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder / "nordland"))
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        source = f"http://127.0.0.1:{server.server_port}/"
        fetched = _nordland.fetched(source, tmp_path / "cache")
        monkeypatch.setattr(_nordland, "_FILES", dict.fromkeys(files, "0" * 64))
        with pytest.raises(ValueError, match="hash"):
            _nordland.fetched(source, tmp_path / "other")
        server.shutdown()
    assert _nordland.nordland(fetched)[0][1].shape == (60, 2048)
