"""Table 6 on a small generated corpus: its rows, resuming, bad recordings; networks on windows with validation rows."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import parametrize

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import manifoldseq as ms
from manifoldseq_hope import HOPENetworkClassifier, ReduceOnPlateau, Windows
from manifoldseq_papers import PhoneDecoder, generate_phone_corpus, read_timit, write_sphere
from manifoldseq_papers.hope import _phone_corpus as _phone_corpus
from manifoldseq_papers.hope import _table6 as table
from manifoldseq_papers.hope import _timit as _timit
from manifoldseq_papers.hope._phone_decoder import uniform_states
from manifoldseq_papers.hope._phones import PHONES, read_phn

SMALL: dict[str, Any] = {"K": 40, "M": 12, "width": 30, "deep_M": 10, "epochs": 4, "rate": 0.01}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Yield a generated corpus of few speakers."""
    folder = tmp_path_factory.mktemp("speech") / "timit"
    with pytest.MonkeyPatch.context() as patch:
        for module in (_timit, _phone_corpus):
            patch.setattr(module, "CORE_TEST", _timit.CORE_TEST[:3])
            patch.setattr(module, "DEVELOPMENT", _timit.DEVELOPMENT[:3])
        generate_phone_corpus(folder, train_speakers=10, sentences=3, test_sentences=1)
        yield folder


def sequences(rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """Return frames that say little, and labels that the frames around say."""
    parts, labels = [], []
    for T in rng.integers(5, 60, 30):
        y = np.repeat(rng.integers(0, 3, T), 4)[:T]
        parts.append(np.eye(3)[y] + 1.2 * rng.standard_normal((T, 3)))
        labels.append(y)
    return parts, np.concatenate(labels)


@pytest.mark.parametrize("init", ["uniform", "pca"])
def test_a_network_learns_from_windows_what_it_learns_from_their_rows(init: str, tmp_path: Path) -> None:
    parts, y = sequences(np.random.default_rng(0))
    windows = Windows(parts, width=5)
    rows = windows[0 : len(windows)]
    settings: dict[str, Any] = {"init": init, "max_iter": 4, "random_state": 0}
    one = HOPENetworkClassifier([(6, 20)], **settings).fit(windows, y, checkpoint=tmp_path / "one")
    two = HOPENetworkClassifier([(6, 20)], **settings).fit(rows, y)
    np.testing.assert_allclose(one.decision_function(windows), two.decision_function(rows), atol=1e-5)
    np.testing.assert_array_equal(one.predict(windows), one.predict(rows))
    assert np.mean(one.predict(windows) == y) > np.mean(np.argmax(np.concatenate(parts), axis=1) == y)
    other = Windows([2 * part for part in parts], width=5)
    with pytest.raises(ValueError, match="other data"):
        HOPENetworkClassifier([(6, 20)], **settings).fit(other, y, checkpoint=tmp_path / "one", resume=True)
    with pytest.raises(ValueError, match="windows of 9 values"):
        one.predict(Windows(parts, width=3))
    with pytest.raises(ValueError, match="pass one label per row"):
        one.fit(windows, y[:-1])


def test_rate_follows_the_error_on_validation_rows_and_resumes(tmp_path: Path) -> None:
    parts, y = sequences(np.random.default_rng(0))
    held, truth = sequences(np.random.default_rng(1))
    X, T = Windows(parts, 5), Windows(held, 5)
    settings: dict[str, Any] = {"learning_rate": ReduceOnPlateau(0.05), "batch_size": 20, "random_state": 0}
    whole = HOPENetworkClassifier([20], max_iter=60, **settings).fit(X, y, validation=(T, truth))
    errors = whole.history_["validation_error"]
    assert errors[-1] == pytest.approx(100 * np.mean(whole.predict(T) != truth))
    assert whole.status_ is ms.Status.COST_CHANGE and whole.n_iter_ < 60
    assert ReduceOnPlateau(0.05).ended(errors.tolist()) and not ReduceOnPlateau(0.05).ended(errors[:-1].tolist())
    HOPENetworkClassifier([20], max_iter=3, **settings).fit(X, y, validation=(T, truth), checkpoint=tmp_path)
    settings |= {"max_iter": 60, "momentum_epochs": 3}
    rest = HOPENetworkClassifier([20], **settings).fit(X, y, validation=(T, truth), checkpoint=tmp_path, resume=True)
    again = HOPENetworkClassifier([20], **settings).fit(X, y, validation=(T, truth))
    np.testing.assert_array_equal(rest.history_["validation_error"], again.history_["validation_error"])
    np.testing.assert_array_equal(rest.layers_[0].weight, again.layers_[0].weight)
    with pytest.raises(ValueError, match="pass validation"):
        HOPENetworkClassifier([20], **settings).fit(X, y)


def test_classes_that_are_not_learned_are_errors() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.repeat([2, 5], 20)
    X[y == 5] += 9
    network = HOPENetworkClassifier([9], max_iter=20, random_state=0)
    network.fit(X, y, validation=(X, np.where(np.arange(40) < 10, 7, y)))
    assert network.history_["validation_error"][-1] == pytest.approx(25)


@pytest.mark.slow
def test_table_has_the_rows_of_the_paper_and_resumes(corpus: Path, tmp_path: Path) -> None:
    settings = SMALL | {"epochs": 2}
    rows = table.table6(corpus, seeds=2, folder=tmp_path, **settings)
    assert [(row["model"], row["metric"], row["paper"]) for row in rows] == [
        ("NN", "frame accuracy", 61.45),
        ("NN", "phone error", 23.85),
        ("HOPE-NN", "frame accuracy", 62.11),
        ("HOPE-NN", "phone error", 23.04),
        ("DNN", "frame accuracy", 63.13),
        ("DNN", "phone error", 22.37),
        ("HOPE-DNN", "frame accuracy", 63.55),
        ("HOPE-DNN", "phone error", 21.59),
    ]
    assert rows[2]["setting"] == "TIMIT 1845-[12-40]-183; paper: TIMIT 1845-[256-10240]-183"
    assert all(row["ours_se"] is not None and 0 < row["ours"] < 100 for row in rows)
    assert np.mean([row["ours"] for row in rows[::2]]) > 10  # of 183 states
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert len(before) > 8
    settings["models"] = "HOPE-DNN"
    assert table.table6(corpus, seeds=2, folder=tmp_path, resume=True, **settings) == rows[-2:]


@pytest.mark.parametrize(
    ("model", "name", "layers"),
    [
        ("NN", "1845-10240-183", (10240,)),
        ("HOPE-NN", "1845-[256-10240]-183", ((256, 10240),)),
        ("DNN", "1845-3*2048-183", (2048, 2048, 2048)),
        ("HOPE-DNN", "1845-[512-2048]-2*2048-183", ((512, 2048), 2048, 2048)),
    ],
)
def test_networks_are_the_paper_s(model: str, name: str, layers: tuple[Any, ...]) -> None:
    """Of 15 frames of 123 values, to three states of 61 phones."""
    assert table._architecture(model, table.PAPER) == (name, layers)
    assert Windows([np.zeros((20, 123))], table.CONTEXT).shape[1] == 1845 and 3 * len(PHONES) == table._N == 183


@pytest.mark.slow
def test_figures_are_what_the_network_does(corpus: Path, tmp_path: Path) -> None:
    """The whole way once more by hand: features, normalization, windows, accuracy, decoding at the chosen weights."""
    found = read_timit(corpus)
    parts = (found.train, found.development, found.test)
    task = table._Task(*(table._Part.read(part) for part in parts)).normalized()
    frames = task.train.features
    np.testing.assert_allclose(frames.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(frames.std(axis=0), 1, atol=1e-3)
    first = read_phn(found.train[0].labels)
    centres = 160 * np.arange(task.train.lengths[0]) + 200
    segments = [next((i for i, end in enumerate(first.ends) if c < end), len(first.ends) - 1) for c in centres]
    assert task.train.cut(task.train.states)[0].tolist() == uniform_states(segments, first.phones).tolist()
    recipe = table._Recipe("HOPE-NN", ((12, 40),), 0.01, 4, "polar", tmp_path, False)
    network = recipe.network(task, 0)
    assert network.history_["feasibility"].max() < 2e-6
    accuracy, error = task.measured(network)
    X = Windows(task.test.cut(task.test.features), 15)
    chance = network.predict_proba(X)
    assert accuracy == pytest.approx(100 * np.mean(network.classes_[chance.argmax(axis=1)] == task.test.states))
    prior = np.bincount(task.train.states, minlength=183) / len(task.train.states)
    expected = np.log(chance) - np.log(prior[network.classes_])
    scores = task.scores(network, task.test)
    shift = np.concatenate(scores)[:, network.classes_] - expected
    np.testing.assert_allclose(shift - shift.mean(axis=1, keepdims=True), 0, atol=1e-3)
    unseen = np.setdiff1d(np.arange(183), network.classes_)
    assert (np.concatenate(scores)[:, unseen] == table._RARE).all()
    decoder = task.decoder()
    errors = {}
    for scale in table._SCALES:
        for insertion in table._INSERTIONS:
            parts = (decoder.log_start, decoder.log_next, decoder.log_end, decoder.log_stay, decoder.log_leave)
            one = PhoneDecoder(*parts, scale, insertion)
            dev = [one.decode(s) for s in task.scores(network, task.development)]
            errors[table.phone_error(dev, task.development.phones)] = [one.decode(s) for s in scores]
    assert error == pytest.approx(table.phone_error(errors[min(errors)], task.test.phones))


def test_alignments_move_borders_and_keep_transcripts(corpus: Path, tmp_path: Path) -> None:
    found = read_timit(corpus)
    parts = (found.train, found.development, found.test)
    task = table._Task(*(table._Part.read(part) for part in parts)).normalized()
    network = table._Recipe("NN", (40,), 0.01, 4, None, tmp_path, False).network(task, 0)
    again = task.realigned(network)
    assert 0.01 < np.mean(again.train.states != task.train.states) < 0.6
    for part in (again.train, again.development, again.test):
        for states, phones in zip(part.cut(part.states), part.phones, strict=True):
            order = states[np.diff(states, prepend=-1) != 0]
            assert (order[:1] % 3 == 0).all() and np.isin(order // 3, phones).all()


def test_a_sentence_with_too_few_frames_keeps_its_states(corpus: Path, tmp_path: Path) -> None:
    """Forty phones in forty frames cannot have three states each."""
    found = read_timit(corpus)
    parts = [table._Part.read(part) for part in (found.train, found.development, found.test)]
    phones = np.arange(40) % len(PHONES)
    short = table._Part(parts[2].features[:40], np.array([40]), (phones,), 3 * phones)
    task = table._Task(parts[0], parts[1], short).normalized()
    network = table._Recipe("NN", (20,), 0.01, 1, None, tmp_path, False).network(task, 0)
    np.testing.assert_array_equal(task.realigned(network).test.states, short.states)


@pytest.mark.slow
def test_a_search_reports_every_rate_and_a_lost_network_halves_it(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "GRID", (0.001, 0.01))
    settings = SMALL | {"epochs": 2, "models": "NN", "realignments": 0, "rate": None}
    rows = table.table6(corpus, folder=tmp_path / "a", search=True, **settings)
    assert [row["metric"] for row in rows] == 2 * ["development frame error"] + ["frame accuracy", "phone error"]
    settings |= {"rate": 40.0}
    rows = table.table6(corpus, folder=tmp_path / "b", **settings)
    assert (
        ", some at rates " in rows[0]["setting"]
        and np.isfinite(rows[0]["ours"])
        and len(list((tmp_path / "b").iterdir())) > 2
    )


@pytest.mark.slow
def test_without_data_a_corpus_is_generated_once(corpus: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = SMALL | {"models": ["HOPE-NN"], "epochs": 1, "train_speakers": 2, "sentences": 1}
    rows = table.table6(folder=tmp_path, **settings)
    assert rows[0]["setting"].startswith("generated 1845-[12-40]-183; paper: TIMIT") and rows[0]["ours_se"] is None
    (place,) = tmp_path.glob("corpus*")
    written = {path: path.stat().st_mtime_ns for path in place.rglob("*.wav")}
    assert len(read_timit(place).train) == 2
    assert table.table6(folder=tmp_path, resume=True, **settings) == rows
    assert written == {path: path.stat().st_mtime_ns for path in place.rglob("*.wav")}


@parametrize(
    ("kind", "words"),
    [
        ("rate", "1 channels of 8000 samples/s: convert the file to one channel of 16000"),
        ("stereo", "2 channels"),
        ("short", "a frame has 400"),
        ("cut", "copy both files again"),
        ("phone", "'zz' is not a phone of TIMIT"),
    ],
    fast=2,
)
def test_bad_sentences_raise_an_error(corpus: Path, tmp_path: Path, kind: str, words: str) -> None:
    shutil.copytree(corpus, tmp_path / "bad")
    one = read_timit(tmp_path / "bad").test[0]
    noise = np.random.default_rng(0).integers(-99, 99, (16000, 2)).astype(np.int16)
    if kind == "phone":
        one.labels.write_text("0 100 zz\n")
    else:
        samples, rate = {"rate": (noise[:, 0], 8000), "stereo": (noise, 16000)}.get(kind, (noise[:300, 0], 16000))
        write_sphere(one.audio, samples, rate)
    if kind == "short":
        one.labels.write_text("0 300 h#\n")
    with pytest.raises(ms.storage.ReadError) as caught:
        table.table6(tmp_path / "bad", folder=tmp_path / "run", **SMALL)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@parametrize(
    ("settings", "words"),
    [
        ({"models": ["SVM"]}, "'NN', 'HOPE-NN', 'DNN' or 'HOPE-DNN'"),
        ({"models": []}, "models=[] is empty"),
        ({"folder": 3}, "folder=3 is not valid"),
        ({"search": 2}, "search=2 is not known"),
        ({"seeds": 0}, "seeds=0"),
        ({"K": 0}, "K=0"),
        ({"rate": 0.0}, "rate=0.0"),
        ({"realignments": -1}, "realignments=-1"),
        ({"orthogonality": "none"}, "'polar', 'qr' or 'penalty'"),
        ({"M": 2000}, "M=2000 exceeds the 1845 inputs"),
    ],
    fast=3,
)
def test_bad_settings_raise_an_error(corpus: Path, tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        table.table6(corpus, **SMALL | {"folder": tmp_path, "models": ["HOPE-NN"], "epochs": 1} | settings)
    assert words in str(caught.value)


def test_the_reproduction_and_the_reader_are_registered() -> None:
    assert ms.hooks.get_reproduction("hope-table6").run is table.table6
    assert "*.wav" in dict((record.name, record.patterns) for _, record in ms.hooks.records("readers"))["speech"]
