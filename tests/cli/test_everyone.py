"""Every registered estimator: ``fit`` prints a figure and that of a control, and writes a page with a picture."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manifoldseq import hooks
from manifoldseq.cli import main

SMALL: dict[str, tuple[str, ...]] = {
    "lds-kmeans": ("n_clusters=2", "n_states=2"),
    "lds-spectral": ("n_clusters=2", "n_states=2"),
    "lds-dictionary": ("n_atoms=3", "n_states=2", "max_iter=2"),
    "bag-of-systems": ("n_clusters=3", "n_states=2", "window=10"),
    "pyramid-pooling": ("n_atoms=3", "n_states=2", "window=10"),
    "hope-stack": ("layers=[(8, 16)]",),
    "hope-network": ("layers=[(8, 16)]", "max_iter=2"),
    "mixture-pcca": ("n_components=3", "n_latent=2"),
    "pca": ("n_components=2",),
    "kmeans": ("n_clusters=10",),
    "normalized-kmeans": ("n_clusters=10",),
    "spherical-kmeans": ("n_clusters=10",),
    "subspace-kmeans": ("n_clusters=10",),
}
CLASSIFIERS = (
    "statistics-classifier",
    "autocovariance-classifier",
    "spectrum-classifier",
    "convolutions-classifier",
    "warping-classifier",
    "linear-classifier",
    "lds-classifier",
    "sequence-classifier",
    "hope-network",
)
BUNDLED = ("manifoldseq", "lds", "hope", "mpcca", "hierarchical", "sequences")
NAMES = [record.name for plugin, record in hooks.records("estimators") if plugin.name in BUNDLED]


def write(kind: str, folder: Path) -> tuple[list[str], Path]:
    """Write data for an estimator of this kind, 24 waves of two frequencies or 180 digits; return what to type."""
    data, labels = folder / "data.npy", folder / "labels.npy"
    if kind in ("sequences", "bags"):
        rng, y, t = np.random.default_rng(0), np.arange(24) % 2, np.arange(40.0)
        waves = [np.sin((0.3 + 0.5 * k) * t + rng.uniform(0, 6)) for k in y]
        X = np.stack([np.column_stack([np.roll(w, lag) for lag in (0, 3, 5, 7)]) for w in waves])
        X = X + 0.1 * rng.standard_normal(X.shape)
    else:
        X, y = (part[:180] for part in load_digits(return_X_y=True))
    if kind == "views":
        X = X[:, X.std(axis=0) > 0][:, :40]
    np.save(data, X)
    np.save(labels, y)
    views = {"bags": ["--views", "2,2"], "views": ["--views", "20,20"]}.get(kind, [])
    return [str(data), *views], labels


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("labelled", [True, False], ids=["labels", "none"])
@pytest.mark.parametrize("name", NAMES)
def test_every_fit_answers(name: str, labelled: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "hope-network":
        pytest.importorskip("torch")
    record = hooks.get_record(hooks.EstimatorSpec, name)
    data, labels = write(record.input, tmp_path)
    settings = [f"--set={setting}" for setting in SMALL.get(name, ())]
    given = ["--labels", str(labels)] if labelled else []
    status = main(["fit", name, *data, *settings, *given, "-o", str(tmp_path / "run")])
    out, err = capsys.readouterr()
    if not labelled and name in CLASSIFIERS:
        assert status == 2 and "Error: " in err and "Traceback" not in err  # it says that it wants labels
        return
    assert status == 0, err
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    own, *controls = found["rows"]
    assert own["name"] == name and found["measure"] in own and not [row for row in found["rows"] if "why" in row]
    assert any(found["measure"] in row for row in controls)
    assert f"{own[found['measure']]:.3f}" in out and found["verdict"][1:] in out
    page = (tmp_path / "run" / "report.html").read_text()
    pictures = re.findall(r'<svg [^>]*aria-label="([^"]*)', page)
    assert any(picture.startswith("Comparison with simple controls") for picture in pictures)
    assert [one for one in pictures if not one.startswith(("Comparison", "Objective", "Evaluations", "Gradient"))], (
        pictures
    )
