"""Identification: time against a loop, what stabilizers cost, missing values, forecasts, memory for files."""

import tempfile
import tracemalloc
from pathlib import Path

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, dynamic_textures

from .._report import Report, interleaved

STABILIZERS = ("SN", "clip", "UN", "MN", "HZP", "WLS", "DWLS", "CG", "LB1", "LB2")


def run(report: Report) -> None:
    """Measure."""
    rng = np.random.default_rng(0)
    _time(report, rng)
    _stabilizers(report, rng)
    _missing(report, rng)
    _forecast(report)
    _on_disk(report, rng)


def _loop(X: list[np.ndarray], n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Identify one sequence after the other: Doretto's closed form and soft normalization."""
    scale, made = np.concatenate(X).std(axis=0), []
    for x in X:
        Y = (x / scale).T
        U, s, Vt = np.linalg.svd(Y - Y.mean(axis=1, keepdims=True), full_matrices=False)
        states = s[:n, None] * Vt[:n]
        A = np.linalg.lstsq(states[:, :-1].T, states[:, 1:].T, rcond=None)[0].T
        P, a, Qt = np.linalg.svd(A)
        made.append(((P * np.tanh(1.25 * a)) @ Qt, U[:, :n]))
    return made


def _time(report: Report, rng: np.random.Generator) -> None:
    report.title("identification (it also returns noise_factor, Omega, x1) against a loop of SVD, lstsq and SVD")
    for what, N, T, d, n in (
        ("short: N=640 T=15 m=12 n=3", 640, 15, 12, 3),
        ("N=300 T=50 m=177 n=10", 300, 50, 177, 10),
    ):
        X = [rng.standard_normal((T, d)).cumsum(axis=0) for _ in range(N)]
        seconds = interleaved({"ours": lambda X=X, n=n: LDSIdentifier(n).fit_transform(X),
                               "loop": lambda X=X, n=n: _loop(X, n)})  # fmt: skip
        report.row(f"{what}: ms per system", 1e3 * np.median(seconds["ours"]) / N)
        report.row(f"{what}: times faster than the loop", float(np.median(seconds["loop"] / seconds["ours"])))


def _stabilizers(report: Report, rng: np.random.Generator) -> None:
    report.title("stabilizers, 40 sequences of growing random walks, n=10, m=20, T=60: all unstable by least squares")
    X = [rng.standard_normal((60, 20)).cumsum(axis=0) * 1.03 ** np.arange(60)[:, None] for _ in range(40)]
    parts = []
    for x in X:
        Y = x.T - x.T.mean(axis=1, keepdims=True)
        parts.append(Y / np.abs(Y).max())
    least = _errors(parts, [_least(Y) for Y in parts])
    for name in STABILIZERS:
        identifier = LDSIdentifier(10, scale=False, stabilizer=name).fit([Y.T for Y in parts])
        seconds = interleaved(
            {name: lambda identifier=identifier: identifier.transform([Y.T for Y in parts])}, repeat=1
        )
        systems = identifier.transform([Y.T for Y in parts])
        errors = _errors(parts, [(A, C) for A, C in zip(systems.A, systems.C, strict=True)])
        radius = np.abs(np.linalg.eigvals(systems.A)).max()
        report.row(f"{name}: largest spectral radius", radius, ".10f", most=1.0)
        report.row(f"{name}: error one step ahead over that of least squares, median", float(np.median(errors / least)))
        report.row(f"{name}: ms per system, identification included", 1e3 * seconds[name][0] / len(X))


def _least(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    C = np.linalg.svd(Y, full_matrices=False)[0][:, :10]
    X = C.T @ Y
    return X[:, 1:] @ np.linalg.pinv(X[:, :-1]), C


def _errors(parts: list[np.ndarray], models: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    states = [C.T @ Y for Y, (_, C) in zip(parts, models, strict=True)]
    return np.array([np.linalg.norm(x[:, 1:] - A @ x[:, :-1]) for x, (A, _) in zip(states, models, strict=True)])


def _missing(report: Report, rng: np.random.Generator) -> None:
    report.title("missing values, a fifth: error in units of each channel's deviation, against straight lines")
    t = np.arange(60)[:, None]
    waves = [np.hstack([np.cos(w * t), np.sin(w * t)]) @ rng.standard_normal((2, 8)) for w in (0.2, 0.3, 0.4, 0.5)]
    sets = {"noisy waves, n=2": (2, [x + 0.1 * rng.standard_normal(x.shape) for x in waves])}
    for name, n in (("basic-motions", 4), ("japanese-vowels", 3)):
        try:
            sets[f"{name}, 40 sequences, n={n}"] = (n, ms.hooks.get_dataset(name).loader().sequences[::16][:40])
        except FileNotFoundError as error:
            report.note(f"skipped: {error}")
    for name, (n, X) in sets.items():
        scale = np.concatenate(X).std(axis=0)
        for kind in ("entries", "whole steps"):
            holes = [rng.random(x.shape if kind == "entries" else (len(x), 1)) < 0.2 for x in X]
            holes = [
                np.broadcast_to(hole, x.shape) & (np.arange(len(x)) > 0)[:, None]
                for hole, x in zip(holes, X, strict=True)
            ]
            holed = [np.where(hole, np.nan, x) for hole, x in zip(holes, X, strict=True)]
            identifier = LDSIdentifier(n, missing="smooth").fit(holed)
            lines = [_on_lines(h) for h in holed]
            for way, filled in (("smoother", identifier.interpolate(holed)), ("straight lines", lines)):
                rest = [((y - x) / scale)[hole] for y, x, hole in zip(filled, X, holes, strict=True)]
                report.row(f"{name}, {kind}: {way}", float(np.sqrt(np.mean(np.concatenate(rest) ** 2))))


def _on_lines(holed: np.ndarray) -> np.ndarray:
    t = np.arange(len(holed))
    seen = ~np.isnan(holed)
    return np.column_stack([np.interp(t, t[here], x[here]) for x, here in zip(holed.T, seen.T, strict=True)])


def _forecast(report: Report) -> None:
    report.title("forecast of 15 frames from 45, generated textures: error over that of the mean frame")
    videos, labels = dynamic_textures()
    X = [video.reshape(60, -1) for video in videos]
    seen, ahead = [x[:45] for x in X], np.stack([x[45:] for x in X])
    spread = np.stack([x.mean(axis=0) for x in seen])[:, None] - ahead
    made = {
        str(settings): LDSIdentifier(2, scale=False, **settings).fit(seen).forecast(seen, 15)
        for settings in ({"stabilizer": "SN"}, {"stabilizer": "CG"}, {"stabilizer": "CG", "delay": 2})
    }
    # controls: with a mean and two lags each pixel has as many parameters as its mean and its row of C for two states
    made["control, last frame"] = np.repeat(np.stack([x[-1:] for x in seen]), 15, axis=1)
    made["control, autoregression of each pixel, two lags"] = np.stack([_autoregression(x, 2, 15) for x in seen])
    for way, forecast in made.items():
        for c, name in enumerate(("slow waves", "fast waves", "rotation", "rising noise", "flicker", "blobs")):
            error = np.sqrt(np.mean((forecast - ahead)[labels == c] ** 2) / np.mean(spread[labels == c] ** 2))
            report.row(f"{way}: {name}", float(error))


def _autoregression(x: np.ndarray, lags: int, n_steps: int) -> np.ndarray:
    """Return the steps (n_steps, d) after x (T, d) by an autoregression of each channel, by least squares."""
    made = list(x)
    rows = np.stack([np.ones_like(x[lags:]), *(x[lags - k : len(x) - k] for k in range(1, lags + 1))])
    weights = np.stack(
        [np.linalg.lstsq(rows[:, :, c].T, x[lags:, c], rcond=None)[0] for c in range(x.shape[1])], axis=1
    )
    for _ in range(n_steps):
        made.append(weights[0] + sum(weights[k] * made[-k] for k in range(1, lags + 1)))
    return np.stack(made[len(x) :])


def _on_disk(report: Report, rng: np.random.Generator) -> None:
    report.title("files of 250 x 20000 float32 per sequence, n=10: peak memory besides the result")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        file = np.lib.format.open_memmap(path, "w+", np.float32, (8, 250, 20_000))
        for i in range(len(file)):
            file[i] = rng.standard_normal((250, 10)) @ rng.standard_normal((10, 20_000))
        file.flush()
        del file
        X = np.load(path, mmap_mode="r")
        for N in (2, 8):
            tracemalloc.start()
            systems = LDSIdentifier(10).fit_transform(X[:N])
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            result = sum(getattr(systems, name).nbytes for name in ("A", "C", "x1", "noise_factor", "mean", "Omega"))
            report.row(
                f"{N} sequences, {X[:N].size * 8 / 2**20:.0f} MiB as float64: MiB", (peak - result) / 2**20, most=160
            )
        del X
