"""Figure 1 of the paper: purity and time per epoch of PGD, MDS, Align and our mean, by number of clusters."""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import manifoldseq as ms
from manifoldseq.estimators import check_whole
from manifoldseq.execution import one_blas_thread
from manifoldseq.reproduction import Row, folder_of, row
from manifoldseq_lds import LDSIdentifier, LDSKMeans, Systems, dynamic_textures, read_textures

from ._centre_baselines import AlignMean
from ._data import LAYOUTS, texture_systems

Measured = dict[str, list[float]]

SETS: dict[str, dict[str, Any]] = {
    "japanese-vowels": {"n_states": 3, "center": False},
    "basic-motions": {"n_states": 5, "center": True},
    "dynamic-textures": {"n_states": 10, "center": True},
}
"""Default data sets, and the settings of their identification."""
OURS, PGD, MDS, ALIGN = "ours", "PGD (toolbox rule)", "MDS", "Align"
_FEWEST = 2.0


def figure1(
    data: Path | str | None = None,
    *,
    layout: str = "sequences",
    sets: Sequence[str] = tuple(SETS),
    clusters: Sequence[int] = (4, 8, 16, 32, 64, 128),
    rates: Sequence[float] = (0.1, 0.3, 1.0),
    n_starts: int = 10,
    max_iter: int = 10,
    n_videos: int = 60,
    size: int = 16,
    n_states: int = 10,
    seed: int = 0,
    folder: Path | str = "runs/lds-fig1",
    resume: bool = False,
) -> list[Row]:
    """Cluster sequences with four rules for the cluster centre, from the same random assignments.

    The rules are ours (the mean over all stable systems, ``mean="exact"``), PGD as in the authors' toolbox, MDS with
    the Martin kernel, which is also used for the assignment, and Align with every rate. As in the paper, Align reports
    the rate with the highest mean purity.

    Parameters
    ----------
    data : path-like, optional
        A directory that replaces the data sets. Its sequences are identified with `n_states` after their means are
        removed.
    layout : {"sequences", "dyntex++", "yupenn", "dyntex"}
        Layout of `data`: labelled sequences, see `manifoldseq.storage.read_directory`, or videos, see `read_textures`.
        Videos are described by LBP-TOP features.
    sets : sequence of {"japanese-vowels", "basic-motions", "dynamic-textures"}
        Data sets.
    clusters : sequence of int
        Numbers of clusters; numbers with fewer than two sequences per cluster are left out.
    rates : sequence of float
        Step sizes of Align.
    n_starts : int
        Number of random assignments.
    max_iter : int
        Maximum number of epochs of a start; a start also ends when the relative change of the mean squared distance is
        below 1e-4.
    n_videos : int
        Number of generated textures.
    size : int
        Rows and columns of the generated textures.
    n_states : int
        Number of states for `data`.
    seed : int
        Seed of all random choices.
    folder : path-like
        Folder for ``results.json``, which is written after every run, and ``figure.png``.
    resume : bool
        Reuse the results in ``results.json``; its settings must be the same.

    Returns
    -------
    list of dict
        Means and standard errors over the starts, then each claim of the paper and how often it holds here. The paper
        prints curves and no numbers.

    Raises
    ------
    ValueError
        If settings are not valid, or if results with other settings exist and `resume` is true.
    """
    if layout not in (known := ("sequences", *LAYOUTS)):
        raise ValueError(f"layout={layout!r} is not known: choose {', '.join(map(repr, known))}")
    _check(sets, clusters, rates, n_starts=n_starts, max_iter=max_iter, n_videos=n_videos, size=size)
    settings = {
        "data": None if data is None else f"{layout} {data}",
        "rates": list(rates),
        "max_iter": max_iter,
        "n_videos": n_videos,
        "size": size,
        "n_states": n_states,
        "seed": seed,
    }
    place = folder_of(folder)
    store = _Results(place, settings, resume)
    methods = {
        OURS: {"mean": "exact"},
        PGD: {"mean": "papers:toolbox", "bound": 0.999},
        MDS: {"mean": "papers:mds", "kernel": "martin-rbf"},
    }
    methods |= {f"{ALIGN}, rate {rate:g}": {"mean": AlignMean(rate=rate)} for rate in rates}
    names = list(sets) if data is None else [Path(data).name]
    with one_blas_thread():
        for name in names:
            systems, classes = _systems(name, data, layout, n_videos, size, n_states, seed)
            counts = [K for K in clusters if _FEWEST * K <= len(systems)]
            plan = [(K, start, method) for K in counts for start in range(n_starts) for method in methods]
            for K, start, method in tqdm(plan, desc=f"lds-fig1, {name}", unit="run", disable=None):
                key = f"{name}/{K}/{start}/{method}"
                if key not in store.found:
                    labels = np.random.default_rng([seed, K, start]).permutation(len(systems)) % K
                    store.add(key, _run(systems, classes, K, labels, max_iter, methods[method]))
    grouped = _grouped(store.found, names, clusters, methods, n_starts)
    _draw(grouped, names, place / "figure.png")
    return [*_rows(grouped), *_claims(grouped, names)]


def _run(systems: Systems, classes: NDArray[np.int64], K: int, labels: Any, max_iter: int, options: Any) -> list[float]:
    """Return purity, CPU seconds per epoch and the objective of one start."""
    began: list[float] = []
    model = LDSKMeans(K, n_states=systems.n_states, init=labels, max_iter=max_iter, tol=1e-4, **options)
    model.fit(systems, observers=[lambda event: began.append(time.process_time())])
    found = sum(np.bincount(classes[model.labels_ == k]).max() for k in np.unique(model.labels_)) / len(classes)
    return [float(found), (began[model.n_iter_] - began[0]) / model.n_iter_, float(model.mean_kernel_value_)]


def _systems(
    name: str, data: Any, layout: str, n_videos: int, size: int, n_states: int, seed: int
) -> tuple[Systems, NDArray[np.int64]]:
    if data is not None and layout != "sequences":
        videos = read_textures(data, layout)
        return texture_systems(videos, n_states), np.unique(videos.labels, return_inverse=True)[1]
    how: dict[str, Any]
    if data is not None:
        read, how = ms.storage.read_directory(data), {"n_states": n_states}
        if read.labels is None:
            raise ValueError(f"{data} has no labels, which purity needs: add labels")
        sequences, labels = read.sequences, read.labels
    elif name == "dynamic-textures":
        videos, labels = dynamic_textures(n_videos, size=size, random_state=seed)
        sequences, how = [video.reshape(len(video), -1) for video in videos], SETS[name]
    else:
        read, how = ms.hooks.get_dataset(name).loader(), SETS[name]
        sequences, labels = read.sequences, read.labels
    return LDSIdentifier(**how).fit_transform(sequences), np.unique(labels, return_inverse=True)[1]


class _Results:
    """Measurements, one entry per run, in a file that is replaced atomically."""

    def __init__(self, folder: Path, settings: Any, resume: bool) -> None:
        mark = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        self.path, self.mark, self.found = folder / "results.json", mark, {}
        if resume and self.path.is_file():
            document = json.loads(ms.storage.read_bytes(self.path))
            if document.get("settings") != mark:
                raise ValueError(
                    f"{self.path} has results of other settings: choose another folder, or run without --resume"
                )
            self.found = document["runs"]
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, key: str, values: list[float]) -> None:
        self.found[key] = values
        text = json.dumps({"settings": self.mark, "runs": self.found}, indent=0)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.path)


Grouped = dict[tuple[str, int, str], NDArray[np.float64]]


def _grouped(found: Measured, names: Any, clusters: Any, methods: Any, n_starts: int) -> Grouped:
    """Return arrays (starts, 3) by data set, number of clusters and method; Align is the best of its rates."""
    grouped: Grouped = {}
    for name in names:
        for K in clusters:
            some = {m: [found.get(f"{name}/{K}/{start}/{m}") for start in range(n_starts)] for m in methods}
            if any(values[0] is None for values in some.values()):
                continue
            for method, values in some.items():
                grouped[name, K, method] = np.array(values)
    for name in names:
        counts = [K for other, K, method in grouped if other == name and method == OURS]
        swept = [method for method in methods if method.startswith(ALIGN)]
        if counts:
            best = max(swept, key=lambda method: np.mean([grouped[name, K, method][:, 0].mean() for K in counts]))
            grouped |= {(name, K, ALIGN): grouped[name, K, best] for K in counts}
    return grouped


def _rows(grouped: Grouped) -> Iterator[Row]:
    for (name, K, method), values in sorted(grouped.items(), key=lambda entry: entry[0][:2]):
        for column, (metric, unit) in enumerate((("purity", ""), ("CPU time per epoch", "s"), ("objective", ""))):
            yield row(method, f"{name}, K={K}", metric, unit, values[:, column].tolist())


def _claims(grouped: Grouped, names: Sequence[str]) -> Iterator[Row]:
    """Yield the two claims of the paper, with the number of values of K for which they hold here."""
    for name in names:
        counts = sorted({K for other, K, _ in grouped if other == name})
        for method in (PGD, OURS):
            for rival in (MDS, ALIGN):
                for column, says in ((0, "purer than"), (1, "faster per epoch than")):
                    means = [np.array([grouped[name, K, m][:, column].mean() for K in counts]) for m in (method, rival)]
                    holds = (means[0] - means[1]) * (1 if column == 0 else -1) > 0
                    row = {"model": f"claim: {method} {says} {rival}", "setting": name, "metric": "numbers of clusters"}
                    yield row | {"unit": f"of {len(counts)}", "ours": int(holds.sum()), "paper": len(counts)}


def _draw(grouped: Grouped, names: Sequence[str], file: Path) -> None:
    """Draw purity above time per epoch, one column per data set, as the paper does."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    from manifoldseq.report import line_style, log_scale, prepared_axes

    figure = Figure(figsize=(3.8 * len(names), 6), layout="constrained")
    for column, name in enumerate(names):
        for quantity, label in enumerate(("purity", "CPU seconds per epoch")):
            ax = prepared_axes(figure.add_subplot(2, len(names), quantity * len(names) + column + 1))
            counts = sorted({K for other, K, _ in grouped if other == name})
            for series, method in enumerate((OURS, PGD, ALIGN, MDS)):
                values = [grouped[name, K, method][:, quantity].tolist() for K in counts]
                rows = [row(method, name, label, "", some) for some in values]
                means, errors = [one["ours"] for one in rows], [one["ours_se"] or 0.0 for one in rows]
                ax.errorbar(counts, means, errors, capsize=2, label=method, **line_style(series, len(counts)))
            log_scale(ax.xaxis)
            ax.set(xlabel="clusters", ylabel=label)
            ax.set_xticks(counts, [str(K) for K in counts])
            ax.xaxis.set_minor_locator(NullLocator())
            if quantity == 0:
                ax.set(title=name)
            else:
                log_scale(ax.yaxis)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * len(names), frameon=False)
    figure.savefig(file, dpi=120)


def _check(sets: Any, clusters: Any, rates: Any, **whole: int) -> None:
    for name, values, good in (
        ("sets", sets, lambda one: one in SETS),
        ("clusters", clusters, lambda one: isinstance(one, Integral) and int(one) >= 1),
        ("rates", rates, lambda one: isinstance(one, Real) and float(one) > 0),
    ):
        if isinstance(values, str) or not isinstance(values, Sequence) or not values or not all(map(good, values)):
            known = f"of {', '.join(SETS)}" if name == "sets" else "of positive numbers"
            raise ValueError(f"{name}={values!r} is not valid: pass a list {known}")
    for name, value in whole.items():
        check_whole(name, value)
