"""
Optimization on the Stiefel manifold
====================================

Four solvers minimize one function of an orthonormal frame: the weighted trace whose minimizer contains the leading
eigenvectors of a matrix in order. The eigenvalues are known, so the error of each iterate can be drawn.
"""

import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms

rng = np.random.default_rng(0)
n, p = 200, 5
basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
eigenvalues = np.geomspace(1, 100, n)
S = (basis * eigenvalues) @ basis.T
weights = np.arange(p, 0, -1)


def cost(X):
    return -np.sum(X * (S @ X) * weights)


def gradient(X):
    return -2 * (S @ X) * weights


problem = ms.Problem(ms.manifolds.Stiefel(n, p), cost, gradient=gradient)
optimum = -np.sum(np.sort(eigenvalues)[::-1][:p] * weights)

# %%
# Every solver starts at the same point. ``history`` has the objective after each iteration.

start = problem.manifold.random_point(rng)
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for solver in ("lbfgs", "tr", "cg", "gd"):
    result = ms.minimize(problem, start, solver=solver, max_iter=400, seed=0)
    error = np.maximum(np.array(result.history["fun"]) - optimum, 1e-13)
    ax.semilogy(error, label=f"{solver}: {result.nit} iterations, {result.status.name.lower()}")
ax.set(xlabel="iteration", ylabel="objective minus optimum", xlim=(0, 150))
ax.legend(fontsize="small")
plt.show()
