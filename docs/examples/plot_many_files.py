"""
Principal components of rows in many files
==========================================

Rows lie in eight files. L-BFGS evaluates every row in each iteration; stochastic gradients of batches of rows come
close to the optimum within the first passes. Files are memory maps, so that only the rows in use are read.
"""

import tempfile
from functools import partial
from pathlib import Path

import autograd.numpy as anp
import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms

D, p, n_rows, rng = 40, 3, 16_000, np.random.default_rng(0)
basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
folder = Path(tempfile.mkdtemp())
for k in range(8):
    np.save(folder / f"{k}.npy", rng.standard_normal((2000, D)) * np.linspace(3, 0.5, D) @ basis.T)


def variance(rows):
    """Return minus the variance in the span of U, a sum over the rows of one file."""
    return ms.finite_sum(lambda U, batch: -anp.sum((rows[batch] @ U) ** 2) / n_rows, len(rows))


files = [partial(np.load, folder / f"{k}.npy", mmap_mode="r") for k in range(8)]
problem = ms.Problem(ms.manifolds.Grassmann(D, p), ms.sharded(variance, files))
second_moment = sum(np.load(folder / f"{k}.npy").T @ np.load(folder / f"{k}.npy") for k in range(8)) / n_rows
optimum = -np.linalg.eigvalsh(second_moment)[-p:].sum()


def excess(U):
    """Return the relative distance of the objective from the optimum."""
    return float(np.trace(U.T @ second_moment @ U) / optimum + 1)


# %%
# One pass over the files is one evaluation of L-BFGS, or 128 steps on batches of 125 rows.

start = problem.manifold.random_point(np.random.default_rng(1))
curves = {"L-BFGS": ([0.0], [excess(start)]), "stochastic gradients": ([0.0], [excess(start)])}


def record(name, passes):
    """Return a callback that keeps the number of passes and the excess of each iterate."""

    def callback(event):
        curves[name][0].append(passes(event))
        curves[name][1].append(max(excess(event.x), 1e-12))

    return callback


ms.minimize(
    problem, start, solver="lbfgs", callback=record("L-BFGS", lambda event: event.measures.evaluations.njev), seed=0
)
ms.minimize(
    problem,
    start,
    solver="sgd",
    options={"batch_size": 125, "step_size": ms.solvers.Cosine(0.003, steps=8 * 128)},
    stop=ms.MaxIterations(8 * 128),
    callback=record("stochastic gradients", lambda event: event.nit / 128),
    seed=0,
)

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, (passes, values) in curves.items():
    ax.semilogy(passes, values, label=name)
ax.set(xlabel="passes over the files", ylabel="share of the variance not explained", xlim=(0, 20))
ax.legend()
plt.show()
