"""Table 1 of the paper on MNIST: a linear support vector machine on features that are learned without labels."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from tqdm import tqdm

import manifoldseq as ms
from manifoldseq.estimators import uninterrupted
from manifoldseq.reproduction import Rows, check_choice, check_whole, folder_of, names, row, whole_numbers
from manifoldseq_hope import HOPE, ConvolutionalFeatures, PCAMovMF, SphericalKMeans, VonMisesFisherMixture

from ._digits import SIDE, Array, Digits, read_mnist
from ._linear_svm import Machines, machines

MODELS = ("kmeans", "kmeans-distance", "spkmeans", "movmf", "pca-movmf", "hope")

TABLE1 = {
    "kmeans": {},
    "kmeans-distance": {400: 1.41, 800: 1.31, 1200: 1.16, 1600: 1.13},
    "spkmeans": {400: 1.09, 800: 0.90, 1200: 0.86, 1600: 0.81},
    "movmf": {400: 0.89, 800: 0.82, 1200: 0.81, 1600: 0.84},
    "pca-movmf": {400: 0.87, 800: 0.75, 1200: 0.73, 1600: 0.74},
    "hope": {400: 0.76, 800: 0.71, 1200: 0.64, 1600: 0.67},
}
M, PATCH, PATCHES, NOISE = 20, 6, 400_000, 0.1
"""Settings of section 6.1.1; sigma^2 refers to patches of standard deviation one, not of unit length."""
PASSES = 10
"""Epochs over the patches, for models that are learned from mini-batches."""


@dataclass(frozen=True)
class Choice:
    """Settings that the paper does not state, chosen on validation images.

    Attributes
    ----------
    quantile : float
        The threshold epsilon is this quantile of the responses to training patches.
    C : float
        Weight of the squared hinge loss of an image; features are standardized.
    power : float
        Exponent of the sums over quadrants.
    kappa : float or None
        Fixed concentration of all components; None: each component has its own.
    kmeans : {"triangle", "distance"} or None
        The response of k-means, see `ConvolutionalFeatures`.
    pooling : int
        Number of cells vertically and horizontally; 2 gives the quadrants of the paper.
    keep_weights : bool or None
        Whether responses contain ln pi_k as in (37); None: only if each component has its own concentration.
    """

    quantile: float
    C: float
    power: float = 0.5
    kappa: float | None = None
    kmeans: str | None = None
    pooling: int = 2
    keep_weights: bool | None = None


CS = (0.005, 0.02, 0.06)
"""Values of C that are tried with every other choice."""


def _grid(model: str, kappa: str = "fixed", pooling: int = 2) -> list[Choice]:
    """Return three choices for a model; each is tried with all values of `CS`."""
    C = CS[0]
    if model == "kmeans":
        return [
            *(Choice(q, C, kmeans="triangle", pooling=pooling) for q in (0.5, 0.75)),
            Choice(0.1, C, kmeans="distance", pooling=pooling),
        ]
    if model == "kmeans-distance":
        return [Choice(q, C, kmeans="distance", pooling=pooling) for q in (0.1, 0.5, 0.9)]
    if kappa == "start" and model == "hope":
        return [replace(START, quantile=q, C=C, pooling=pooling) for q in (0.75, 0.85, 0.92)]
    of_all = 40.0 if kappa == "fixed" and model != "spkmeans" else None
    return [Choice(q, C, kappa=of_all, pooling=pooling) for q in (0.75, 0.85, 0.92)]


CHOSEN = {
    "kmeans": Choice(0.75, 0.06, kmeans="triangle"),
    "kmeans-distance": Choice(0.5, 0.06, kmeans="distance"),
    "spkmeans": Choice(0.75, 0.02),
    "movmf": Choice(0.75, 0.06, kappa=40.0),
    "pca-movmf": Choice(0.92, 0.02, kappa=40.0),
    "hope": Choice(0.85, 0.02, kappa=40.0),
}
"""The choices of the search for K = 400 and quadrants; see docs/benchmarks/features.md."""

FINER = 0.75
"""The quantile for finer cells, for every model; chosen with PCA-movMF of 100 units for 3 x 3 and 4 x 4 cells."""

FREE = {"movmf": Choice(0.85, 0.005), "pca-movmf": Choice(0.75, 0.02), "hope": Choice(0.85, 0.02)}
"""The choices for mixtures whose units learn their own concentrations."""

START = Choice(0.85, 0.02, kappa=30.0, keep_weights=True)
"""The choice for HOPE with its initial concentrations, which Algorithm 1 hardly changes (see the same page)."""

_SEARCH_ROWS, _VALIDATION = 20_000, 10_000
_GAP = 1e-4
_KMEANS = ("kmeans", "kmeans-distance")


def table1(
    data: Path | str | None = None,
    *,
    K: int | Sequence[int] = 400,
    seeds: int = 3,
    models: Sequence[str] = MODELS,
    search: bool = False,
    kappa: str = "fixed",
    pooling: int = 2,
    folder: Path | str = "runs/hope-table1",
    resume: bool = False,
) -> Rows:
    """Return test errors (%) of linear support vector machines on features that were learned without labels.

    Models are learned from 400 000 patches of 6 x 6 pixels with M = 20, and responses are summed over quadrants. A
    `Choice` contains the settings that the paper does not state.

    Parameters
    ----------
    data : path-like
        Folder with the four files of MNIST.
    K : int or sequence of int
        Number of units.
    seeds : int
        Number of seeds of patches and model. Results are means with standard errors over the seeds.
    models : sequence of {"kmeans", "kmeans-distance", "spkmeans", "movmf", "pca-movmf", "hope"}
        The models of the patches, one for each row of the table. ``"kmeans-distance"`` is k-means with the feature of
        the paper, ``max(0, norm(x - mu_k) - epsilon)``. ``"kmeans"`` uses the mean distance minus the distance.
    search : bool
        Repeat the choice of settings for each model and K, with seed 0, on 10 000 held-out training images, after
        learning from 20 000 others. Three choices times three values of C are compared for every model. By default the
        settings are those of `CHOSEN`, `FREE` or `START`, and the quantile `FINER` for finer cells.
    kappa : {"fixed", "free", "start"}
        Concentrations of the mixtures. ``"fixed"``: one value for all units. ``"free"``: learned for each unit, with ln
        pi_k in the responses (37). ``"start"``: learned by EM for each unit of the other mixtures, while those of HOPE
        stay at 30, because Algorithm 1 hardly changes them.
    pooling : int
        Number of cells, vertically and horizontally, over which responses are summed; 2 gives the quadrants of the
        paper.
    folder : path-like
        Folder where models and results are saved during the run.
    resume : bool
        Continue from the results in the folder.

    Returns
    -------
    list of dict
    """
    sizes, models, place = whole_numbers("K", K), names("models", models, MODELS), folder_of(folder)
    check_whole("seeds", seeds)
    check_choice("search", search, (True, False))
    check_choice("kappa", kappa, ("fixed", "free", "start"))
    check_whole("pooling", pooling)
    digits = read_mnist(data)
    rows: Rows = []
    for k in sizes:
        for model in models:
            bench = _Bench(model, k, place, resume)
            choice = _chosen(model, kappa, pooling)
            if search:
                choice, found = bench.searched(digits, _grid(model, kappa, pooling))
                rows += found
            done = [bench.measured(choice, digits, seed)[0] for seed in tqdm(range(seeds), model, disable=None)]
            setting = f"K={k}, {_words(choice)}"
            errors = [result["error"] for result in done]
            rows.append(row(model, setting, "test error", "%", errors, TABLE1[model].get(k)))
            for metric in ("duality gap", "CPU seconds", "median concentration"):
                if all(metric in result for result in done):  # clusters have no concentration
                    rows.append(row(model, setting, metric, "", [result[metric] for result in done], None))
    return rows


@dataclass(frozen=True)
class _Bench:
    """A model of one size, the place of its results, and the fits that are already finished."""

    model: str
    K: int
    folder: Path
    resume: bool
    fitted: dict[str, Any] = field(default_factory=dict)

    def searched(self, digits: Digits, grid: Sequence[Choice]) -> tuple[Choice, Rows]:
        """Return the first choice with the smallest error on validation images, and all errors."""
        order = np.random.default_rng(0).permutation(len(digits.train))
        held, train = order[:_VALIDATION], order[_VALIDATION:][:_SEARCH_ROWS]
        part = Digits(digits.train[train], digits.train_labels[train], digits.train[held], digits.train_labels[held])
        tried: list[tuple[Choice, float]] = []
        for choice in tqdm(grid, f"{self.model}, validation", disable=None):
            found = self.measured(choice, part, 0, CS, "validation ")
            tried += [(replace(choice, C=C), result["error"]) for C, result in zip(CS, found, strict=True)]
        rows = [
            row(self.model, f"K={self.K}, {_words(choice)}", "validation error", "%", [error], None)
            for choice, error in tried
        ]
        return tried[int(np.argmin([error for _, error in tried]))][0], rows

    def measured(
        self, choice: Choice, digits: Digits, seed: int, Cs: Sequence[float] = (), kind: str = ""
    ) -> list[dict[str, float]]:
        """Return the error on test images, the duality gap and the CPU seconds for each C; saved results are reused."""
        Cs = Cs or (choice.C,)
        name = f"{kind}{self.model} K={self.K} {_words(choice)} seed {seed}"
        file = self.folder / f"{name}.json"
        if self.resume and file.exists():
            return json.loads(ms.storage.read_bytes(file))
        start = time.process_time()
        features, images = self.features(choice, seed), digits.train.reshape(-1, SIDE, SIDE)
        name = f"{kind}{self.model} K={self.K} kappa={choice.kappa} seed {seed}"
        if name in self.fitted:
            features.set_params(model=self.fitted[name], prefit=True)
        loop: dict[str, Any] = {"checkpoint": self.folder / "models" / name, "resume": self.resume}
        features.fit(images, **({} if self.model in _KMEANS else loop))
        self.fitted[name] = uninterrupted(features.model_)
        sharp = getattr(features.model_, "concentrations_", None)
        of_model = {} if sharp is None else {"median concentration": float(np.median(sharp))}
        X, T = features.transform(images), features.transform(digits.test.reshape(-1, SIDE, SIDE))
        standardize(X, T)
        shared, found = time.process_time() - start, []
        machine: Machines | None = None
        for C in Cs:
            start = time.process_time()
            machine = machines(X, digits.train_labels, C, gap=_GAP, start=machine)
            wrong = np.argmax(machine.scores(T), axis=1) != digits.test_labels
            seconds = time.process_time() - start + shared
            figures = {"error": 100 * float(wrong.mean()), "duality gap": machine.gap, "CPU seconds": seconds}
            found.append(figures | of_model)
        self.folder.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.replace(file)
        return found

    def features(self, choice: Choice, seed: int) -> ConvolutionalFeatures:
        """Return the features before they are fitted."""
        online: dict[str, Any] = {"solver": "online-em", "max_iter": PASSES, "tol": 0.0, "kappa": choice.kappa}
        if self.model in _KMEANS:
            model: Any = KMeans(self.K, n_init=1, max_iter=50)  # pyright: ignore[reportArgumentType]  read from its default
        elif self.model == "spkmeans":
            model = SphericalKMeans(self.K, max_iter=50)
        elif self.model == "movmf":
            model = VonMisesFisherMixture(self.K, **online)
        elif self.model == "pca-movmf":
            model = PCAMovMF(self.K, n_latent=M, **online)
        else:
            model = HOPE(self.K, n_latent=M, prepare=None, noise_variance=NOISE, **online)
        return ConvolutionalFeatures(
            model,
            patch_size=PATCH,
            n_patches=PATCHES,
            pooling=choice.pooling,
            quantile=choice.quantile,
            power=choice.power,
            keep_weights=choice.kappa is None if choice.keep_weights is None else choice.keep_weights,
            kmeans=choice.kmeans or "triangle",
            random_state=seed,
        )


def _chosen(model: str, kappa: str, pooling: int) -> Choice:
    """Return the choice of the validation images."""
    chosen = CHOSEN[model]
    if kappa != "fixed":
        chosen = START if kappa == "start" and model == "hope" else FREE.get(model, chosen)
    return replace(chosen, pooling=pooling, quantile=chosen.quantile if pooling <= 2 else FINER)


def standardize(X: Array, T: Array) -> None:
    """Standardize the columns of X to mean zero and variance one, in place; constant columns become zero."""
    mean, deviation = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    for part in (X, T):
        part -= mean.astype(X.dtype)
        part *= factor.astype(X.dtype)


def _words(choice: Choice) -> str:
    """Return the choice in words."""
    shown = {name: value for name, value in asdict(choice).items() if value is not None}
    return ", ".join(value if isinstance(value, str) else f"{name} {value:g}" for name, value in shown.items())
