"""A stranger's centre rule and family of atoms work by name in the bundled estimators, from at most 25 lines each."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from strangers.distributions import command, write

import manifoldseq as ms
from manifoldseq_lds import LDSDictionaryLearning, LDSKMeans, Systems

ROOT = Path(__file__).parents[2]
FILES = {name: Path(__file__).with_name(f"{name}.py") for name in ("trimmed_medoid", "output_atoms")}
CENTRE, ATOMS = "mine:trimmed-medoid", "mine:outputs"
OURS = ms.hooks.register.__globals__["_registry"]


def registered(monkeypatch, name, plugin):
    """Register one of the files as a module of another name, in a session where nothing is registered yet."""
    monkeypatch.setattr(OURS, "_registered", {})
    spec = importlib.util.spec_from_file_location(plugin, FILES[name])
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, plugin, module)
    spec.loader.exec_module(module)
    ms.register(module)
    return module


def turned(N=10, seed=0):
    """Systems around one system, the last two far from it."""
    rng = np.random.default_rng(seed)
    base, noise = rng.standard_normal((5, 2)), np.where(np.arange(N) < N - 2, 0.1, 2.0)[:, None, None]
    C = np.linalg.qr(base + noise * rng.standard_normal((N, 5, 2)))[0]
    return Systems(0.5 * np.eye(2) + 0.05 * rng.standard_normal((N, 2, 2)), C)


def test_a_centre_rule_is_used_by_its_name(monkeypatch, tmp_path):
    module, data = registered(monkeypatch, "trimmed_medoid", "mine"), turned()
    kernel = ms.get_kernel("projection")
    K = kernel.cross(kernel.pack(data), kernel.pack(data))
    squared = np.diag(K)[:, None] + np.diag(K) - 2 * K
    first = squared.sum(axis=1).argmin()
    near = sorted(np.argsort(squared[first])[:8])
    best = near[int(squared[np.ix_(near, near)].sum(axis=1).argmin())]
    model = LDSKMeans(1, mean=CENTRE, max_iter=1).fit(data)
    values = kernel.cross(kernel.pack(model.systems_), kernel.pack(data))[0]
    assert values.argmax() == best and values[best] == pytest.approx(2)
    given = LDSKMeans(1, mean=module.TrimmedMedoid(), max_iter=1).fit(data)
    np.testing.assert_array_equal(given.systems_.C, model.systems_.C)
    ms.storage.save_model(given, tmp_path)
    assert ms.storage.load_model(tmp_path).mean == module.TrimmedMedoid()


def test_a_family_of_atoms_is_used_by_its_name(monkeypatch, tmp_path):
    module, data = registered(monkeypatch, "output_atoms", "mine"), turned(24)
    model = LDSDictionaryLearning(3, method=ATOMS, tol=0.0, max_iter=5, random_state=0).fit(data)
    assert (np.diff(model.history_["fun"]) <= 1e-12).all() and model.history_["fun"][-1] < model.history_["fun"][0]
    (C,) = model.atoms_
    np.testing.assert_array_equal(model.systems_.C, C)
    gram, cross = (np.array([[np.sum((a.T @ b) ** 2) for b in some] for a in C]) for some in (C, data.C))
    values = [
        2 - 2 * z @ k + z @ gram @ z + 0.1 * np.abs(z).sum()
        for z, k in zip(model.transform(data), cross.T, strict=True)
    ]
    assert model.objective_ == pytest.approx(np.mean(values), abs=1e-9)
    model.set_params(method=module.OutputAtoms()).partial_fit(data)
    ms.storage.save_model(model, tmp_path)
    again = ms.storage.load_model(tmp_path)
    np.testing.assert_array_equal(again.transform(data), model.transform(data))


def test_a_rule_is_for_its_parameter_and_replaces_no_bundled_one(monkeypatch):
    registered(monkeypatch, "output_atoms", "mine")
    with pytest.raises(ValueError, match=r"mean='mine:outputs' is not known: choose .*'medoid'") as caught:
        LDSKMeans(1, mean=ATOMS).fit(turned())
    assert "grass'" in str(caught.value) or "papers" not in {one.name for one in ms.hooks.plugins()}
    with pytest.raises(ValueError, match=r"method='exact' is not known: choose 'lbfgs', 'canonical', 'pgd'.*'outputs'"):
        LDSDictionaryLearning(2, method="exact").fit(turned())
    expected = LDSKMeans(1).fit(turned()).systems_.C
    record = ms.hooks.RuleSpec(
        "exact", "manifoldseq_lds.means._centre_rules:Medoid", estimator="lds-kmeans", parameter="mean"
    )
    ms.register(record)  # of this process: also for the default
    np.testing.assert_allclose(
        LDSKMeans(1).fit(turned()).systems_.C, LDSKMeans(1, mean="medoid").fit(turned()).systems_.C
    )
    assert np.abs(LDSKMeans(1, mean="lds:exact").fit(turned()).systems_.C - expected).max() == 0
    ms.register(ms.hooks.RuleSpec("number", lambda: 3, estimator="lds-kmeans", parameter="mean"))
    words = r"mean='number' is of type int, which is not a rule for centres: derive .* manifoldseq_lds\.CentreRule"
    with pytest.raises(ValueError, match=words):
        LDSKMeans(1, mean="number").fit(turned())


def test_an_installed_rule_is_listed_and_used(tmp_path):
    files = {"__init__.py": "", "_plugin.py": FILES["trimmed_medoid"].read_text(encoding="utf-8")}
    write(tmp_path, "mine", "stranger_rules", files)
    (found,) = [
        one for one in json.loads(command(tmp_path, "list", "rules", "--json").stdout) if one["plugin"] == "mine"
    ]
    assert (found["name"], found["estimator"], found["parameter"]) == ("trimmed-medoid", "lds-kmeans", "mean")
    code = f"""
import sys; sys.path[:0] = [{str(tmp_path)!r}]
import numpy as np
from manifoldseq_lds import LDSKMeans
X = [np.cumsum(np.random.default_rng(i).standard_normal((30, 3)), axis=0) for i in range(6)]
assert LDSKMeans(2, n_states=2, mean={CENTRE!r}, random_state=0).fit(X).labels_.shape == (6,)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_it_passes_the_conformance_checks(name):
    done = command(None, "check", str(FILES[name]))
    assert done.returncode == 0 and "1 tested and passed" in done.stdout, done.stdout + done.stderr


def test_the_shell_takes_a_rule_of_a_file(tmp_path):
    rows = np.cumsum(np.random.default_rng(0).standard_normal((6, 30, 3)), axis=1)
    np.savez(tmp_path / "data.npz", *rows)
    rule = f"{FILES['trimmed_medoid']}:trimmed-medoid"
    settings = ("--set", "n_clusters=2", "--set", "n_states=2", "--set", f"mean={rule}")
    done = command(None, "fit", "lds-kmeans", "data.npz", *settings, "-o", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trimmed_medoid.py:trimmed-medoid" in (tmp_path / "run" / "run.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_it_is_the_one_on_the_page_in_25_lines(name):
    source = FILES[name].read_text(encoding="utf-8")
    page = (ROOT / "docs" / "develop" / "write-a-rule.md").read_text(encoding="utf-8")
    assert f"```python\n{source}```" in page
    assert len([line for line in source.splitlines() if line.strip() and '"""' not in line]) <= 25
