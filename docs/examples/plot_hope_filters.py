"""
Filters of image patches learned by HOPE
========================================

A HOPE model projects rows by a matrix U with orthonormal rows, and describes the directions of the projected rows by a
mixture of von Mises-Fisher distributions. Fitted to patches of photographs without labels, its components are filters.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from manifoldseq_hope import HOPE

SIDE = 10
photographs = [load_sample_image(name).mean(axis=2) / 255 for name in ("china.jpg", "flower.jpg")]
rng = np.random.default_rng(0)
patches = []
for photograph in photographs:
    windows = np.lib.stride_tricks.sliding_window_view(photograph, (SIDE, SIDE))
    i, j = (rng.integers(n, size=15000) for n in windows.shape[:2])
    patches.append(windows[i, j].reshape(-1, SIDE**2))
X = np.concatenate(patches)
X -= X.mean(axis=1, keepdims=True)
X = X[np.linalg.norm(X, axis=1) > 0.3]  # patches with more contrast
X = X[rng.permutation(len(X))]

M, K = 30, 64
model = HOPE(K, n_latent=M, max_iter=30, random_state=0).fit(X[:-500])
print(f"{len(X)} patches of {SIDE**2} pixels; {model.residual_share_:.0%} of their energy is outside the projection")


def show(axes, images):
    """Draw images in gray, zero in the middle."""
    for ax, image in zip(np.ravel(axes), images, strict=True):
        largest = np.abs(image).max()
        ax.imshow(image.reshape(SIDE, SIDE), cmap="gray", vmin=-largest, vmax=largest)
        ax.axis("off")


# %%
# Filters
# -------
# As a layer of a network, the model is ``max(0, W x + b)`` with ``W = mu U`` (for rows that are not scaled to unit
# length). The rows of W, from the most to the least frequent component, are edges, bars and gratings in all directions.

order = np.argsort(-model.weights_)
filters = (model.directions_ * model.concentrations_[:, None]) @ model.components_
fig, axes = plt.subplots(8, 8, figsize=(5, 5), layout="constrained")
show(axes, filters[order])

# %%
# U itself looks like principal components. Its single rows have no meaning, only the subspace: ``Q U`` with ``mu Q'``
# is the same model for every rotation Q.

fig, axes = plt.subplots(3, 10, figsize=(6, 1.9), layout="constrained")
show(axes, model.components_)

# %%
# Broad and sharp components
# --------------------------
# The concentration measures how narrow the cone of directions of a component is. The components with the smallest
# concentrations cover patches without clear structure, such as leaves. The components with the
# largest concentrations cover smooth shading.

broadest, sharpest = np.split(np.argsort(model.concentrations_)[[0, 1, 2, 3, -4, -3, -2, -1]], 2)
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.semilogy(model.weights_, model.concentrations_, "o", markersize=4)
ax.set(xlabel="weight", ylabel="concentration", xlim=(0, None), ylim=(0.8, 500))
for group, height in ((sharpest[::-1], 0.78), (broadest, 0.05)):
    show([ax.inset_axes([0.5 + 0.12 * n, height, 0.11, 0.2]) for n in range(4)], filters[group])

# %%
# Where features are active
# -------------------------
# The figure shows the features (39) of all windows of a part of the first photograph, for the filter that changes most
# from pixel to pixel and for the filters nearest to three ideal edges. A feature is zero unless its component explains
# a window well. The grating responds to the tiles of the roofs.

part = photographs[0][:420, 60:345]
windows = np.lib.stride_tricks.sliding_window_view(part, (SIDE, SIDE))
flat = windows.reshape(-1, SIDE**2) - windows.mean(axis=(2, 3)).reshape(-1, 1)
contrasted = np.linalg.norm(flat, axis=1) > 0.3
maps = np.zeros((len(flat), K), np.float32)
maps[contrasted] = model.transform(flat[contrasted])

shapes = filters.reshape(K, SIDE, SIDE) / np.linalg.norm(filters, axis=1)[:, None, None]
rough = np.sum(np.diff(shapes, axis=1) ** 2, axis=(1, 2)) + np.sum(np.diff(shapes, axis=2) ** 2, axis=(1, 2))
down, right = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
edges = [np.argmax(np.abs(np.sum(shapes * np.sign(along), axis=(1, 2)))) for along in (down, right, down + right)]

fig, axes = plt.subplots(1, 4, figsize=(8, 3.2), layout="constrained")
for ax, k in zip(axes, [np.argmax(rough), *edges], strict=True):
    ax.imshow(part[SIDE // 2 :, SIDE // 2 :], cmap="gray", alpha=0.35)
    active = maps[:, k].reshape(windows.shape[:2])
    ax.imshow(np.ma.masked_equal(active, 0), cmap="magma", interpolation="none")
    ax.axis("off")
    show([ax.inset_axes([0.68, 0.78, 0.3, 0.21])], filters[[k]])

# %%
# Reconstruction from features
# ----------------------------
# The first row has patches that were not used for the fit, the second row their projections onto U, and the third row
# reconstructions from the features alone, which are like distances to landmarks. A black patch has no feature above the
# threshold. The last row has samples from the model, in which the part outside the projection is noise.

test = X[-500:][:12]
rows = (
    test,
    model.project(test) @ model.components_,
    model.inverse_transform(model.transform(test)),
    model.sample(12, random_state=0)[0],
)
fig, axes = plt.subplots(4, 12, figsize=(7, 2.5), layout="constrained")
for line, images in zip(axes, rows, strict=True):
    show(line, images)
plt.show()
