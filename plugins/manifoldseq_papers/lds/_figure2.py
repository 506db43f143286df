"""Figure 2 of the paper: reconstruction errors of dictionaries against time, and the cost of an update by m and n."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.execution import one_blas_thread
from manifoldseq.reproduction import (
    Row,
    Rows,
    check_number,
    check_whole,
    figure_file,
    finished,
    names,
    row,
    whole_numbers,
)
from manifoldseq_lds import (
    LDSDictionaryLearning,
    LDSIdentifier,
    LDSSparseCoder,
    Systems,
    dynamic_textures,
    read_textures,
)

from ._atom_baselines import GrassmannAtoms
from ._data import recorded, texture_systems

Array = NDArray[np.float64]

DATASETS = ("japanese-vowels", "basic-motions", "dynamic-textures")
METHODS: dict[str, dict[str, Any]] = {
    "PGD-full": {"method": "pgd"},
    "PGD-128": {"method": "pgd", "batch_size": 128},
    "LDSST": {"method": "papers:symmetric"},
    "Grass-3": {"method": "papers:grassmann"},
    "ours (L-BFGS)": {"method": "canonical", "inner_iter": 3},
}
_METRICS = {
    "error": ("NR, test, end", ""),
    "cost": ("NR without constant, test, end", ""),
    "seconds": ("CPU time per epoch", "s"),
}
_EXPONENTS = {"PGD": (1, 2), "LDSST": (2, 2), "Grass-3": (2, 2)}
"""Exponents of m and n in the cost of an update, as stated in the paper."""
_SIZES = {
    True: ([(m, 10) for m in (2000, 8000, 32000)], [(2000, n) for n in (8, 16, 32)]),
    False: ([(m, 10) for m in (100, 200, 400)], [(200, n) for n in (6, 12, 24)]),
}
"""The (m, n) for the timing of updates, increasing in m and in n, for PGD and for the baselines."""


@dataclass(frozen=True)
class Curve:
    """One run: CPU seconds and the two definitions of the test error after each epoch; record 0 is the start."""

    seconds: list[float]
    error: list[float]
    cost: list[float]


def normalized_error(values: Sequence[float]) -> Array:
    """Return the normalized reconstruction errors ``(R_t - R_0) / |R_0|`` of errors ``R_0, R_1, ...``."""
    first = np.asarray(values, dtype=float)
    return (first - first[0]) / abs(first[0])


def figure2(
    data: Path | str | None = None,
    *,
    datasets: Sequence[str] | str = DATASETS,
    n_atoms: Sequence[int] | int = (4, 8, 16),
    max_iter: int = 20,
    n_seeds: int = 3,
    n_videos: int = 120,
    alpha: float = 0.1,
    halve_every: int = 10,
    kernel: Any = "projection",
    complexity: bool = True,
    figure: str | None = None,
    folder: str = "runs/lds-fig2",
    resume: bool = False,
) -> Rows:
    """Compare how fast dictionaries reduce the test error, and fit the exponents of the cost of an update.

    Parameters
    ----------
    data : path-like, optional
        Folder of DynTex++ with one subfolder per class. It replaces the data sets.
    datasets : sequence of str
        Any of ``"japanese-vowels"``, ``"basic-motions"`` and ``"dynamic-textures"``.
    n_atoms : int or sequence of int
        Numbers of atoms.
    max_iter : int
        Epochs.
    n_seeds : int
        Number of random splits into halves for training and test, each with its own random start.
    n_videos : int
        Number of generated dynamic textures.
    alpha : float
        Sparsity factor of the codes.
    halve_every : int
        Number of epochs after which the rates of PGD are halved; 0 never halves the rates.
    kernel : str or kernel object
        The kernel of PGD and of our method; LDSST and Grass-3 have their own kernels.
    complexity : bool
        Also time epochs at growing m and n.
    figure : str, optional
        File for a figure of the curves.
    folder : str
        Folder for finished results.
    resume : bool
        Continue with the results in `folder`.

    Returns
    -------
    list of dict
        Rows with ``model, setting, metric, unit, ours, ours_se, paper``. The paper prints curves; it states the
        exponents, the factor 50 and the order of PGD-128 and PGD-full.

    Raises
    ------
    ValueError, FileNotFoundError
        If settings are invalid or data are missing; the message names them.
    """
    sets = ("dyntex++",) if data is not None else names("datasets", datasets, DATASETS)
    atoms, file = whole_numbers("n_atoms", n_atoms), figure_file(figure)
    for name, value in (("max_iter", max_iter), ("n_seeds", n_seeds), ("n_videos", n_videos)):
        check_whole(name, value)
    check_number("alpha", alpha, open_=True)
    if halve_every != 0:
        check_whole("halve_every", halve_every)
    rows: Rows = []
    curves: dict[tuple[str, int, str], list[Curve]] = {}
    with one_blas_thread():
        for name in sets:
            source = {"data": str(data), "videos": n_videos if name == "dynamic-textures" else 0}
            items = _Items(name, data, n_videos)
            for J in atoms:
                for method, special in METHODS.items():
                    settings = special
                    if special["method"] == "pgd" and halve_every != 10:  # the default of the estimator
                        settings = {**special, "halve_every": halve_every or None}
                    for seed in range(n_seeds):
                        key = {"part": "curve", "dataset": name, **source, "J": J, "method": method, "seed": seed}
                        key |= {"settings": settings, "epochs": max_iter, "alpha": alpha, "kernel": kernel}

                        compute = partial(_curve, items, J, settings, max_iter, alpha, kernel, seed)
                        found = finished(folder, resume, key, compute)
                        curves.setdefault((name, J, method), []).append(Curve(**found))
        for name in sets:
            for J in atoms:
                rows += _curve_rows(name, J, {method: curves[name, J, method] for method in METHODS})
        rows += _claims(curves)
        if complexity:
            rows += finished(folder, resume, {"part": "exponents", "version": 3}, lambda: list(_exponent_rows()))
    if file is not None:
        _draw(curves, file)
    return rows


@dataclass(frozen=True)
class _Items:
    """A data set that is read on first use."""

    name: str
    data: Path | str | None
    n_videos: int

    @cached_property
    def systems(self) -> Systems:
        return load(self.name, self.data, self.n_videos)


def load(name: str, data: Path | str | None, n_videos: int) -> Systems:
    """Return the systems of a data set, identified as in the experiments."""
    if name == "japanese-vowels":
        return LDSIdentifier(3, center=False).fit_transform(recorded("japanese-vowels").sequences)
    if name == "basic-motions":
        return LDSIdentifier(5).fit_transform(recorded("basic-motions").sequences)
    videos = read_textures(str(data)) if name == "dyntex++" else dynamic_textures(n_videos)[0]
    return texture_systems(videos)


def _curve(
    items: _Items, J: int, settings: Any, epochs: int, alpha: float, kernel: Any, seed: int
) -> dict[str, list[float]]:
    systems = items.systems
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(systems))
    half = len(systems) // 2
    train, test = systems[order[:half]], systems[order[half:]]
    chosen = dict(settings)
    if "batch_size" in chosen:
        chosen["batch_size"] = min(chosen["batch_size"], max(J, half // 4))
    chosen |= {"n_states": systems.n_states, "kernel": kernel, "alpha": alpha}
    first = train[rng.choice(half, J, replace=False)]
    compared = _kernel(settings, kernel)
    constant = float(compared.diag(compared.pack(test)).mean())
    seconds, errors, costs = [0.0], [], []

    def record(coder: Any) -> None:
        lengths = np.abs(coder.transform(test)).sum(axis=1)
        errors.append(-coder.score(test))
        costs.append(errors[-1] - alpha * float(lengths.mean()) - constant)

    record(LDSSparseCoder(first, kernel=compared, alpha=alpha).fit(train))
    model = LDSDictionaryLearning(J, init=first, tol=0.0, random_state=seed, **chosen)
    with TemporaryDirectory() as folder:
        for epoch in range(1, epochs + 1):  # one more each, from where the last ended
            clock: list[float] = []
            model.set_params(max_iter=epoch)
            model.fit(
                train,
                observers=[lambda event, clock=clock: clock.append(time.process_time())],
                checkpoint=folder,
                resume=epoch > 1,
            )
            seconds.append(seconds[-1] + clock[-1] - clock[0])
            record(model)
    return {"seconds": seconds, "error": errors, "cost": costs}


def _kernel(settings: dict[str, Any], kernel: Any) -> Any:
    """Return the kernel with which a method compares systems."""
    if settings["method"] == "papers:grassmann":
        return ms.get_kernel("grassmann", n_steps=GrassmannAtoms().n_steps)
    if settings["method"] == "papers:symmetric":
        return ms.get_kernel("symmetric-projection")
    return ms.get_kernel(kernel) if isinstance(kernel, str) else kernel


def _curve_rows(name: str, J: int, curves: dict[str, list[Curve]]) -> Iterator[Row]:
    for method, runs in curves.items():
        values = {
            "error": [normalized_error(run.error)[-1] for run in runs],
            "cost": [normalized_error(run.cost)[-1] for run in runs],
            "seconds": [run.seconds[-1] / (len(run.seconds) - 1) for run in runs],
        }
        for key, (metric, unit) in _METRICS.items():
            yield row(method, f"{name}, J={J}", metric, unit, values[key])


def _claims(curves: dict[tuple[str, int, str], list[Curve]]) -> Iterator[Row]:
    """Yield the statements of the paper about the curves, over all data sets, dictionary sizes and seeds."""
    settings = sorted({key[:2] for key in curves})

    def ends(method: str) -> Array:
        return np.array([[normalized_error(run.error)[-1] for run in curves[*s, method]] for s in settings])

    def pace(method: str, name: str) -> Array:
        return np.array([[run.seconds[-1] for run in curves[*s, method]] for s in settings if s[0] == name])

    for other in ("PGD-full", "Grass-3", "LDSST"):
        share = float(np.mean(ends("PGD-128") < ends(other)))
        yield row(f"PGD-128 below {other}", "all", "share of runs, NR in the end", "", [share], 1.0)
    for name in dict.fromkeys(dataset for dataset, _ in settings):
        for other in ("Grass-3", "LDSST"):
            for method in ("PGD-full", "PGD-128"):
                ratio = float(np.median(pace(other, name) / pace(method, name)))
                yield row(f"{method} against {other}", name, "times faster per epoch, median", "", [ratio], 50.0)


def _exponent_rows() -> Iterator[Row]:
    for name, stated in _EXPONENTS.items():
        settings = METHODS["PGD-full" if name == "PGD" else name]
        for axis, sizes, exponent in zip(("m", "n"), _SIZES[name == "PGD"], stated, strict=True):
            seconds = [_update_seconds(m, n, settings) for m, n in sizes]
            growing = [m if axis == "m" else n for m, n in sizes]
            slope = float(np.polyfit(np.log(growing), np.log(seconds), 1)[0])
            fixed = f"n={sizes[0][1]}" if axis == "m" else f"m={sizes[0][0]}"
            where = f"N=100, J=8, {fixed}, {axis}={growing[0]}..{growing[-1]}"
            yield row(name, where, f"exponent of {axis}, one atom of an epoch", "", [slope], float(exponent))


def _update_seconds(m: int, n: int, settings: dict[str, Any], repeat: int = 3) -> float:
    """Return the median CPU seconds per atom of one epoch, including codes, on generated systems."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((100, n, n))
    A *= 0.9 / np.linalg.norm(A, 2, axis=(1, 2))[:, None, None]
    C = np.linalg.qr(rng.standard_normal((100, m, n)))[0]
    systems = Systems(A, C)
    # atoms next to data, not at them: there every gradient is zero, and the first epoch the last
    nearby = np.linalg.qr(C[:8] + rng.standard_normal((8, m, n)) / (3 * np.sqrt(m)))[0]
    clock: list[float] = []
    chosen = {**settings, "n_states": n, "init": Systems(A[:8], nearby), "max_iter": repeat + 1, "tol": 0.0}
    model = LDSDictionaryLearning(8, **chosen)
    model.fit(systems, observers=[lambda event: clock.append(time.process_time())])
    return float(np.median(np.diff(clock)[1:])) / 8


def _draw(curves: dict[tuple[str, int, str], list[Curve]], file: Path) -> None:
    """Draw test errors against time as in the paper: a row per data set, a panel per dictionary size."""
    from matplotlib.figure import Figure

    from manifoldseq.report import line_style, log_scale, prepared_axes

    names = list(dict.fromkeys(key[0] for key in curves))
    sizes = list(dict.fromkeys(key[1] for key in curves))
    figure = Figure(figsize=(3.6 * len(sizes), 3 * len(names) + 0.5), layout="constrained")
    for i, name in enumerate(names):
        for j, J in enumerate(sizes):
            ax = prepared_axes(figure.add_subplot(len(names), len(sizes), i * len(sizes) + j + 1))
            for color, method in enumerate(METHODS):
                runs = curves[name, J, method]
                seconds = np.mean([run.seconds for run in runs], axis=0)[1:]
                errors = np.mean([normalized_error(run.error) for run in runs], axis=0)[1:]
                ax.plot(seconds, errors, label=method, **line_style(color))
            log_scale(ax.xaxis)
            ax.set(title=f"{name}, J = {J}", xlabel="CPU time (s)", ylabel="test NR")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * len(sizes), fontsize="small")
    figure.savefig(file, dpi=120)
