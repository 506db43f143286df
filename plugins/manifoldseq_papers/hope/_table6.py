"""Table 6 of the paper: phone recognition on TIMIT or a generated corpus by networks with and without HOPE."""

import shutil
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import manifoldseq as ms
from manifoldseq.estimators import uninterrupted
from manifoldseq.reproduction import Rows, check_choice, check_number, check_whole, folder_of, names, row
from manifoldseq_hope import HOPENetworkClassifier, ReduceOnPlateau, Windows

from ._audio import read_audio
from ._filter_bank import frame_centres, speech_features
from ._phone_corpus import generate_phone_corpus
from ._phone_decoder import STATES, PhoneDecoder, forced_alignment, uniform_states
from ._phones import PHONES, phone_error, read_phn
from ._tables2_to_4 import OF_HOPE
from ._timit import Utterance, read_timit

Float = NDArray[Any]
Codes = NDArray[np.int64]

TABLE6 = {"NN": (61.45, 23.85), "HOPE-NN": (62.11, 23.04), "DNN": (63.13, 22.37), "HOPE-DNN": (63.55, 21.59)}
"""Frame accuracy and phone error (%) of the paper, on the core test set of TIMIT."""

RATE = 16000
CONTEXT = 15
_N = STATES * len(PHONES)
_SCALES, _INSERTIONS = (0.5, 1.0, 1.5, 2.0), (-4.0, -2.0, 0.0, 2.0)
"""Weights of the bigram model and scores of an inserted phone, chosen on the development set."""
_RARE = -1e4
"""Log-likelihood of a state without training frames."""
_BEYOND = RATE // 4
"""Number of samples by which labels may exceed their recording."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the networks with one and with three hidden layers: units of a layer, projections of the HOPE layer."""

    K: int
    M: int
    width: int
    deep_M: int


PAPER = Sizes(10240, 256, 2048, 512)
SMALL = Sizes(256, 64, 128, 64)
"""Sizes for the generated corpus."""

GRID = (0.0025, 0.005, 0.01, 0.02, 0.04)
"""Candidates of a search for the initial rate, the same for every network."""
CHOSEN = {"NN": 0.005, "HOPE-NN": 0.01, "DNN": 0.02, "HOPE-DNN": 0.02}
"""The choices of the search on the generated corpus."""
_ALIGNER, _PAPER = 0.01, 0.004
"""Initial rates of the network that aligns the generated corpus, and of all networks of the paper."""


def table6(
    data: Path | str | None = None,
    *,
    K: int | None = None,
    M: int | None = None,
    width: int | None = None,
    deep_M: int | None = None,
    models: Sequence[str] = tuple(TABLE6),
    seeds: int = 1,
    epochs: int = 30,
    rate: float | None = None,
    search: bool = False,
    realignments: int = 1,
    orthogonality: str = "polar",
    train_speakers: int = 60,
    sentences: int = 3,
    test_sentences: int = 2,
    folder: Path | str = "runs/hope-table6",
    resume: bool = False,
    device: str = "cpu",
) -> Rows:
    """Return frame accuracy and phone error (%) of networks with one and with three hidden layers.

    Parameters
    ----------
    data : path-like, optional
        Folder of TIMIT. By default, a corpus is generated.
    K : int, optional
        Units of the network with one hidden layer. The default is the size of the paper on TIMIT, and a smaller size
        on the generated corpus.
    M : int, optional
        Projections of the HOPE layer of this network, with the same kind of default.
    width : int, optional
        Units of each hidden layer of the networks with three hidden layers.
    deep_M : int, optional
        Projections of the HOPE layer of these networks, which is the first layer.
    models : sequence of {"NN", "HOPE-NN", "DNN", "HOPE-DNN"}
        Kinds of networks, with and without a HOPE layer.
    seeds : int
        Number of networks of each kind. Results are means with standard errors over the networks.
    epochs : int
        Maximum number of epochs. The schedule that halves the rate can end training earlier.
    rate : float, optional
        The initial rate. The default is the rate of the paper on TIMIT, and the recorded choice on the generated
        corpus.
    search : bool
        Repeat the choice of the initial rate for each kind of network, with seed 0, by the error on the development
        set.
    realignments : int
        Number of realignments. The first alignment divides every phone into three parts of equal length; each
        realignment uses a network that was trained on the previous alignment.
    orthogonality : {"polar", "qr", "penalty"}
        The constraint of HOPE layers, see `HOPENetworkClassifier`.
    train_speakers : int
        Number of speakers in the training set of the generated corpus.
    sentences, test_sentences : int
        Number of sentences of each speaker of the generated corpus, in the training set and in the other two sets.
    folder : path-like
        Folder for networks during training, and for the generated corpus.
    resume : bool
        Continue from the results in the folder.
    device : str
        The torch device of the training.

    Returns
    -------
    list of dict
    """
    models, folder = names("models", models, tuple(TABLE6)), folder_of(folder)
    check_whole("seeds", seeds)
    check_whole("epochs", epochs)
    check_whole("realignments", realignments, 0)
    check_choice("orthogonality", orthogonality, OF_HOPE)
    check_choice("search", search, (True, False))
    if rate is not None:
        check_number("rate", rate, open_=True)
    given = {"K": K, "M": M, "width": width, "deep_M": deep_M}
    for name, value in given.items():
        if value is not None:
            check_whole(name, value)
    sizes = replace(SMALL if data is None else PAPER, **{name: value for name, value in given.items() if value})
    if data is None:
        corpus = _generated(folder, train_speakers, sentences, test_sentences)
    else:
        corpus = read_timit(data)
    task = _Task(*(_Part.read(part) for part in (corpus.train, corpus.development, corpus.test)))
    task = task.normalized()
    aligned = _Recipe(
        "aligner", (sizes.width,), _ALIGNER if data is None else _PAPER, epochs, None, folder, resume, device
    )
    for _ in range(realignments):
        task = task.realigned(aligned.network(task, 0))
    rows: Rows = []
    for model in models:
        name, layers = _architecture(model, sizes)
        if data is None or sizes != PAPER:
            where = "generated" if data is None else "TIMIT"
            name = f"{where} {name}; paper: TIMIT {_architecture(model, PAPER)[0]}"
        first_rate = rate or (CHOSEN[model] if data is None else _PAPER)
        mode = orthogonality if model.startswith("HOPE") else None
        training = _Recipe(model, layers, first_rate, epochs, mode, folder, resume, device)
        if search:
            training, first, found = _searched(training, task, name)
            rows += found
        else:
            first = training.network(task, 0)
        networks = (first, *(training.network(task, seed) for seed in range(1, seeds)))
        if lower := {network.learning_rate.first for network in networks} - {training.rate}:
            name += f", some at rates {', '.join(f'{value:g}' for value in sorted(lower))}"
        figures = np.array([task.measured(network) for network in networks]).T
        for metric, values, paper in zip(("frame accuracy", "phone error"), figures, TABLE6[model], strict=True):
            rows.append(row(model, name, metric, "%", values.tolist(), paper))
    return rows


def _architecture(model: str, sizes: Sizes) -> tuple[str, tuple[Any, ...]]:
    """Return the name of a network in the paper's notation, and its layers."""
    one: Any = sizes.K
    if model == "NN":
        return f"1845-{sizes.K}-183", (one,)
    if model == "HOPE-NN":
        return f"1845-[{sizes.M}-{sizes.K}]-183", ((sizes.M, sizes.K),)
    if model == "DNN":
        return f"1845-3*{sizes.width}-183", 3 * (sizes.width,)
    name = f"1845-[{sizes.deep_M}-{sizes.width}]-2*{sizes.width}-183"
    return name, ((sizes.deep_M, sizes.width), sizes.width, sizes.width)


def _generated(folder: Path, train_speakers: int, sentences: int, test_sentences: int) -> Any:
    """Return the generated corpus of these sizes, which is written if it does not exist."""
    place = folder / f"corpus {train_speakers} speakers {sentences} sentences {test_sentences} test sentences"
    if not place.exists():
        unfinished = place.with_name(f"{place.name}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        generate_phone_corpus(
            unfinished, train_speakers=train_speakers, sentences=sentences, test_sentences=test_sentences
        )
        unfinished.rename(place)
    return read_timit(place)


@dataclass(frozen=True)
class _Part:
    """Sentences of a set: the concatenated features and states of all frames, and the phones."""

    features: Float
    lengths: Codes
    phones: tuple[Codes, ...]
    states: Codes

    @classmethod
    def read(cls, sentences: Iterable[Utterance]) -> "_Part":
        features, phones, states = [], [], []
        for one in sentences:
            samples, rate = read_audio(one.audio)
            if rate != RATE or samples.shape[1] != 1:
                raise ms.storage.ReadError(
                    f"{one.audio} has {samples.shape[1]} channels of {rate} samples/s: convert the file to one "
                    f"channel of {RATE} samples/s"
                )
            labels = read_phn(one.labels)
            if labels.ends[-1] > len(samples) + _BEYOND:
                raise ms.storage.ReadError(
                    f"{one.labels} ends at sample {labels.ends[-1]}, but the recording has {len(samples)} samples: "
                    "copy both files again"
                )
            try:
                frames = speech_features(samples[:, 0], rate)
            except ValueError as error:
                raise ms.storage.ReadError(f"{one.audio}: {error}") from error
            features.append(frames.astype(np.float32))
            phones.append(labels.phones)
            states.append(uniform_states(labels.places(frame_centres(len(frames))), labels.phones))
        lengths = np.array([len(part) for part in features])
        return cls(np.concatenate(features), lengths, tuple(phones), np.concatenate(states))

    def cut(self, rows: Float) -> list[Float]:
        """Split an array with a row per frame into one array per sentence."""
        return np.split(rows, np.cumsum(self.lengths)[:-1])


@dataclass(frozen=True)
class _Task:
    """The three sets, and the measurements on them."""

    train: _Part
    development: _Part
    test: _Part

    def normalized(self) -> "_Task":
        """Return the task with features of mean 0 and variance 1 over the frames of the training set."""
        mean = self.train.features.mean(axis=0, dtype=np.float64)
        spread = self.train.features.std(axis=0, dtype=np.float64)
        spread[spread == 0] = 1
        return _Task(*(replace(p, features=((p.features - mean) / spread).astype(np.float32)) for p in self._parts()))

    def _parts(self) -> tuple[_Part, _Part, _Part]:
        return self.train, self.development, self.test

    def windows(self, part: _Part) -> Windows:
        return Windows(part.cut(part.features), CONTEXT)

    def decoder(self) -> PhoneDecoder:
        """Return the model of phones and states, estimated from the training set."""
        return PhoneDecoder.estimate(self.train.phones, self.train.cut(self.train.states), len(PHONES))

    def scores(self, network: HOPENetworkClassifier, part: _Part) -> list[Float]:
        """Return log-likelihoods of frames by state, (T, 183) of each sentence: posteriors over priors."""
        scores = network.decision_function(self.windows(part))
        scores = scores - scores.max(axis=1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        states = network.classes_
        prior = np.log(np.bincount(self.train.states, minlength=_N)[states] / len(self.train.states))
        likelihoods = np.full((len(scores), _N), _RARE, np.float32)
        likelihoods[:, states] = scores - prior
        return part.cut(likelihoods)

    def realigned(self, network: HOPENetworkClassifier) -> "_Task":
        """Return the task with the most likely states of the known phones; short sentences keep their states."""
        decoder = self.decoder()
        parts = []
        for part in self._parts():
            states = [
                forced_alignment(scores, phones, decoder.log_stay, decoder.log_leave)
                if len(scores) >= STATES * len(phones)
                else before
                for scores, phones, before in zip(
                    self.scores(network, part), part.phones, part.cut(part.states), strict=True
                )
            ]
            parts.append(replace(part, states=np.concatenate(states)))
        return _Task(*parts)

    def measured(self, network: HOPENetworkClassifier) -> tuple[float, float]:
        """Return frame accuracy and phone error (%) on the test set, with decoder settings from the development set."""
        scores = self.scores(network, self.development)
        decoder = self.decoder()
        choices = [replace(decoder, scale=s, insertion=i) for s, i in product(_SCALES, _INSERTIONS)]
        errors = [phone_error(map(one.decode, scores), self.development.phones) for one in choices]
        best = choices[int(np.argmin(errors))]
        accuracy = 100 * float(np.mean(network.predict(self.windows(self.test)) == self.test.states))
        return accuracy, phone_error(map(best.decode, self.scores(network, self.test)), self.test.phones)


@dataclass(frozen=True)
class _Recipe:
    """How a network is trained."""

    name: str
    layers: tuple[Any, ...]
    rate: float
    epochs: int
    orthogonality: str | None
    folder: Path
    resume: bool
    device: str = "cpu"

    def network(self, task: _Task, seed: int) -> HOPENetworkClassifier:
        """Return the trained network. The rate is halved as long as the loss becomes non-finite."""
        network = HOPENetworkClassifier(
            self.layers,
            orthogonality=self.orthogonality,
            init="uniform",
            learning_rate=ReduceOnPlateau(self.rate),
            momentum=0.9,
            weight_decay=1e-4,
            max_iter=self.epochs,
            random_state=seed,
            device=self.device,
        )
        sizes = "-".join(str(n).replace(", ", "x").strip("()") for n in self.layers)
        digest = f"{crc32(task.train.states.tobytes()):08x}"  # alignments of one corpus differ
        store = self.folder / f"{self.name} {sizes} rate {self.rate:g} states {digest} seed {seed}"
        bar = tqdm(total=self.epochs, desc=f"{self.name}, seed {seed}", unit="epoch", disable=None)
        with bar, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the loss of epoch", UserWarning)
            network.fit(
                task.windows(task.train),
                task.train.states,
                validation=(task.windows(task.development), task.development.states),
                observers=[lambda event: bar.update(event.nit - bar.n)],
                checkpoint=store,
                resume=self.resume,
            )
        if uninterrupted(network).status_ is ms.Status.NON_FINITE:
            return replace(self, rate=self.rate / 2).network(task, seed)
        return network


def _searched(training: _Recipe, task: _Task, setting: str) -> tuple[_Recipe, HOPENetworkClassifier, Rows]:
    """Return the best initial rate by the error on the development set, its network, and the errors of all rates."""
    candidates = [replace(training, rate=rate) for rate in GRID]
    networks = [one.network(task, 0) for one in candidates]
    errors = [float(one.history_["validation_error"][-1]) for one in networks]
    rows = [
        row(training.name, f"{setting}, rate {one.rate:g}", "development frame error", "%", [error], None)
        for one, error in zip(candidates, errors, strict=True)
    ]
    best = int(np.argmin(errors))
    return candidates[best], networks[best], rows
