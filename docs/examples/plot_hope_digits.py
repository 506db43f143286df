"""
Classifying digits with HOPE features
=====================================

HOPE learns features of image patches without labels. This example classifies the 1797 handwritten digits of
scikit-learn, 8 × 8 pixels each, by a *linear* classifier on pixels, on principal components, and on features of
patches that are summed over the quadrants of an image, as in the experiments of the paper.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from manifoldseq_hope import HOPE, PCAMovMF

images, labels = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8) / 16

# %%
# Patches
# -------
# Patches are all windows of 4 × 4 pixels, minus their mean. Patches with little contrast are blank and have no
# features.

wide = np.pad(images, ((0, 0), (1, 1), (1, 1)))
patches = np.lib.stride_tricks.sliding_window_view(wide, (4, 4), axis=(1, 2)).reshape(len(images), 7, 7, 16)
patches = patches - patches.mean(axis=-1, keepdims=True)
inked = np.linalg.norm(patches, axis=-1) > 0.5
print(f"{inked.mean():.0%} of {inked.size} patches are not blank")


def pooled(features, rows):
    """Return square roots of the features of patches, summed over the four quadrants of each image."""
    maps = np.zeros((*inked[rows].shape, features(patches[0, 0, :1]).shape[1]))
    maps[inked[rows]] = features(patches[rows][inked[rows]])
    halves = (slice(0, 4), slice(4, 7))
    sums = [maps[:, i, j].sum(axis=(1, 2)) for i in halves for j in halves]
    return np.sqrt(np.concatenate(sums, axis=1))


# %%
# Five kinds of features
# ----------------------
# All features are learned from 8000 patches of the training images without labels. ``PCAMovMF`` is a mixture model on
# principal components; HOPE learns the projection together with the mixture. Principal components of patches are split
# into their positive and negative parts, because their sums would cancel.

MIXTURES = [(M, K) for M in (4, 12) for K in (50, 150)]
SIZES = {
    "pixels": [64],
    "PCA of images": [10, 20, 30, 40],
    "patches: PCA": [4, 8, 12, 15],
    "patches: PCA-movMF": MIXTURES,
    "patches: HOPE": MIXTURES,
}


def learned(kind, size, rows, seed):
    """Return a function from images to their features."""
    if kind == "pixels":
        return lambda rows: images[rows].reshape(len(rows), -1)
    if kind == "PCA of images":
        pca = PCA(size).fit(images[rows].reshape(len(rows), -1))
        return lambda rows: pca.transform(images[rows].reshape(len(rows), -1))
    seen = patches[rows][inked[rows]]
    seen = seen[np.random.default_rng(seed).permutation(len(seen))[:8000]]
    if kind == "patches: PCA":
        pca = PCA(size).fit(seen)
        return lambda rows: pooled(lambda x: np.maximum(0, np.hstack([z := pca.transform(x), -z])), rows)
    M, K = size
    mixture = (HOPE if kind == "patches: HOPE" else PCAMovMF)(K, n_latent=M, quantile=0.8, max_iter=40)
    mixture.set_params(random_state=seed).fit(seen)
    return lambda rows: pooled(mixture.transform, rows)


def errors(kind, size, C, train, test, seed):
    """Return the error (%) on test images for every C."""
    features = learned(kind, size, train, seed)
    X = features(train)
    scale = X.std()
    fits = [LogisticRegression(C=c, max_iter=1000).fit(X / scale, labels[train]) for c in C]
    T = features(test) / scale
    return [100 * (1 - fit.score(T, labels[test])) for fit in fits]


# %%
# Sizes, and C of the classifier, are chosen on a third of the images, which is not used again. All kinds of features
# have the same values of C, and all except the pixels have four sizes.

GRID = (0.01, 0.1, 1.0, 10.0)
rest, validation = train_test_split(np.arange(len(labels)), test_size=1 / 3, stratify=labels, random_state=0)
halves = train_test_split(validation, test_size=0.5, stratify=labels[validation], random_state=0)
chosen = {}
for kind, sizes in SIZES.items():
    table = [errors(kind, size, GRID, *halves, seed=0) for size in sizes]
    i, j = np.unravel_index(np.argmin(table), (len(sizes), len(GRID)))
    chosen[kind] = (sizes[i], GRID[j])
    print(f"{kind:20} {sizes[i]!s:10} C = {GRID[j]}")

# %%
# The comparison
# --------------
# The other images are split at random ten times, into one half for training and one half for the test. The table has
# means and standard errors over the ten splits. The splits share images, so that standard errors are slightly too
# small.

splits = [train_test_split(rest, test_size=0.5, stratify=labels[rest], random_state=seed) for seed in range(10)]
table = {
    kind: [errors(kind, size, (C,), *split, seed=seed)[0] for seed, split in enumerate(splits)]
    for kind, (size, C) in chosen.items()
}
for kind, values in table.items():
    gain = np.subtract(values, table["patches: HOPE"])
    print(
        f"{kind:20} {np.mean(values):5.2f} ± {np.std(values, ddof=1) / 10**0.5:.2f} %, "
        f"difference from HOPE {gain.mean():5.2f} ± {gain.std(ddof=1) / 10**0.5:.2f}"
    )

fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
for i, values in enumerate(table.values()):
    ax.plot(values, [i] * 10, ".", color="0.7")
    ax.errorbar(np.mean(values), i, xerr=np.std(values, ddof=1) / 10**0.5, fmt="o", capsize=4)
ax.set(yticks=range(len(table)), yticklabels=table, xlabel="test error, %", xlim=(0, None))
ax.invert_yaxis()
plt.show()

# %%
# Most of the improvement comes from patches and pooling, and some from the mixture. On these data, a learned
# projection and the projection of PCA do not differ clearly.
