"""
Imputing a missing view
=======================

Two instruments measure the same objects, and the second instrument fails for some of them. A mixture of probabilistic
canonical correlation analysis predicts the missing measurements from the first instrument.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor

from manifoldseq_mpcca import MixturePCCA

rng = np.random.default_rng(0)
kind = rng.integers(3, size=1500)
z = rng.standard_normal((1500, 2))
loadings = rng.standard_normal((3, 2, 9))
centres = 3 * rng.standard_normal((3, 9))
rows = np.einsum("nd,ndc->nc", z, loadings[kind]) + centres[kind] + 0.3 * rng.standard_normal((1500, 9))
X, Y = rows[:, :5], rows[:, 5:]
train, test = slice(0, 1000), slice(1000, None)

# %%
# There are three kinds of objects, and the mixture has three components. The expectation of Y given X is not linear,
# because X also determines the probabilities of the components.

model = MixturePCCA(n_components=3, n_latent=2, n_init=3, random_state=0).fit(X[train], Y[train])
guess = model.impute(X[test], None)[1]

# %%
# Two other methods for comparison: ridge regression with a penalty chosen by cross-validation, and the mean of the ten
# nearest neighbours.

ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(X[train], Y[train]).predict(X[test])
nearest = KNeighborsRegressor(10).fit(X[train], Y[train]).predict(X[test])
imputed = {"mixture": guess, "ridge": ridge, "ten nearest neighbours": nearest}
for name, values in imputed.items():
    share = np.sum((values - Y[test]) ** 2) / np.sum((Y[test] - Y[train].mean(axis=0)) ** 2)
    print(f"{name}: {share:.1%} of the variance of Y is not explained")

fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, imputed.items(), strict=True):
    ax.scatter(Y[test, 0], values[:, 0], c=kind[test], cmap="tab10", s=8)
    ax.axline((0, 0), slope=1, color="gray", linewidth=1)
    ax.set(title=name, xlabel="first column of Y, true")
axes[0].set_ylabel("imputed")

# %%
# Rows with a missing view can also be used for the fit: the missing view is NaN, and with ``missing="em"`` the
# fit maximizes the likelihood of the observed values.

with_gaps = Y[train].copy()
with_gaps[::2] = np.nan
partly = MixturePCCA(n_components=3, n_latent=2, n_init=3, missing="em", random_state=0).fit(X[train], with_gaps)
error = np.mean((partly.impute(X[test], None)[1] - Y[test]) ** 2) / np.mean((guess - Y[test]) ** 2)
print(f"with half of Y missing in the fit, the squared error is {error:.2f} times as large")
plt.show()
