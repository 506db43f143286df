"""Clustering with settings chosen without labels: the whole grid, its purity, and controls."""

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSKMeans, choose_clustering

from .._report import Report
from ._controls import clustered
from ._purity import purity

SETS = (("basic-motions", 4), ("japanese-vowels", 9))
GRID = {"n_states": (2, 3, 4, 5), "identifier__center": (True, False)}
SPLITS, SEEDS = 2, 10


def run(report: Report) -> None:
    """Measure."""
    for name, K in SETS:
        report.title(f"{name}: {K} clusters, settings by forecasts one step ahead; {SEEDS} seeds")
        try:
            data = ms.hooks.get_dataset(name).loader()
        except FileNotFoundError as error:
            report.note(f"skipped: {error}")
            continue
        classes = np.unique(data.labels, return_inverse=True)[1]
        choice = choose_clustering(LDSKMeans(K, n_init=1), data.sequences, GRID, n_splits=SPLITS, random_state=0)
        forecasts, halves = choice.steps
        (best,), means = forecasts.chosen, []
        for i, params in enumerate(forecasts.params):
            identifier = LDSIdentifier(params["n_states"], center=params["identifier__center"])
            systems = identifier.fit_transform(data.sequences)
            seeds = SEEDS if i == best else 2
            found = [
                purity(LDSKMeans(K, n_states=params["n_states"], random_state=seed).fit(systems).labels_, classes)
                for seed in range(seeds)
            ]
            means.append(float(np.mean(found)))
            report.note(
                f"{'chosen' if i == best else '':<7}{params}: forecast error {forecasts.figure[i]:.4f}, "
                f"purity {means[-1]:.3f} +- {np.std(found):.3f} ({seeds} fits)"
            )
        report.note(f"agreement of halves with the chosen settings {halves.figure[halves.chosen[0]]:.3f}")
        controls = dict(clustered([np.asarray(x) for x in data.sequences], classes, K))
        for control, value in controls.items():
            report.row(f"{name}: {control}, mean purity", value, ".3f")
        control = max(controls, key=lambda one: controls[one])
        report.row(f"{name}: mean purity with the chosen settings", means[best], ".3f", least=0.85)
        report.row(f"{name}: its lead over time warping", means[best] - controls["time warping"], ".3f", least=1e-9)
        report.row(f"{name}: its lead over the best control, {control}", means[best] - controls[control], ".3f")
