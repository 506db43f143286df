"""Weights and concentrations of a known mixture, compared with Algorithm 1 as printed."""

import numpy as np
from scipy.stats import entropy

import manifoldseq as ms
from manifoldseq_hope import HOPE, VonMisesFisherMixture

from .._report import Report


def run(report: Report) -> None:
    """Measure."""
    report.title("vmf_mixture of the reference problem: weights 0.4 0.3 0.15 0.1 0.05, concentrations 2000 60 60 30 30")
    problems = report.reference("problems", "mixture")
    if problems is None:
        return
    X, weights, _, kappas = problems.vmf_mixture()
    model = VonMisesFisherMixture(5, random_state=0).fit(X)
    order = np.argsort(-model.weights_)
    report.row("EM: KL divergence of the weights", float(entropy(weights, model.weights_[order])), ".1e", most=1e-3)
    off = np.abs(model.concentrations_[order] / kappas - 1)
    report.row("EM: concentration of the component of 2000", float(model.concentrations_[order][0]), ".0f")
    report.row("EM: largest relative error of a concentration", float(off.max()), ".3f")
    joint = HOPE(5, n_latent=6, init="random", n_init=3, solver="em", max_iter=300, tol=1e-8, random_state=0).fit(X)
    found = np.sort(joint.weights_)[::-1]
    report.row("HOPE, M=6 of 12: KL divergence of the weights", float(entropy(weights, found)), ".1e", most=1e-3)
    problem = ms.get_model("hope.movmf").problem(X, n_components=5, n_latent=12, noise_variance=0.1)
    problem = problem.freeze("projection", "mu")
    for repaired in (False, True):
        options = {"step_size": 1e-4 if not repaired else 0.05, "repaired": repaired, "batch_size": 100}
        start = (np.eye(12), model.weights_, model.parameters_[0])
        solver = ms.get_solver("papers:penalty-sgd", **options)
        x = ms.minimize(problem, start, solver=solver, stop=ms.MaxIterations(800), seed=0).x
        name = "repaired" if repaired else "as printed"
        kl = float(entropy(weights, np.sort(x[1])[::-1]))
        report.row(f"Algorithm 1 {name}, weights alone, ten epochs: their KL divergence", kl, ".1e")
