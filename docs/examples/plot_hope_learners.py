"""
Learning an orthogonal projection: what the paper's recipe does
===============================================================

HOPE learns a projection U and a mixture of what it keeps, together. Its paper casts U U' = I as a penalty and climbs by
stochastic gradients (Algorithm 1). Here that algorithm runs as printed, beside variants that keep the rows of U
orthonormal in every step, and beside expectation maximization, the default of this library.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import manifoldseq as ms
from manifoldseq_hope import HOPE, correlations

images = load_digits().images[:600]
windows = np.lib.stride_tricks.sliding_window_view(images, (5, 5), axis=(1, 2)).reshape(-1, 25)
X = windows[np.random.default_rng(0).permutation(len(windows))[:4000]]
X = X - X.mean(axis=1, keepdims=True)
length = np.linalg.norm(X, axis=1, keepdims=True)
X = (X / np.where(length > 0, length, 1))[length[:, 0] > 0]

# %%
# The penalty
# -----------
# The paper's constants: rate .002, batches of 100, beta 1, sums over the batch. D(U) is the sum of the correlations of
# the rows; 28 is its largest value here. A penalty of that size cannot hold what a sum over 100 rows pulls together.

M, K = 8, 20
settings = {"n_components": M, "n_mixtures": K, "noise_variance": 0.1}
problem = ms.get_model("hope.movmf").build(X, **settings)
start = problem.initializers["random"](problem, np.random.default_rng(0))
runs = {
    "as printed": {"orthogonality": "penalty", "repaired": False},
    "penalty, means over a batch": {"orthogonality": "penalty", "step_size": 0.05},
    "QR in every step, means": {"orthogonality": "qr", "step_size": 0.05},
}
ends = {}
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, options in runs.items():
    solver = ms.get_solver("penalty-sgd", **{"step_size": 0.002, "batch_size": 100, "seed": 0} | options)
    state, measures = solver.init(problem, start)
    run = ms.iterate(lambda s, solver=solver: solver.step(problem, s), state, measures, stop=ms.MaxIterations(600))
    ends[name] = run.state["x"][0].T
    ax.plot(run.history["nit"], run.history["penalty"], label=name)
ax.set(xlabel="batches", ylabel="sum of correlations D(U)", title="Do the rows of U stay apart?")
ax.legend()

# %%
# Correlations of the rows of U after these 600 batches.

fig, axes = plt.subplots(1, 3, figsize=(7.5, 2.8), layout="constrained")
for ax, (name, U) in zip(axes, ends.items(), strict=True):
    image = ax.imshow(correlations(U), vmin=0, vmax=1, cmap="viridis")
    ax.set_title(name, fontsize="small")
fig.colorbar(image, ax=axes, shrink=0.8)

# %%
# The weights
# -----------
# Three components that share no data, with 60, 30 and 10 of 100 rows. The printed step adds N / pi and divides by the
# sum: it rests where the weights are as the square roots of the counts.

counts = np.array([60, 30, 10])
rows = np.repeat(np.eye(6)[:3], counts, axis=0)
toy = ms.get_model("hope.movmf").build(rows, n_components=3, n_mixtures=3, noise_variance=0.1)
begin = (np.eye(6)[:, :3].copy(), np.full(3, 1 / 3), 60 * np.eye(3))
weights = {"true": counts / 100}
for name, options in {
    "as printed": {"repaired": False, "step_size": 1e-3},
    "repaired": {"repaired": True, "step_size": 0.1},
}.items():
    result = ms.minimize(
        toy, begin, solver="penalty-sgd", options=options | {"batch_size": 100}, stop=ms.MaxIterations(400), seed=0
    )
    weights[name] = result.x[1]
weights["square roots"] = np.sqrt(counts) / np.sqrt(counts).sum()

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for i, (name, values) in enumerate(weights.items()):
    ax.bar(np.arange(3) + 0.2 * i, values, 0.2, label=name)
ax.set(xticks=np.arange(3) + 0.3, xticklabels=["60 rows", "30 rows", "10 rows"], ylabel="weight")
ax.legend()

# %%
# A fixed variance of the residual
# --------------------------------
# "As long as the learned noise variance is small enough", the paper says, the likelihood "will force all signal
# dimensions into the projection". So it does: with a larger one the mixture decides what U looks at. PCA leaves out the
# least energy that is possible.

pca = float(np.sort(np.linalg.eigvalsh(X.T @ X))[: X.shape[1] - M].sum() / np.sum(X**2))
variances = np.geomspace(0.003, 0.3, 5)
shares = [
    HOPE(M, K, noise_variance=float(v), init="random", max_iter=30, random_state=0).fit(X).residual_share_
    for v in variances
]

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.semilogx(variances, shares, marker="o", label="HOPE, random start")
ax.axhline(pca, color="0.5", linestyle=":", label="PCA")
ax.set(xlabel="variance of the residual", ylabel="energy left out", ylim=(0, None))
ax.legend()
plt.show()
