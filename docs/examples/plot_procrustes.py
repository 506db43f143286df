"""
Orthogonal Procrustes problem with outliers
===========================================

Orthogonal Procrustes: the orthogonal matrix that best maps one set of points onto another. Least squares has a closed
form; with outliers another cost is better, and then only the cost changes.
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
Y[:15] = 2 * X[:15] @ truth.T  # outliers: turned the other way


def least_squares(Q):
    return anp.sum((X @ Q - Y) ** 2)


def robust(Q):
    return anp.sum(anp.sqrt(anp.sum((X @ Q - Y) ** 2, axis=1) + 0.01))


# %%
# Two costs, one line each
# ------------------------
# Orthogonal matrices have two components, rotations and reflections; ``components="all"`` tries both.

manifold = ms.manifolds.Orthogonal(2)
fits = {}
for cost in (least_squares, robust):
    problem = ms.Problem(manifold, ms.objective(cost))
    fit = fits[cost.__name__] = ms.minimize(problem, components="all", seed=0)
    turn = np.degrees(np.arctan2(fit.x[1, 0], fit.x[0, 0]))
    print(f"{cost.__name__}: {turn:.1f} degrees. {fit.message}")
print(f"truth: {np.degrees(angle):.1f} degrees")

# %%
# Least squares agrees with its closed form, by the singular value decomposition:

left, _, right = np.linalg.svd(X.T @ Y)
print(np.abs(fits["least_squares"].x - left @ right).max())

# %%
# The outliers pull the first fit far away, the second hardly.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharex=True, sharey=True, layout="constrained")
for ax, (name, fit) in zip(axes, fits.items(), strict=True):
    turned = X @ fit.x
    ax.plot(*Y.T, "o", mfc="none", label="Y")
    ax.plot(*turned.T, ".", label="X, turned")
    ax.set(title=name.replace("_", " "), xlabel="first coordinate", aspect="equal")
axes[0].set_ylabel("second coordinate")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)

# %%
# The path to the solution
# ------------------------

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
for name, fit in fits.items():
    label = name.replace("_", " ")
    ax.semilogy(fit.history["nit"], fit.history["grad_norm"], marker="o", label=label)
ax.set(xlabel="iteration", ylabel="gradient norm")
ax.legend()
plt.show()
