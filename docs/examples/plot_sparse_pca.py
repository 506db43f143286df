"""
Sparse principal components
===========================

Each of two hidden factors influences ten of thirty variables. Principal components mix all variables; the sparse
components have loadings on the variables of one factor.
"""

import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms

rng = np.random.default_rng(0)
loadings = np.zeros((30, 2))
loadings[:10, 0], loadings[10:20, 1] = 1.0, 0.9
X = rng.standard_normal((200, 2)) @ loadings.T + rng.standard_normal((200, 30))
S = np.cov(X.T)
smooth = 1e-3


def sparse_pca(penalty):
    """Return the problem: explained variance less a smooth L1 penalty of the loadings."""

    def value_and_gradient(U):
        size = np.sqrt(U**2 + smooth**2)
        return -np.sum(U * (S @ U)) + penalty * np.sum(size), -2 * S @ U + penalty * U / size

    return ms.Problem(ms.manifolds.Stiefel(30, 2), ms.objective(value_and_gradient=value_and_gradient))


principal = np.linalg.eigh(S)[1][:, :-3:-1]
components, variances, counts = {}, [], []
penalties = (0.0, 0.5, 1.0, 2.0, 4.0)
start = principal
for penalty in penalties:
    result = ms.minimize(sparse_pca(penalty), start, seed=0)
    start = components[penalty] = result.x
    variances.append(np.trace(result.x.T @ S @ result.x) / np.trace(S))
    counts.append(np.mean(np.abs(result.x) > 0.01))
    print(f"penalty {penalty}: {variances[-1]:.1%} of the variance, {counts[-1]:.0%} of the loadings are not zero")

fig, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained", width_ratios=[1.2, 1.2, 1])
for ax, penalty in zip(axes, (0.0, 2.0), strict=False):
    for k in range(2):
        ax.stem(np.arange(30) + 0.3 * k, components[penalty][:, k], linefmt=f"C{k}-", markerfmt=f"C{k}.", basefmt=" ")
    ax.set(title=f"penalty {penalty:g}", xlabel="variable", ylim=(-0.65, 0.65))
axes[0].set_ylabel("loading")
axes[2].plot(penalties, counts, "o-", label="loadings that are not zero")
axes[2].plot(penalties, variances, "s-", label="explained variance")
axes[2].set(xlabel="penalty", ylabel="share", ylim=(0, 1.25))
axes[2].legend(fontsize="small", loc="upper center")
plt.show()
