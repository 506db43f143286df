"""Methods to fuse two descriptors before a linear classifier, compared on the same splits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from manifoldseq_mpcca import FisherVector, MultiViewSuperVector

Array = NDArray[np.floating[Any]]

Kernels = list[Array]
"""One linear kernel per classifier whose scores are averaged."""


@dataclass(frozen=True)
class Settings:
    """Candidates for the validation, and settings for the fit of mixtures."""

    n_components: tuple[int, ...] = (2, 8)
    n_latent: tuple[int, ...] = (2, 4)
    C: tuple[float, ...] = (1.0, 10.0, 100.0)
    gradient_scale: str = "paper"
    power: float = 1.0
    max_iter: int = 20
    max_descriptors: int | None = 10_000


class FrontEnd:
    """Reduce a descriptor to a few uncorrelated columns: optional square roots, standardization, principal components.

    Parameters
    ----------
    n_columns : int
        Maximum number of columns.
    roots : bool
        Whether each descriptor is first divided by its sum of absolute values and replaced by signed square roots, as
        is usual for histograms.
    """

    def __init__(self, n_columns: int, roots: bool = False) -> None:
        first = [FunctionTransformer(_signed_roots)] if roots else []
        self.n_columns = n_columns
        self.steps = make_pipeline(*first, StandardScaler(), PCA(whiten=True, random_state=0))

    def fit(self, rows: NDArray[Any]) -> "FrontEnd":
        """Learn from descriptors (N, d)."""
        whitening = self.steps.steps[-1][1]
        whitening.set_params(n_components=min(self.n_columns, rows.shape[1], len(rows)))
        self.steps.fit(rows)
        if (weak := whitening.explained_variance_ < 1e-10).any():  # constant columns leave nothing to whiten
            whitening.set_params(n_components=int(max(1, (~weak).sum())))
            self.steps.fit(rows)
        return self

    def __call__(self, bag: NDArray[Any]) -> Array:
        """Return one bag (T, n_columns)."""
        return self.steps.transform(bag) if len(bag) else np.empty((0, self.steps.steps[-1][1].n_components_))


@dataclass(frozen=True)
class Task:
    """Labelled objects, each with a bag of paired descriptors, ready for the encoders.

    ``x`` and ``y`` are arrays (N, d_v) for bags of one descriptor, or sequences of bags.
    """

    x: Any
    y: Any
    labels: NDArray[Any]
    train: NDArray[np.int64]
    test: NDArray[np.int64]


CONCATENATION, KERNELS, SCORES = "concatenation", "kernel-level", "score-level"
SUPER, GRADIENT, LATENT = "M-PCCA [G, Z]", "M-PCCA G alone", "M-PCCA Z alone"


def measure(task: Task, settings: Settings, seed: int) -> dict[tuple[str, str], float]:
    """Return the measurements of one split by (model, metric).

    ``"error"`` is the share of misclassified test objects; K, d and C of each fusion are chosen on a third of the
    training objects. ``"correlation"`` is the mean canonical correlation on test objects between the representations of
    x and y, at the largest K and d.
    """
    rng = np.random.default_rng(seed)
    labels = task.labels[task.train]
    inner, held = stratified(labels, 2 / 3, rng)
    rows = np.arange(len(task.train))
    best: dict[str, tuple[float, float, Kernels]] = {}
    found: dict[tuple[str, str], float] = {}
    for name, kernels, blocks in _candidates(task, settings, seed):
        among = [kernel[task.train] for kernel in kernels]
        for C in settings.C:
            error = _error(among, labels, (inner, inner), held, C)
            if name not in best or error < best[name][0]:
                best[name] = error, C, kernels
        if blocks:
            found[name, "correlation"] = shared_between(*blocks, task.train, task.test)
    for name, (_, C, kernels) in best.items():
        found[name, "error"] = _error(kernels, task.labels, (task.train, rows), task.test, C)
    return found


def _candidates(task: Task, settings: Settings, seed: int) -> Iterator[tuple[str, Kernels, tuple[Array, Array] | None]]:
    """Yield each fusion with each K and d: its kernels, and the blocks of its vectors if the blocks are compared.

    Mixtures are fitted to training objects, without labels.
    """
    train = [_part(view, task.train) for view in (task.x, task.y)]
    common = {
        "gradient_scale": settings.gradient_scale,
        "power": settings.power,
        "max_iter": settings.max_iter,
        "max_descriptors": settings.max_descriptors,
        "random_state": seed,
    }
    means = _means(task.x), _means(task.y)
    x, y = (np.asarray(StandardScaler().fit(rows[task.train]).transform(rows)) for rows in means)
    kernels = [_linear(x, task.train), _linear(y, task.train)]
    yield f"{CONCATENATION}, no encoding", [np.add(*kernels)], (x, y)
    yield f"{SCORES}, no encoding", kernels, None
    for K in settings.n_components:
        joint = FisherVector(K, **common).fit(train)
        vectors = joint.transform([task.x, task.y])
        last = max(settings.n_components) == K
        yield CONCATENATION, [_linear(vectors, task.train)], _blocks(joint, vectors) if last else None
        kernels = [
            _linear(FisherVector(K, **common).fit([part]).transform([view]), task.train)
            for part, view in zip(train, (task.x, task.y), strict=True)
        ]
        yield KERNELS, [np.add(*kernels)], None
        yield SCORES, kernels, None
        for d in settings.n_latent:
            model = MultiViewSuperVector(K, n_latent=d, **common).fit(train)
            vectors = model.transform([task.x, task.y])
            latent = model.blocks_["latent"]
            compared = _blocks(model, vectors) if last and d == max(settings.n_latent) else None
            yield SUPER, [_linear(vectors, task.train)], None
            yield GRADIENT, [_linear(vectors[:, : latent.start], task.train)], compared
            yield LATENT, [_linear(vectors[:, latent], task.train)], None


def stratified(
    labels: NDArray[Any], share: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split indices in two parts: the first contains about this share of each class, and both contain every class."""
    first, second = [], []
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        if len(rows) < 2:
            raise ValueError(f"class {label} has one object: pass at least two objects per class")
        cut = int(np.clip(round(share * len(rows)), 1, len(rows) - 1))
        first.append(rows[:cut])
        second.append(rows[cut:])
    return np.sort(np.concatenate(first)), np.sort(np.concatenate(second))


def shared_between(a: Array, b: Array, train: NDArray[Any], test: NDArray[Any], n: int = 20) -> float:
    """Return the mean canonical correlation between two blocks of a representation, measured on test objects.

    Canonical directions of the `n` leading principal components of each block are computed from the training objects.
    """
    whitened = []
    for block in (a, b):
        rank = int(min(n, np.linalg.matrix_rank(block[train] - block[train].mean(axis=0))))
        front = PCA(rank, whiten=True, random_state=0).fit(block[train])
        whitened.append((front.transform(block[train]), front.transform(block[test])))
    (xa, ta), (xb, tb) = whitened
    left, _, right = np.linalg.svd(xa.T @ xb, full_matrices=False)
    u, v = ta @ left, tb @ right.T
    u, v = u - u.mean(axis=0), v - v.mean(axis=0)
    return float(np.mean((u * v).sum(axis=0) / np.sqrt((u**2).sum(axis=0) * (v**2).sum(axis=0))))


def _error(
    kernels: Kernels,
    labels: NDArray[Any],
    train: tuple[NDArray[np.int64], NDArray[np.int64]],
    test: NDArray[np.int64],
    C: float,
) -> float:
    """Return the share of errors of linear machines, one per kernel, whose scores are averaged.

    One machine decides between each pair of classes; the class with the most votes wins, and scores decide ties.
    `train` contains the rows and the columns of a kernel that belong to the training objects.
    """
    rows, columns = train
    classes = np.unique(labels[rows])
    scores: Any = 0.0
    for kernel in kernels:
        machine = SVC(C=C, kernel="precomputed", decision_function_shape="ovo")
        machine.fit(kernel[np.ix_(rows, columns)], labels[rows])
        scores = scores + machine.decision_function(kernel[np.ix_(test, columns)])
    if len(classes) == 2:
        return float(np.mean(classes[(scores > 0).astype(int)] != labels[test]))
    first, second = np.triu_indices(len(classes), 1)
    wins = (first[:, None] == np.arange(len(classes))) * 1.0 - (second[:, None] == np.arange(len(classes)))
    size = np.abs(scores).sum(axis=1, keepdims=True) + 1
    chosen = (np.sign(scores) @ wins + (scores / size) @ wins).argmax(axis=1)  # the sum of scores settles a tie
    return float(np.mean(classes[chosen] != labels[test]))


def _blocks(encoder: FisherVector | MultiViewSuperVector, vectors: Array) -> tuple[Array, Array]:
    return vectors[:, encoder.blocks_["view 0"]], vectors[:, encoder.blocks_["view 1"]]


def _linear(vectors: Array, train: NDArray[np.int64]) -> Array:
    """Return the linear kernel of all vectors with the training vectors, scaled to a mean diagonal of 1."""
    chosen = vectors[train]
    size = float(np.einsum("ij,ij->i", chosen, chosen).mean())
    return vectors @ chosen.T / (size or 1.0)


def _part(view: Any, rows: NDArray[np.int64]) -> Any:
    """Return some bags of a view."""
    return [view[i] for i in rows] if isinstance(view, list) else view[rows]


def _means(view: Any) -> Array:
    if isinstance(view, np.ndarray):
        return view
    return np.stack([bag.mean(axis=0) if len(bag) else np.zeros(bag.shape[1]) for bag in view])


def _signed_roots(rows: NDArray[Any]) -> Array:
    rows = np.asarray(rows, dtype=np.float64)
    total = np.abs(rows).sum(axis=1, keepdims=True)
    return np.sign(rows) * np.sqrt(np.abs(rows) / np.where(total > 0, total, 1.0))
