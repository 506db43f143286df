"""Table 5 of the paper: MNIST with few labels, from pixels or from features learned without labels."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import uninterrupted
from manifoldseq.reproduction import Rows, check_choice, check_whole, folder_of, names, row, whole_numbers
from manifoldseq_hope import HOPE, ConvolutionalFeatures

from ._digits import Array, Digits, read_mnist
from ._linear_svm import machines
from ._tables2_to_4 import DROPOUT, Choice, Job, fitted

LABELS = (1000, 2000, 5000, 10_000, 20_000, 60_000)


@dataclass(frozen=True)
class Classifier:
    """A row of the table.

    Attributes
    ----------
    name : str
        The name in the paper.
    inputs : {"pixels", "features"}
    kind : {"svm", "baseline", "hope"}
    layers : tuple
    paper : tuple of float
        Errors (%) for `LABELS`.
    """

    name: str
    inputs: str
    kind: str
    layers: tuple[Any, ...]
    paper: tuple[float, ...]


_TWO, _HOPE, _HOPE_NN = (1200, 1200), ((400, 1200),), ((400, 1200), 1200)
CLASSIFIERS = {
    "dnn1": Classifier("raw feature + DNN1", "pixels", "baseline", _TWO, (8.32, 4.71, 3.2, 2.15, 1.48, 0.92)),
    "hope-dnn1": Classifier("raw feature + HOPE-DNN1", "pixels", "hope", _HOPE, (8.22, 4.53, 2.92, 2.04, 1.34, 0.86)),
    "hope-dnn2": Classifier(
        "raw feature + HOPE-DNN2", "pixels", "hope", _HOPE_NN, (7.21, 4.02, 2.60, 1.83, 1.30, 0.82)
    ),
    "svm": Classifier("USL feature + linear SVM", "features", "svm", (), (2.91, 2.38, 1.47, 1.13, 0.90, 0.71)),
    "dnn2": Classifier("USL feature + DNN2", "features", "baseline", _TWO, (2.83, 1.99, 1.03, 0.88, 0.70, 0.43)),
    "hope-dnn3": Classifier("USL feature + HOPE-DNN3", "features", "hope", _HOPE, (2.50, 1.78, 0.95, 0.87, 0.67, 0.42)),
    "hope-dnn4": Classifier(
        "USL feature + HOPE-DNN4", "features", "hope", _HOPE_NN, (2.46, 1.70, 0.90, 0.79, 0.66, 0.40)
    ),
}
PUBLISHED = {"cdbn": ("CDBN", (2.62, 2.13, 1.59, None, None, 0.82))}
"""Rows with results from other publications."""

GRID: dict[tuple[str, str], tuple[Any, ...]] = {
    ("pixels", "baseline"): (Choice(0.1, 2.0), Choice(0.3, 2.0), Choice(0.1, 1.0), Choice(0.3, 1.0)),
    ("pixels", "hope"): (Choice(0.1, 2.0), Choice(0.3, 2.0), Choice(0.1, 1.0), Choice(0.3, 1.0)),
    ("features", "baseline"): (Choice(0.1, 0.2), Choice(0.3, 0.2), Choice(0.1, 0.5), Choice(0.3, 0.5)),
    ("features", "hope"): (Choice(0.1, 0.2), Choice(0.3, 0.2), Choice(0.1, 0.5), Choice(0.3, 0.5)),
    ("features", "svm"): (1e-3, 1e-2, 1e-1, 1.0),
}
"""Candidates for the validation: rate and scale of a network, C of the support vector machine."""

CHOSEN: dict[tuple[str, str], Any] = {
    ("pixels", "baseline"): Choice(0.3, 2.0),
    ("pixels", "hope"): Choice(0.3, 2.0),
    ("features", "baseline"): Choice(0.3, 0.2),
    ("features", "hope"): Choice(0.3, 0.2),
    ("features", "svm"): 1e-2,
}
"""The choices of the validation; see docs/benchmarks/networks.md."""

_SEARCH_LABELS, _VALIDATION = 1000, 10_000
_MOMENTS = 10_000
"""Number of training images, evenly spaced, for the means and standard deviations of the features."""


def table5(
    data: Path | str | None = None,
    *,
    labels: int | Sequence[int] = (1000, 2000, 5000),
    subsets: int = 5,
    models: Sequence[str] = (*PUBLISHED, *CLASSIFIERS),
    K: int = 800,
    M: int = 20,
    n_patches: int = 400_000,
    epochs: int = 50,
    search: bool = False,
    folder: Path | str = "runs/hope-table5",
    resume: bool = False,
    device: str = "cpu",
) -> Rows:
    """Return test errors (%) of classifiers that learn from few labels.

    Features are those of `ConvolutionalFeatures` with `HOPE`, learned from all training images without labels; they and
    the classifiers are trained separately.

    Parameters
    ----------
    data : path-like
        Folder with the four files of MNIST.
    labels : int or sequence of int
        Number of labelled images: the same number of each class, drawn at random, or all 60 000.
    subsets : int
        Number of random draws of labelled images. Results are means with standard errors over the draws. The number of
        a draw is also the seed of its networks.
    models : sequence of {"cdbn", "dnn1", "hope-dnn1", "hope-dnn2", "svm", "dnn2", "hope-dnn3", "hope-dnn4"}
        Rows of the table. The first row only repeats the result of the paper.
    K : int
        Number of units of the features.
    M : int
        Latent dimension of the features.
    n_patches : int
        Number of patches from which the features are learned.
    epochs : int
        Number of epochs of a network, in mini-batches of 100.
    search : bool
        Repeat the choice of rate, scale and C with 1000 labels on 10 000 held-out training images. By default the
        recorded choices are used.
    folder : path-like
        Folder for errors, and for networks during training.
    resume : bool
        Continue from the results in the folder.
    device : str
        The torch device on which networks are trained.

    Returns
    -------
    list of dict
    """
    models = names("models", models, (*PUBLISHED, *CLASSIFIERS))
    for name, value in {"subsets": subsets, "K": K, "M": M, "n_patches": n_patches, "epochs": epochs}.items():
        check_whole(name, value)
    check_choice("search", search, (True, False))
    counts, place = whole_numbers("labels", labels), folder_of(folder)
    digits = read_mnist(data)
    draws = {count: [balanced(digits.train_labels, count, subset) for subset in range(subsets)] for count in counts}
    inputs = _Inputs(digits, K, M, n_patches, place, resume)
    bench = _Bench(inputs, _Finished(place / "errors.json", resume), epochs, device)
    rows: Rows = []
    chosen = dict(CHOSEN)
    if search:
        for key in dict.fromkeys((CLASSIFIERS[m].inputs, CLASSIFIERS[m].kind) for m in models if m in CLASSIFIERS):
            chosen[key], found = bench.searched(key)
            rows += found
    for count in counts:
        at = LABELS.index(count) if count in LABELS else None
        for model in models:
            if model in PUBLISHED:
                name, figures = PUBLISHED[model]
                rows.append(row(name, f"{count} labels", "test error", "%", [], None if at is None else figures[at]))
                continue
            classifier = CLASSIFIERS[model]
            choice = chosen[classifier.inputs, classifier.kind]
            found = [bench.tested(classifier, choice, draw, subset) for subset, draw in enumerate(draws[count])]
            rates = sorted({rate for _, rate in found})
            lower = (
                "" if rates == [getattr(choice, "rate", choice)] else f", rates {', '.join(map('{:g}'.format, rates))}"
            )
            paper = None if at is None else classifier.paper[at]
            errors = [error for error, _ in found]
            rows.append(row(classifier.name, f"{count} labels{lower}", "test error", "%", errors, paper))
    return rows


def balanced(y: NDArray[np.int64], n: int, seed: int) -> NDArray[np.intp]:
    """Return n rows in their order, with class sizes that differ by at most one; all rows if there are n."""
    if n == len(y):
        return np.arange(n)
    classes, counts = np.unique(y, return_counts=True)
    if n < len(classes) or n > len(y):
        raise ValueError(
            f"labels={n} is not valid: pass at least {len(classes)} and at most {len(y)}, the number of images"
        )
    rng = np.random.default_rng(seed)
    share = np.full(len(classes), n // len(classes))
    share[rng.permutation(len(classes))[: n % len(classes)]] += 1
    short = np.flatnonzero(counts < share)
    if len(short):
        raise ValueError(
            f"labels={n} is not valid, because class {classes[short[0]]} has {counts[short[0]]} images, fewer than an "
            f"equal share: pass a lower number, or {len(y)} for all images"
        )
    rows = [rng.permutation(np.flatnonzero(y == c))[:k] for c, k in zip(classes, share, strict=True)]
    return np.sort(np.concatenate(rows))


@dataclass
class _Inputs:
    """Inputs of classifiers: pixels minus their mean, or standardized features that were learned without labels."""

    digits: Digits
    K: int
    M: int
    n_patches: int
    folder: Path
    resume: bool

    def of(self, kind: str, images: Array) -> Array:
        """Return the inputs of images, (N, D), in float32."""
        if kind == "pixels":
            return (images - self.mean_image) / np.float32(255)
        features, mean, deviation = self.learned
        found = features.transform(images)
        found -= mean
        found /= deviation
        return found

    def test(self, kind: str) -> Array:
        """Return the inputs of the test images."""
        return self.test_pixels if kind == "pixels" else self.test_features

    @cached_property
    def test_pixels(self) -> Array:
        return self.of("pixels", self.digits.test)

    @cached_property
    def test_features(self) -> Array:
        return self.of("features", self.digits.test)

    @cached_property
    def mean_image(self) -> Array:
        return self.digits.train.mean(axis=0, dtype=np.float64).astype(np.float32)

    @cached_property
    def learned(self) -> tuple[ConvolutionalFeatures, Array, Array]:
        """The features, with their means and standard deviations over training images."""
        model = HOPE(self.K, n_latent=self.M, kappa=40.0)
        features = ConvolutionalFeatures(model, n_patches=self.n_patches, drop_empty=True, random_state=0)
        train = self.digits.train
        features.fit(train, checkpoint=self.folder / self.name("features"), resume=self.resume)
        uninterrupted(features.model_)
        some = np.linspace(0, len(train) - 1, min(len(train), _MOMENTS)).astype(np.intp)
        found = features.transform(train[some])
        mean, deviation = found.mean(axis=0, dtype=np.float64), found.std(axis=0, dtype=np.float64)
        return features, mean.astype(np.float32), np.where(deviation > 0, deviation, 1.0).astype(np.float32)

    def name(self, kind: str) -> str:
        """Return a name that identifies the settings of the inputs."""
        return kind if kind == "pixels" else f"{kind} K {self.K} M {self.M} patches {self.n_patches}"


class _Finished:
    """A file of errors (%) and their settings by name, so that an interrupted table can be continued."""

    def __init__(self, path: Path, resume: bool) -> None:
        self.path = path
        kept = ms.storage.read_bytes(path) if resume and path.is_file() else b"{}"
        self.found: dict[str, list[float]] = json.loads(kept)

    def of(self, name: str, compute: Callable[[], tuple[float, float]]) -> list[float]:
        """Return the error of this name and its rate or C; they are computed if the file does not contain them."""
        if name not in self.found:
            self.found[name] = list(compute())
            self.path.parent.mkdir(parents=True, exist_ok=True)
            whole = self.path.with_suffix(".tmp")
            whole.write_text(json.dumps(self.found, indent=1), "utf-8")
            whole.replace(self.path)
        return self.found[name]


@dataclass(frozen=True)
class _Bench:
    """Trains classifiers and keeps their errors."""

    inputs: _Inputs
    finished: _Finished
    epochs: int
    device: str

    def tested(self, classifier: Classifier, choice: Any, train: NDArray[np.intp], subset: int) -> list[float]:
        """Return the error (%) on the test images after training with these images, and the rate or C."""
        name = f"{self._name(classifier, choice, len(train))}, subset {subset}"
        images, y = partial(self.inputs.test, classifier.inputs), self.inputs.digits.test_labels
        return self.finished.of(name, lambda: self._measured(classifier, choice, train, subset, name, images, y))

    def searched(self, key: tuple[str, str]) -> tuple[Any, Rows]:
        """Return the choice with the least error on held-out training images, and all of these errors."""
        digits = self.inputs.digits
        order = np.random.default_rng(0).permutation(len(digits.train))
        held, rest = order[:_VALIDATION], np.sort(order[_VALIDATION:])
        train = rest[balanced(digits.train_labels[rest], _SEARCH_LABELS, 0)]
        first = next(c for c in CLASSIFIERS.values() if (c.inputs, c.kind) == key)
        images, y = cache(lambda: self.inputs.of(first.inputs, digits.train[held])), digits.train_labels[held]
        errors, rows = [], []
        for choice in GRID[key]:
            name = f"{self._name(first, choice, len(train))}, validation"
            measure = partial(self._measured, first, choice, train, 0, name, images, y)
            errors.append(self.finished.of(name, measure)[0])
            setting = f"{len(train)} labels, {_said(choice)}"
            rows.append(row(first.name, setting, "validation error", "%", errors[-1:], None))
        return GRID[key][int(np.argmin(errors))], rows

    def _measured(
        self,
        classifier: Classifier,
        choice: Any,
        train: NDArray[np.intp],
        seed: int,
        name: str,
        images: Callable[[], Array],
        y: NDArray[np.int64],
    ) -> tuple[float, float]:
        digits = self.inputs.digits
        X, labels = self.inputs.of(classifier.inputs, digits.train[train]), digits.train_labels[train]
        if classifier.kind == "svm":
            return 100 * float(np.mean(_machine(X, labels, choice)(images()) != y)), choice
        job = Job(classifier.kind, classifier.layers, name, self.epochs, DROPOUT, device=self.device)
        X *= choice.scale
        while True:
            store = self.inputs.folder / "networks" / f"{name}, from rate {choice.rate:g}"
            network = fitted(job, choice, X, labels, seed, store, self.inputs.resume)
            if network.status_ is not ms.Status.NON_FINITE:
                break
            choice = choice.slower()
        error = 100 * float(np.mean(network.predict(np.float32(choice.scale) * images()) != y))
        shutil.rmtree(self.inputs.folder / "networks", ignore_errors=True)
        return error, choice.rate

    def _name(self, classifier: Classifier, choice: Any, labels: int) -> str:
        length = "" if classifier.kind == "svm" else f", {self.epochs} epochs"
        return f"{classifier.name} of {self.inputs.name(classifier.inputs)}, {labels} labels, {_said(choice)}{length}"


def _said(choice: Any) -> str:
    return f"rate {choice.rate:g} scale {choice.scale:g}" if isinstance(choice, Choice) else f"C {choice:g}"


def _machine(X: Array, y: NDArray[np.int64], C: float) -> Callable[[Array], NDArray[np.intp]]:
    """Return linear support vector machines, computed in the span of the rows if rows are fewer than columns."""
    Q = None
    if len(X) < X.shape[1]:
        Q, R = np.linalg.qr(X.T)
        X = np.ascontiguousarray(R.T)
    found = machines(X, y, C)
    return lambda Y: found.scores(Y if Q is None else Y @ Q).argmax(axis=1)
