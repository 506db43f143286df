"""A stranger's estimator of sixty lines: the page shows it, and it works like a bundled one."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from strangers.distributions import PACKAGES, command, write

ROOT = Path(__file__).parents[2]
SOURCE = PACKAGES / "k_planes" / "estimator.py"

WORKS = """
import logging
import numpy as np, manifoldseq as ms
from k_planes.estimator import KPlanes
from sklearn.base import clone
from sklearn.decomposition import PCA
ms.testing.check_estimator(KPlanes()).raise_for_failure()

rng = np.random.default_rng(0)
labels = np.arange(300) % 3
bases = [np.linalg.qr(rng.standard_normal((6, 2)))[0] for _ in range(3)]
places = 2 * rng.standard_normal((3, 6))
X = np.stack([places[k] + bases[k] @ rng.standard_normal(2) + 0.02 * rng.standard_normal(6) for k in labels])
model = KPlanes(3, 2, n_init=20, random_state=0).fit(X)
pairs = {(int(a), int(b)) for a, b in zip(labels, model.labels_)}
assert len(pairs) == 3 and model.status_.success, pairs
assert np.isclose(model.inertia_ / 300, 4 * 0.02**2, rtol=0.2)
assert (np.diff(model.history_["fun"]) <= 1e-12).all()
for k in range(3):  # every plane is that of its rows, by scikit-learn
    pca = PCA(2).fit(X[model.labels_ == k])
    assert np.allclose(pca.mean_, model.cluster_centers_[k])
    assert np.allclose(pca.components_.T @ pca.components_, model.bases_[k] @ model.bases_[k].T, atol=1e-8)

def same(one, other):
    pairs = [(one.cluster_centers_, other.cluster_centers_), (one.history_["fun"], other.history_["fun"])]
    return all(np.array_equal(a, b) for a, b in pairs)

for n_jobs in (1, 2, -1):
    assert same(clone(model).set_params(n_jobs=n_jobs).fit(X), model)
with ms.execution.using("threads", 2):
    assert same(clone(model).fit(X), model)

store = ms.storage.Checkpoint("run", every_seconds=0)
def interrupt(event):
    if event.nit == 2 and event.status is None:
        raise KeyboardInterrupt
part = clone(model).fit(X, observers=[interrupt], checkpoint=store)
assert part.status_ is ms.Status.INTERRUPTED and part.n_iter_ == 2
assert same(clone(model).fit(X, checkpoint=store, resume=True), model)
for other in (X + 1e-9, X[1:]):
    try:
        clone(model).fit(other, checkpoint=store, resume=True)
        raise SystemExit("accepted other data")
    except ms.storage.CheckpointError:
        pass

said = []
class Heard(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())
logging.getLogger("manifoldseq").addHandler(Heard())
clone(model).set_params(n_init=2, verbose=1).fit(X)
assert len(said) == 2 and said[0].startswith("KPlanes, start 1 of 2: iteration "), said
for name, value in {"n_clusters": 0, "n_components": 1.5, "n_init": 0, "tol": -1, "n_jobs": 0, "verbose": "a"}.items():
    try:
        clone(model).set_params(**{name: value}).fit(X)
        raise SystemExit(f"accepted {name}={value!r}")
    except ValueError as error:
        assert str(error).startswith(f"{name}={value!r} is not valid: pass"), error
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write(folder, "k-planes", "k_planes")
    return folder


@pytest.mark.slow
def test_clusters_resumes_and_runs_on_threads(site: Path) -> None:
    script = f"import sys; sys.path[:0] = [{str(site)!r}]\n{WORKS}"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=site, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_is_listed_and_passes_the_conformance_checks(site: Path) -> None:
    assert "k-planes" in command(site, "list", "estimators").stdout
    done = command(site, "check", "k_planes")
    assert done.returncode == 0 and "1 tested and passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_fits_from_the_shell(site: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(site / "rows.npy", rng.standard_normal((80, 1)) * [1, 2, 3] + 0.1 * rng.standard_normal((80, 3)))
    done = command(site, "fit", "k-planes", "rows.npy", "--jobs", "2", "--seed", "0", "-o", "planes", cwd=site)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((site / "planes" / "run.json").read_text())["state"] == "done"
    assert "agreement" in (site / "planes" / "evaluation.json").read_text()


def test_it_is_the_one_on_the_page_in_sixty_lines_of_public_names() -> None:
    source = SOURCE.read_text(encoding="utf-8")
    page = (ROOT / "docs" / "develop" / "write-an-estimator.md").read_text(encoding="utf-8")
    assert f"```python\n{source}```" in page
    tree = ast.parse(source)
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not [name for name in attributes if name.startswith("_")]
    assert len([line for line in source.splitlines() if line.strip() and '"""' not in line]) <= 60
