"""One EM iteration against a dense one, on soft and on hard data."""

import numpy as np

import manifoldseq as ms
from manifoldseq_mpcca import Mixture

from .._report import Report, interleaved

N, DX, DY, K, D_LATENT = 10_000, 100, 100, 64, 32
TARGETS = {"soft": 8, "hard": 12}


def run(report: Report) -> None:
    """Measure."""
    report.title(f"EM iteration against mpcca_naive: N={N}, K={K}, dx=dy={DX}, d={D_LATENT}, diagonal noise")
    problems, naive = report.reference("problems", "iteration"), report.reference("mpcca_naive", "iteration")
    if problems is None or naive is None:
        return
    V, *hard = problems.two_view_mixture(N, DX, DY, K, D_LATENT)
    views = [V[:, :DX], V[:, DX:]]
    problem = ms.get_model("mpcca").problem(views, n_components=K, n_latent=D_LATENT, noise_floor=1e-9, update="joint")
    additive, model = problem.objective.additive, problem.data.model
    for kind, parameters in (("soft", problems.soften(V, *hard)), ("hard", tuple(hard))):
        w, mu, W, Psi = parameters
        mixture = Mixture(w, mu, W, [Psi[:, :DX], Psi[:, DX:]])

        def ours(mixture: Mixture = mixture) -> tuple[float, Mixture]:
            point = mixture.point
            sums = additive.sums(point)
            return sums.log_likelihood, model.mixture(additive.plain[0].apply(point, sums))

        def dense(parameters: tuple = parameters) -> tuple[float, list]:
            return naive.em_iteration(V, *parameters)

        (value, new), (expected, parts) = ours(), dense()
        pairs = zip((new.weights, new.means, new.loadings, new.variances), zip(*parts, strict=True), strict=True)
        off = max(float(np.abs(a - np.array(b)).max()) for a, b in pairs)
        seconds = interleaved({"ours": ours, "dense": dense}, repeat=5)
        report.row(f"{kind}: seconds of an iteration", float(np.median(seconds["ours"])))
        report.row(f"{kind}: times faster", float(np.median(seconds["dense"] / seconds["ours"])), least=TARGETS[kind])
        report.row(f"{kind}: relative difference of the log-likelihoods", abs(value / expected - 1), most=1e-12)
        report.row(f"{kind}: largest difference of the parameters", off, most=1e-9)
