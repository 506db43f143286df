"""Figure 2 and Table 1 at small sizes: rows, resuming, the figure, the folder of a user, and errors."""

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

import manifoldseq as ms
from manifoldseq.reproduction import finished
from manifoldseq_lds import (
    LBPTOP,
    BagOfSystems,
    LDSDictionaryLearning,
    LDSIdentifier,
    PyramidPooling,
    VideoBlocks,
    dynamic_textures,
    read_textures,
    sparse_codes,
)

figure2 = ms.hooks.get_reproduction("lds-fig2").run
table1 = ms.hooks.get_reproduction("lds-table1").run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("textures")
    videos, labels = dynamic_textures(12, size=12, frames=50)
    for i, (video, label) in enumerate(zip(videos, labels % 2, strict=True)):
        (root / f"class{label}").mkdir(exist_ok=True)
        np.save(root / f"class{label}" / f"{i}.npy", video)
    return root


@pytest.fixture(scope="module")
def small_figure(folder, tmp_path_factory):
    root = tmp_path_factory.mktemp("figure")
    settings = {"n_atoms": 2, "max_iter": 2, "n_seeds": 1, "complexity": False, "folder": str(root / "parts")}
    return root, settings, figure2(folder, figure=str(root / "figure.png"), **settings)


@pytest.fixture(scope="module")
def small_table(folder, tmp_path_factory):
    settings = {"size": (25, 6, 6), "n_states": 3, "n_words": 3, "max_iter": 1, "n_seeds": 1, "max_blocks": 2}
    settings |= {"n_folds": 3, "folder": str(tmp_path_factory.mktemp("table"))}
    return settings, table1(folder, **settings)


def test_figure_2_on_a_folder(folder, small_figure):
    root, settings, rows = small_figure
    assert (root / "figure.png").stat().st_size > 10_000
    ends = {row["model"]: row["ours"] for row in rows if row["metric"] == "NR, test, end"}
    assert set(ends) == {"PGD-full", "PGD-128", "LDSST", "Grass-3", "ours (L-BFGS)"} and ends["ours (L-BFGS)"] < 0
    assert {row["paper"] for row in rows if "times faster" in row["metric"]} == {50.0}
    kept = sorted(path.stat().st_mtime_ns for path in (root / "parts").iterdir())
    assert figure2(folder, resume=True, **settings) == rows
    assert sorted(path.stat().st_mtime_ns for path in (root / "parts").iterdir()) == kept


@pytest.mark.slow
def test_exponents_of_figure_2_are_measured_where_atoms_move(folder, small_figure, tmp_path, monkeypatch):
    sizes = {True: ([(1500, 8), (2000, 8)], [(2000, 6), (2000, 8)]), False: ([(30, 3), (60, 3)], [(60, 3), (60, 6)])}
    monkeypatch.setattr("manifoldseq_papers.lds._figure2._SIZES", sizes)
    rows = figure2(folder, **small_figure[1] | {"folder": str(tmp_path), "complexity": True})
    exponents = [row["ours"] for row in rows if row["metric"].startswith("exponent")]
    assert len(exponents) == 6 and np.isfinite(exponents).all()  # at the data themselves the first epoch was the last


def test_rates_of_figure_2_are_halved_only_where_pgd_has_them(folder, small_figure, tmp_path):
    settings = small_figure[1] | {"folder": str(tmp_path)}
    halved = figure2(folder, halve_every=1, **settings)
    ends = [
        {row["model"]: row["ours"] for row in rows if row["metric"] == "NR, test, end"}
        for rows in (halved, small_figure[2])
    ]
    assert {model for model in ends[0] if ends[0][model] != ends[1][model]} == {"PGD-full", "PGD-128"}


def test_errors_of_figure_2_are_those_of_the_test_half(folder, small_figure):
    """Both readings of the error of one half of the systems, by (9), with atoms learned from the other half."""
    rows = small_figure[2]
    found = {row["metric"]: row["ours"] for row in rows if row["model"] == "ours (L-BFGS)"}
    videos = read_textures(folder)
    systems = LDSIdentifier(10, scale=False).fit_transform(LBPTOP().transform([videos[i] for i in range(12)]))
    rng, kernel = np.random.default_rng(0), ms.get_kernel("projection")
    order = rng.permutation(12)
    train, test = systems[order[:6]], systems[order[6:]]
    first = train[rng.choice(6, 2, replace=False)]
    how = {"method": "canonical", "inner_iter": 3, "max_iter": 2, "tol": 0.0}
    learned = LDSDictionaryLearning(2, n_states=10, init=first, **how).fit(train)
    P, errors, costs = kernel.pack(test), [], []
    for atoms in (first, learned.systems_):
        D = kernel.pack(atoms)
        gram, cross = kernel.cross(D, D), kernel.cross(D, P)
        Z = sparse_codes(gram, cross, 0.1)
        parts = [(z @ gram @ z - 2 * z @ k, 0.1 * np.abs(z).sum()) for z, k in zip(Z.T, cross.T, strict=True)]
        costs.append(np.mean([cost for cost, _ in parts]))
        errors.append(10 + np.mean([cost + penalty for cost, penalty in parts]))
    assert found["NR, test, end"] == pytest.approx((errors[1] - errors[0]) / errors[0], rel=1e-6)
    assert found["NR without constant, test, end"] == pytest.approx((costs[1] - costs[0]) / -costs[0], rel=1e-6)


def chosen_and_counted(grams, labels, train, test):
    """How many of the test items the machine classifies right that is best in an inner cross-validation."""
    scores = {}
    for g, gram in enumerate(grams):
        for C in (0.1, 1.0, 10.0, 100.0):
            inner = StratifiedKFold(max(2, min(5, np.bincount(labels[train]).min()))).split(train, labels[train])
            scores[g, C] = 0
            for a, b in inner:
                machine = SVC(kernel="precomputed", C=C).fit(gram[train[a]][:, train[a]], labels[train[a]])
                scores[g, C] += np.sum(machine.predict(gram[train[b]][:, train[a]]) == labels[train[b]])
    g, C = max(scores, key=scores.get)
    machine = SVC(kernel="precomputed", C=C).fit(grams[g][train][:, train], labels[train])
    return np.sum(machine.predict(grams[g][test][:, train]) == labels[test])


@pytest.mark.slow
def test_accuracies_of_table_1_are_those_of_items_that_were_left_out(folder, small_table):
    rows = small_table[1]
    settings, grams = {"n_states": 3, "max_iter": 1, "max_blocks": 2, "random_state": 0}, {}
    settings["identifier"] = LDSIdentifier(scale=False)
    found = {row["model"]: row["ours"] for row in rows if row["unit"] == "%"}
    videos = read_textures(folder)
    labels = np.unique(videos.labels, return_inverse=True)[1]
    blocks = VideoBlocks((25, 6, 6)).transform([videos[i] for i in range(12)])
    for model, mean in (("MDS", "mds"), ("Align", "align"), ("PGD", "toolbox"), ("ours", "exact")):
        bags = BagOfSystems(3, n_init=1, mean=mean, **settings).fit_transform(blocks)
        pairs = [
            [sum((x - y) ** 2 / (x + y) for x, y in zip(a, b, strict=True) if x + y) / 2 for b in bags] for a in bags
        ]
        grams[f"{model} + BoS"] = [np.exp(-np.array(pairs) / (width * np.mean(pairs))) for width in (0.25, 1.0, 4.0)]
    for model, special in {
        "Grass-3": {"method": "grassmann"},
        "LDSST": {"method": "symmetric"},
        "PGD": {"method": "pgd", "batch_size": (20, 4), "step_size": (0.5, 0.5, 5.0)},
        "ours": {"method": "canonical", "inner_iter": 3},
    }.items():
        pooled = PyramidPooling(3, alpha=0.1, **special, **settings).fit_transform(blocks)
        grams[f"{model} + STPM"] = [pooled @ pooled.T]
    for model, some in grams.items():
        folds = StratifiedKFold(3, shuffle=True, random_state=0).split(labels, labels)
        right = sum(chosen_and_counted(some, labels, train, test) for train, test in folds)
        assert found[model] == pytest.approx(100 * right / 12)


def test_table_1_on_a_folder(folder, small_table):
    settings, rows = small_table
    accuracies = {row["model"]: row["ours"] for row in rows if row["unit"] == "%"}
    bags = {f"{model} + BoS" for model in ("MDS", "Align", "PGD", "ours")}
    assert set(accuracies) == bags | {f"{model} + STPM" for model in ("Grass-3", "LDSST", "PGD", "ours")}
    assert all(0 <= value <= 100 for value in accuracies.values())
    assert table1(folder, resume=True, **settings) == rows


def test_parts_are_computed_once_and_again_if_damaged(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"value": len(calls)}

    assert [finished(tmp_path, True, {"a": (1, 2)}, compute)["value"] for _ in range(2)] == [1, 1]
    assert finished(tmp_path, False, {"a": (1, 2)}, compute)["value"] == 2
    (next(tmp_path.glob("*.json"))).write_text("{")
    assert finished(tmp_path, True, {"a": (1, 2)}, compute)["value"] == 3
    assert finished(None, True, {"a": (1, 2)}, compute)["value"] == 4


@pytest.mark.parametrize("name", ["lds-fig2", "lds-table1"])
def test_registered_and_invalid_arguments(name, tmp_path):
    record = ms.hooks.get_reproduction(name)
    for bad, sentence in (({"datasets": "cinema"}, "cinema"), ({"n_seeds": 0}, "n_seeds=0")):
        with pytest.raises(ValueError, match=sentence):
            record.run(folder=str(tmp_path), **bad)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_none_is_told():
    with pytest.raises(ValueError, match="folder=3 is not valid: name a folder"):
        finished(3, False, {}, dict)
    with pytest.raises(ValueError, match="folder=3 is not valid: name a folder"):
        ms.hooks.get_reproduction("lds-fig1").run(folder=3)
