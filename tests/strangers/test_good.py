"""A stranger's distribution works through the API and the command line like a bundled one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import parametrize
from strangers.distributions import command, write_good

API = """
import numpy as np, manifoldseq as ms
data = ms.get_model("acme.procrustes").example(np.random.default_rng(0))
problem = ms.get_model("acme:acme.procrustes").problem(data, weight=2.0)
closed = ms.minimize(problem)
assert closed.success and closed.nit == 0, closed
descent = ms.minimize(problem, closed.x @ np.linalg.matrix_power(np.eye(4), 2), solver="pgd")
assert abs(descent.fun - closed.fun) <= 1e-8 * closed.fun
from scipy.linalg import orthogonal_procrustes
assert np.allclose(closed.x, orthogonal_procrustes(*data)[0], atol=1e-10)
"""

KERNEL = """
import numpy as np, manifoldseq as ms
kernel = ms.get_kernel("acme-gain")
items = ms.hooks.get_domain("lds").example(np.random.default_rng(0))
packed = kernel.pack(items)
gram = kernel.cross(packed, packed)
assert np.allclose(np.diag(gram), kernel.diag(packed))
assert np.linalg.eigvalsh(gram).min() > -1e-10
"""

CLUSTERING = """
import numpy as np, manifoldseq as ms
from manifoldseq_lds import LDSKMeans, LDSKernelMatrix
rng, t = np.random.default_rng(0), np.arange(40)[:, None]
X = [np.cos(t * w + rng.uniform(0, 6) + np.arange(3)) for w in [0.2] * 4 + [0.9] * 4]
model = LDSKMeans(2, n_states=2, kernel="acme-gain", inner_iter=1, max_iter=2, n_init=1, random_state=0).fit(X)
kernel = ms.get_kernel("acme-gain")
centres, data = kernel.pack(model.systems_), kernel.pack(LDSKernelMatrix(n_states=2).fit(X).systems_)
squared = kernel.diag(data) + kernel.diag(centres)[:, None] - 2 * kernel.cross(centres, data)
assert np.array_equal(model.labels_, squared.argmin(axis=0))
assert LDSKernelMatrix("acme-gain", n_states=2).fit_transform(X).shape == (8, 8)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the good distribution."""
    folder = tmp_path_factory.mktemp("site")
    write_good(folder)
    return folder


@parametrize("code", [API, KERNEL, CLUSTERING], fast=1, ids=["model", "kernel", "kernel by name"])
def test_works_through_the_api(site: Path, code: str) -> None:
    script = f"import sys; sys.path[:0] = [{str(site)!r}]\n{code}"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_is_listed_with_its_distribution(site: Path) -> None:
    listed = {plugin["name"]: plugin for plugin in json.loads(command(site, "list", "plugins", "--json").stdout)}
    assert listed["acme"]["distribution"] == "acme-procrustes"
    assert listed["acme"]["version"] == "1.2"
    assert listed["acme"]["registers"] == {"models": ["acme.procrustes"], "kernels": ["acme-gain"]}


@parametrize(("listing", "name"), [("models", "acme.procrustes"), ("kernels", "acme-gain")], fast=1)
def test_is_in_the_listings(site: Path, listing: str, name: str) -> None:
    assert name in command(site, "list", listing).stdout
    (record,) = [one for one in json.loads(command(site, "list", listing, "--json").stdout) if one["name"] == name]
    assert record["plugin"] == "acme"


@pytest.mark.slow
def test_adds_its_command(site: Path) -> None:
    assert command(site, "acme-greet").stdout == "hello from acme\n"
    assert "acme-greet" in command(site, "--help").stdout


@pytest.mark.slow
def test_passes_the_conformance_checks(site: Path) -> None:
    done = command(site, "check", "acme_procrustes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "acme.procrustes" in done.stdout and "acme-gain" in done.stdout
    assert "2 records checked: 2 tested and passed." in done.stdout
    disabled = command(site, "check", "acme_procrustes", MANIFOLDSEQ_DISABLE_PLUGINS="acme")
    assert disabled.returncode == 2 and "no plugin is registered" in disabled.stderr
