"""Bytes, recall and time of the sequence encoder compared with faiss indexes.

The tables of the paper were not available, so that no column compares with its figures.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from manifoldseq.reproduction import Row, figure_file, row
from manifoldseq_hierarchical import HierarchicalSequenceEncoder

from ._generated_paths import PATHS, queries
from ._peers import Peer, flat, inverted_curve, load_faiss, on_key_frames, principal, product
from ._runs import RUNS

Frames = NDArray[np.float32]

TOLERANCE = 10
KEY = 2 * TOLERANCE + 1
"""Distance between key frames: every frame lies within the tolerance of a key frame."""

ENCODERS = ((100, 1), (60, 1), (40, 1), (60, 2), (40, 2), (20, 2), (10, 4))
"""Segment lengths and bits of the curve, in the order of their bytes."""
_PROBES = (1, 4, 16, 64)
_EXHAUSTIVE = 200_000_000
"""Maximum number of pairs of queries and frames: larger searches use fewer queries. Times are per 1000 queries."""


def hierarchical_storage(
    data: FilePath | None = None,
    *,
    sizes: Sequence[int] = (10_000, 100_000, 1_000_000),
    n_seeds: int = 5,
    n_queries: int = 1000,
    figure: str | None = None,
) -> list[Row]:
    """Return bytes per frame, recall@1 and query times of the sequence encoder and of other indexes.

    Parameters
    ----------
    data : path, optional
        A folder with ``nordland`` and ``corridor``. By default paths are generated.
    sizes : sequence of int
        Numbers of frames of the generated paths.
    n_seeds : int
        Number of paths of each size. Results are means with standard errors over the paths.
    n_queries : int
        Number of noisy frames of each path that are used as queries.
    figure : str, optional
        File for a figure of the curves.

    Returns
    -------
    list of dict
        Rows with ``model, setting, metric, unit, ours, ours_se, paper``.

    Raises
    ------
    ValueError
        If files are missing in the folder; the message names one of them.
    ImportError
        If faiss is not installed.
    """
    if data is not None:
        return _real(data)
    file = figure_file(figure)
    measured: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    load_faiss().omp_set_num_threads(1)
    plan = [(path, n, seed) for path in PATHS for n in _sizes(sizes) for seed in range(n_seeds)]
    for path, n, seed in tqdm(plan, desc="hierarchical-storage", unit="path", disable=None):
        X = PATHS[path](n, seed=seed)
        t, Q = queries(X, n_queries, seed=seed)
        # the dense path is the same way at every size: the tolerance is a share of it
        tolerance = TOLERANCE if path == "long_path" else max(TOLERANCE, TOLERANCE * n // 10_000)
        key = KEY if path == "long_path" else 2 * tolerance + 1
        scale = key // KEY if path == "dense_path" else 1
        for name, size, search in _contestants(X, seed, key, max(scale, 1)):
            some = slice(max(1, _EXHAUSTIVE // n) if name in ALL_FRAMES else None)
            search(Q[:8])
            start = time.process_time()  # of one thread: other work on the machine does not count
            found = search(Q[some])
            took = 1e6 * (time.process_time() - start) / len(found)
            recall = float(np.mean(np.abs(found - t[some]) <= tolerance))
            measured.setdefault((f"{path} N={n}", name), []).append((size / n, recall, took))
    rows = [row for key, values in measured.items() for row in _rows(*key, np.array(values))]
    if file is not None:
        _draw(measured, file)
    return rows


def _sizes(sizes: Any) -> list[int]:
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    if not sizes or not all(isinstance(n, int) and n >= KEY * 256 for n in sizes):
        raise ValueError(f"sizes={sizes} is not valid: pass whole numbers of at least {KEY * 256}")
    return sizes


def _contestants(X: Frames, seed: int, key: int, scale: int) -> Iterator[tuple[str, int, Callable[[Frames], NDArray]]]:
    """Yield names, bytes and searches one at a time, so that only one index is in memory."""
    for length, bits in ENCODERS:
        encoder = HierarchicalSequenceEncoder(length * scale, bits=bits).fit(X)
        yield f"encoder {length}/{bits}", encoder.storage_report().total, encoder.predict
    for name, make in PEERS.items():
        if "key frames" in name:
            make = on_key_frames(make, key)
        peer = make(X, seed)
        yield name, peer.nbytes, peer.search
    for where, wrap in (("", lambda m: m), (" on key frames", lambda m: on_key_frames(m, key))):
        curve: Callable[[int], Peer] | None = None

        def probed(X: Frames, seed: int, n_probe: int) -> Peer:
            nonlocal curve
            curve = curve or inverted_curve(X, seed)
            return curve(n_probe)

        for n_probe in _PROBES:
            peer = wrap(partial(probed, n_probe=n_probe))(X, seed)
            yield f"IVFPQ16{where}, {n_probe} lists", peer.nbytes, peer.search


ALL_FRAMES: dict[str, Callable[..., Peer]] = {
    "flat float32": flat,
    "PQ8": partial(product, groups=8),
    "PQ16": partial(product, groups=16),
    "OPQ16": partial(product, groups=16, rotated=True),
    "PCA16-int8": principal,
}
"""Every frame is compared with every query."""
PEERS = ALL_FRAMES | {
    "PQ8 on key frames": partial(product, groups=8),
    "PQ16 on key frames": partial(product, groups=16),
    "OPQ16 on key frames": partial(product, groups=16, rotated=True),
    "PCA16-int8 on key frames": principal,
}


def _rows(setting: str, model: str, values: NDArray[np.float64]) -> Iterator[Row]:
    metrics = (("storage", "bytes/frame"), ("recall@1", ""), ("1000 queries", "ms"))
    for (metric, unit), column in zip(metrics, values.T.tolist(), strict=True):
        yield row(model, setting, metric, unit, column)


def _real(data: FilePath) -> list[Row]:
    """Return recall and bytes on two runs along the same route."""
    rows: list[Row] = []
    for name, load in RUNS.items():
        run = load(data)
        for (record, X), (other, Y) in ((run[0], run[1]), (run[1], run[0])):
            for tolerance in (0, 1, 5):
                for model, size, found in _found(X, Y):
                    recall = float(np.mean(np.abs(found - np.arange(len(Y))) <= tolerance))
                    setting = f"{name}: {other} in {record}, ±{tolerance}"
                    values = {"recall@1": ("", recall), "storage": ("bytes/frame", size / len(X))}
                    rows += [
                        {"model": model, "setting": setting, "metric": metric, "unit": u, "ours": v}
                        for metric, (u, v) in values.items()
                        if metric == "recall@1" or tolerance == 0
                    ]
    return rows


def _found(X: Frames, Y: Frames) -> Iterator[tuple[str, int, NDArray]]:
    exact = flat(X)
    yield "flat float32", exact.nbytes, exact.search(Y)
    d = X.shape[1]
    settings: dict[str, dict[str, Any]] = {
        "encoder, all coordinates, 1 bit": {"n_components": d, "bits": 1},
        "encoder, all coordinates, 8 bits": {"n_components": d, "bits": 8},
        "encoder, closed form, 64 coordinates, 2 bits": {"n_components": min(64, len(X) - 1), "bits": 2},
    }
    for model, choice in settings.items():
        encoder = HierarchicalSequenceEncoder(1, levels=0, **choice).fit(X)
        size = encoder.storage_report().total
        yield model, size, encoder.predict(Y)
        speed = (0.8, 1.2)
        yield f"{model}; lines", size, np.rint(encoder.match(Y, method="lines", speed=speed))
        yield f"{model}; Bayes", size, np.rint(encoder.match(Y, speed=speed))
        yield f"{model}; Bayes, smoothed", size, np.rint(encoder.match(Y, speed=speed, smooth=True))


def _draw(measured: dict[tuple[str, str], list[tuple[float, float, float]]], file: FilePath) -> None:
    """Draw recall against bytes per frame, one panel for each path and size."""
    from matplotlib.figure import Figure

    from manifoldseq.report import log_scale, marker_style, prepared_axes

    settings = list(dict.fromkeys(setting for setting, _ in measured))
    columns = min(3, len(settings))
    figure = Figure(figsize=(4 * columns, 3.4 * -(-len(settings) // columns)), layout="constrained")
    families = ("encoder", "flat", "PQ8", "PQ16", "OPQ16", "PCA16", "IVFPQ16")
    for k, setting in enumerate(settings):
        ax = prepared_axes(figure.add_subplot(-(-len(settings) // columns), columns, k + 1))
        for color, family in enumerate(families):
            for keyed in (False, True):
                points = [
                    np.mean(values, axis=0)[:2]
                    for (where, name), values in measured.items()
                    if where == setting and name.startswith(family) and ("key frames" in name) is keyed
                ]
                if points:
                    x, y = np.array(points).T
                    label = f"{family}{', key frames' if keyed else ''}"
                    style = marker_style(color) | {"fillstyle": "none" if keyed else "full", "markeredgewidth": 1.2}
                    style["linestyle"] = "-" if family == "encoder" else ""
                    ax.plot(x, y, label=label, **style)
        log_scale(ax.xaxis)
        ax.set(xlabel="bytes per frame", ylabel="recall@1", title=setting, ylim=(0, 1.03))
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=1 + 2 * columns, fontsize="small")
    figure.savefig(file, dpi=120)
