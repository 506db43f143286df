"""
Keeping projections orthogonal while HOPE learns
================================================

HOPE learns a projection U together with a mixture of the projected rows. Its paper replaces the constraint U U' = I by
a penalty, the sum of the correlations of the rows of U, and maximizes by stochastic gradients (Algorithm 1). This
example compares that algorithm, as printed and repaired, with a version that keeps the rows orthonormal in every step,
with a version without penalty, and with expectation maximization, the default of this library. (For networks trained
with labels, see Figure 4 in :doc:`/guide/hope-networks`.)
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import manifoldseq as ms
from manifoldseq.linalg import polar
from manifoldseq_hope import HOPE, correlations, log_normalizer

images = load_digits().images[:600]
windows = np.lib.stride_tricks.sliding_window_view(images, (5, 5), axis=(1, 2)).reshape(-1, 25)
X = windows[np.random.default_rng(0).permutation(len(windows))[:4000]]
X = X - X.mean(axis=1, keepdims=True)
length = np.linalg.norm(X, axis=1, keepdims=True)
X = (X / np.where(length > 0, length, 1))[length[:, 0] > 0]

# %%
# Learning curves
# ---------------
# The constants are those of the paper: learning rate 0.002, batches of 100 rows, beta = 1. U starts with random rows of
# unit length. The largest possible sum of correlations of eight rows is 28, when all rows are equal.
#
# As printed, the algorithm sums likelihoods over the batch and adds the penalty once, so that the penalty is too weak:
# the correlations grow. With means instead of sums (and a larger learning rate), half of the correlations disappear at
# once. The others remain, because the derivative of an absolute value does not decrease near zero. Without the penalty
# the correlations grow. With orthonormal rows they are zero after the first step.

M, K = 8, 20
settings = {"n_components": K, "n_latent": M, "noise_variance": 0.1}
problem = ms.get_model("hope.movmf").problem(X, **settings)
rng = np.random.default_rng(0)
U = rng.uniform(-1, 1, (X.shape[1], M))  # rows of U are columns of a point on the Stiefel manifold
U /= np.linalg.norm(U, axis=0)
z = X[rng.choice(len(X), K, replace=False)] @ U
start = (U, np.full(K, 1 / K), 30 * z / np.linalg.norm(z, axis=1, keepdims=True))
means = {"step_size": 0.05}
runs = {
    "as printed: sums, penalty": {"orthogonality": "penalty", "repaired": False},
    "means, no penalty": {"orthogonality": "penalty", "beta": 0.0} | means,
    "means, penalty": {"orthogonality": "penalty"} | means,
    "means, kept orthonormal": {"orthogonality": "qr"} | means,
}
ends = {}
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, options in runs.items():
    solver = ms.get_solver("papers:penalty-sgd", **{"step_size": 0.002, "batch_size": 100, "seed": 0} | options)
    state, measures = solver.init(problem, start)
    run = ms.iterate(lambda s, solver=solver: solver.step(problem, s), state, measures, stop=ms.MaxIterations(1200))
    ends[name] = run.state["x"]
    ax.plot(run.history["nit"], run.history["penalty"], label=name)
ax.set(xlabel="batches", ylabel="sum of correlations D(U)", title="Correlations of the rows of U", ylim=(-1, 29))
ax.legend(fontsize="small", loc=(0.48, 0.2))

# %%
# The correlations of the rows of U after 1200 batches:

fig, axes = plt.subplots(1, 4, figsize=(8, 2.4), layout="constrained")
for ax, (name, x) in zip(axes, ends.items(), strict=True):
    image = ax.imshow(correlations(x[0].T), vmin=0, vmax=1, cmap="viridis")
    ax.set_title(name, fontsize="x-small")
fig.colorbar(image, ax=axes, shrink=0.8)

# %%
# None of these runs is close to a maximum: with a learning rate that is small enough for U, the concentrations hardly
# change from their start at 30. Expectation maximization updates the mixture in closed form and keeps U on the
# manifold. The mean log-likelihoods of the rows are, with all constants and the nearest orthonormal U:

model = HOPE(K, n_latent=M, noise_variance=0.1, init="random", random_state=0).fit(X)
print(f"{'expectation maximization':26}{model.log_likelihood_:6.1f}")
for name in ("means, no penalty", "means, penalty", "means, kept orthonormal"):
    U, *mixture = ends[name]
    print(f"{name:26}{-problem.objective.value((polar(U), *mixture)):6.1f}")

# %%
# Why the rows become equal without a constraint
# ----------------------------------------------
# z is scaled to unit length, so that its density is on a sphere and does not depend on the original length. If all rows
# of U are equal, z is one of only two points. The likelihood of two components at these points increases without bound
# with their concentration. With orthonormal rows there is a best concentration.

kappas = np.geomspace(3, 3e4, 9)
collapsed = [log_normalizer(M, kappa) + kappa + np.log(0.5) for kappa in kappas]
spread = []
for kappa in kappas:
    fixed = HOPE(K, n_latent=M, noise_variance=0.1, kappa=float(kappa), max_iter=20, random_state=0).fit(X)
    spread.append(np.logaddexp.reduce(fixed.log_contributions(X), axis=1).mean())

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.semilogx(kappas, collapsed, marker="o", label="equal rows of U")
ax.semilogx(kappas, spread, marker="s", label="orthonormal rows, K = 20")
ax.set(xlabel="concentration", ylabel="mean of ln p(z)", ylim=(-40, 40))
ax.legend()

# %%
# Mixture weights of the printed algorithm
# ----------------------------------------
# Three separate components have 60, 30 and 10 of 100 rows. The printed step adds N / pi to the weights pi, where N are
# the counts, and divides by the sum. It converges to weights that are proportional to the square roots of the counts.

counts = np.array([60, 30, 10])
rows = np.repeat(np.eye(6)[:3], counts, axis=0)
toy = ms.get_model("hope.movmf").problem(rows, n_components=3, n_latent=3, noise_variance=0.1)
start = (np.eye(6)[:, :3].copy(), np.full(3, 1 / 3), 60 * np.eye(3))
weights = {"true": counts / 100}
for name, options in {
    "as printed": {"repaired": False, "step_size": 1e-3},
    "repaired": {"repaired": True, "step_size": 0.1},
}.items():
    result = ms.minimize(
        toy,
        start,
        solver="papers:penalty-sgd",
        options=options | {"batch_size": 100},
        stop=ms.MaxIterations(400),
        seed=0,
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
# The paper says that the likelihood "will force all signal dimensions into the projection" as long as "the learned
# noise variance is small enough". The figure confirms this. With a larger variance, the mixture determines the
# projection. The projection of PCA leaves out the least possible energy.

pca = float(np.sort(np.linalg.eigvalsh(X.T @ X))[: X.shape[1] - M].sum() / np.sum(X**2))
variances = np.geomspace(0.003, 0.3, 5)
shares = [
    HOPE(K, n_latent=M, noise_variance=float(v), init="random", max_iter=30, random_state=0).fit(X).residual_share_
    for v in variances
]

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.semilogx(variances, shares, marker="o", label="HOPE, random start")
ax.axhline(pca, color="0.5", linestyle=":", label="PCA")
ax.set(xlabel="variance of the residual", ylabel="share of the energy outside U", ylim=(0, None))
ax.legend()
plt.show()
