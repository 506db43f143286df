"""
Shared and private parts of two views
=====================================

Handwritten numerals are described by two views, 76 Fourier coefficients and 64 Karhunen-Loève coefficients. A mixture
of probabilistic canonical correlation analysis separates each sample into a part that both views share, the latent
vector z, and the private part of each view, x - W z.
"""

import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms
from manifoldseq_mpcca import MixturePCCA, plot_shared, private_parts

data = ms.hooks.get_dataset("uci-mfeat").loader()
rows = np.concatenate(data.sequences)
names = np.array([name.split()[0] for name in data.channel_names])
X, Y = rows[:, names == "fou"], rows[:, names == "kar"]
X, Y = ((view - view.mean(axis=0)) / view.std(axis=0) for view in (X, Y))
digits = data.labels.astype(int)

# %%
# One component, two latent dimensions
# ------------------------------------
# With one component the model is probabilistic canonical correlation analysis. It is fitted without the digits, but the
# shared part mostly describes them.

model = MixturePCCA(n_components=1, n_latent=2, covariance_type="diag", random_state=0).fit(X, Y)
Z = model.transform(X, Y)

fig, ax = plt.subplots(figsize=(5.4, 4), layout="constrained")
points = ax.scatter(*Z[:, :2].T, c=digits, cmap="tab10", s=6)
ax.set(xlabel="first latent dimension", ylabel="second latent dimension", title="Shared by both views")
fig.colorbar(points, label="digit", ticks=range(10))

# %%
# How much is shared
# ------------------
# The figure shows the share of the variance of each view that the latent vector explains, with four components.

mixture = MixturePCCA(n_components=4, n_latent=4, covariance_type="diag", random_state=0).fit(X, Y).mixture_
plot_shared(mixture)

# %%
# The private part
# ----------------
# The private parts of the views are less correlated than the views, but not uncorrelated: the latent vector is
# estimated from both views, and its error is common to both. For one component with full noise covariances, the
# canonical correlations of the private parts even equal the canonical correlations of the views.

model = MixturePCCA(n_components=1, n_latent=10, covariance_type="diag", random_state=0).fit(X, Y)
private = [part[:, 0] for part in private_parts(model.mixture_, X, Y)]


def canonical_correlations(a, b):
    left, right = (np.linalg.svd(view - view.mean(axis=0), full_matrices=False) for view in (a, b))
    bases = [part[0][:, part[1] > 1e-8 * part[1][0]] for part in (left, right)]
    return np.linalg.svd(bases[0].T @ bases[1])[1]


fig, ax = plt.subplots(figsize=(5.4, 3.2), layout="constrained")
ax.plot(canonical_correlations(X, Y)[:30], marker="o", label="views")
ax.plot(canonical_correlations(*private)[:30], marker="s", label="private parts")
ax.set(xlabel="direction", ylabel="canonical correlation", ylim=(0, 1))
ax.legend()
plt.show()
