"""
A nonnegative principal component
=================================

The leading eigenvector of a matrix mixes signs. With the constraint that no entry is negative, the augmented Lagrangian
method returns the best nonnegative unit vector and a multiplier for each active constraint.
"""

import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms

rng = np.random.default_rng(0)
n = 12
half = rng.standard_normal((n, n))
A = half @ half.T


def cost(x):
    return -np.sum(x * (A @ x))


problem = ms.Problem(ms.manifolds.Stiefel(n, 1), cost, gradient=lambda x: -2 * A @ x, inequalities=lambda x: -x)
result = ms.minimize(problem, solver="augmented-lagrangian", n_starts=4, seed=0)
print(result.message)
leading = np.linalg.eigh(A)[1][:, -1]
leading *= np.sign(leading @ result.x[:, 0])

fig, axes = plt.subplots(1, 2, figsize=(9, 2.8), layout="constrained")
axes[0].bar(np.arange(n) - 0.2, leading, 0.4, label="leading eigenvector")
axes[0].bar(np.arange(n) + 0.2, result.x[:, 0], 0.4, label="nonnegative")
axes[0].axhline(0, color="k", linewidth=0.8)
axes[0].set(xlabel="entry", ylabel="value", xticks=range(n))
axes[0].legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
axes[1].bar(np.arange(n), result.multipliers["inequalities"], color="C3")
axes[1].set(xlabel="entry", ylabel="multiplier of its constraint", xticks=range(n))
plt.show()
