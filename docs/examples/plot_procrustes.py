"""
Orthogonal Procrustes problem with outliers
===========================================

The orthogonal Procrustes problem finds the orthogonal matrix that best maps one set of points onto another. For least
squares there is a closed form. With outliers, a robust cost is better, and only the cost function changes.
"""

import autograd.numpy as anp
import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms

rng = np.random.default_rng(0)
angle = 0.7
truth = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
X = rng.standard_normal((60, 2)) * [2.0, 0.5]
Y = X @ truth + 0.05 * rng.standard_normal((60, 2))
Y[:15] = 2 * X[:15] @ truth.T  # outliers: rotated in the other direction


def least_squares(Q):
    return anp.sum((X @ Q - Y) ** 2)


def robust(Q):
    return anp.sum(anp.sqrt(anp.sum((X @ Q - Y) ** 2, axis=1) + 0.01))


# %%
# Two costs, one line each
# ------------------------
# The orthogonal matrices have two components, rotations and reflections; ``components="all"`` searches both.

manifold = ms.manifolds.Orthogonal(2)
fits = {}
for cost in (least_squares, robust):
    problem = ms.Problem(manifold, ms.objective(cost))
    fit = fits[cost.__name__] = ms.minimize(problem, components="all", seed=0)
    angle_found = np.degrees(np.arctan2(fit.x[1, 0], fit.x[0, 0]))
    print(f"{cost.__name__}: {angle_found:.1f} degrees. {fit.message}")
print(f"truth: {np.degrees(angle):.1f} degrees")

# %%
# The least-squares result agrees with the closed form, computed by the singular value decomposition:

left, _, right = np.linalg.svd(X.T @ Y)
print(np.abs(fits["least_squares"].x - left @ right).max())

# %%
# The outliers change the least-squares estimate much, and the robust estimate little.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharex=True, sharey=True, layout="constrained")
for ax, (name, fit) in zip(axes, fits.items(), strict=True):
    rotated = X @ fit.x
    ax.plot(*Y.T, "o", mfc="none", label="Y")
    ax.plot(*rotated.T, ".", label="X, rotated")
    ax.set(title=name.replace("_", " "), xlabel="first coordinate", aspect="equal")
axes[0].set_ylabel("second coordinate")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)

# %%
# Convergence
# -----------

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
for name, fit in fits.items():
    label = name.replace("_", " ")
    ax.semilogy(fit.history["nit"], fit.history["grad_norm"], marker="o", label=label)
ax.set(xlabel="iteration", ylabel="gradient norm")
ax.legend()
plt.show()
