"""
Independent component analysis by joint diagonalization
=======================================================

Three signals are mixed by an unknown matrix. One orthogonal matrix that makes several lagged covariances diagonal at
once separates them (second-order blind identification, Belouchrani et al. 1997).
"""

import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms

rng = np.random.default_rng(0)
t = np.arange(1000) / 100
sources = np.column_stack([np.sin(9 * t), np.sign(np.sin(2.2 * t)), 2 * ((2.3 * t) % 1) - 1])
sources += 0.05 * rng.standard_normal(sources.shape)
mixed = sources @ rng.standard_normal((3, 3)).T

# %%
# White signals are a rotation or reflection of the sources. Their covariances at forty lags are symmetric matrices
# that the right orthogonal matrix makes diagonal.

centred = mixed - mixed.mean(axis=0)
values, vectors = np.linalg.eigh(np.cov(centred.T))
white = centred @ vectors / np.sqrt(values)
lagged = np.stack([white[lag:].T @ white[:-lag] / len(white) for lag in range(1, 41)])
lagged = (lagged + lagged.mT) / 2


def value_and_gradient(Q):
    D = Q.T @ lagged @ Q
    off = D * (1 - np.eye(3))
    return float(np.sum(off**2)), 4 * np.sum(lagged @ Q @ off, axis=0)


problem = ms.Problem(ms.manifolds.SpecialOrthogonal(3), ms.objective(value_and_gradient=value_and_gradient))
result = ms.minimize(problem, n_starts=4, seed=0)
separated = white @ result.x
match = np.abs(np.corrcoef(separated.T, sources.T)[:3, 3:])
print(match.round(3))

fig, axes = plt.subplots(3, 3, figsize=(9, 3.6), sharex=True, layout="constrained")
order = match.argmax(axis=0)
signs = np.sign([np.corrcoef(separated[:, order[k]], sources[:, k])[0, 1] for k in range(3)])
for column, (name, signals) in enumerate(
    {"sources": sources, "mixtures": mixed, "separated": separated[:, order] * signs}.items()
):
    for row in range(3):
        axes[row, column].plot(t, signals[:, row], color=f"C{row}" if column != 1 else "0.4", linewidth=0.8)
        axes[row, column].set(yticks=[])
    axes[0, column].set_title(name)
    axes[2, column].set_xlabel("seconds")
plt.show()
