"""
Multi-view super vector compared with the Fisher vector
=======================================================

An image is a bag of small patches with two descriptors each: the pixels and a histogram of gradients. Both encoders
convert a bag of any size into one vector for a linear classifier. The Fisher vector concatenates the two descriptors.
The super vector separates them into a shared part and two private parts.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manifoldseq_mpcca import FisherVector, MultiViewSuperVector

digits = load_digits()
images, labels = digits.images[:900], digits.target[:900]

# %%
# Bags of paired descriptors
# --------------------------
# The bag of an image has all patches of 4 × 4 pixels, without their positions.

windows = np.lib.stride_tricks.sliding_window_view(images, (4, 4), axis=(1, 2)).reshape(900, 25, 4, 4)
down, right = np.gradient(windows, axis=(2, 3))
angle = ((np.arctan2(down, right) / (2 * np.pi) % 1) * 8).astype(int) % 8
length = np.hypot(down, right)
histogram = np.stack([(length * (angle == a)).sum(axis=(2, 3)) for a in range(8)], axis=2)


def reduced(view):
    flat = view.reshape(900 * 25, -1)
    preprocessing = make_pipeline(StandardScaler(), PCA(6, whiten=True, random_state=0)).fit(flat[: 450 * 25])
    return preprocessing.transform(flat).reshape(900, 25, -1)


X, Y = reduced(windows), reduced(histogram)
train, test = slice(0, 450), slice(450, None)

# %%
# Two encoders, one classifier
# ----------------------------

encoders = {
    "Fisher vector": FisherVector(n_components=8, max_iter=20, random_state=0),
    "super vector": MultiViewSuperVector(n_components=8, n_latent=2, max_iter=20, random_state=0),
}
vectors = {}
for name, encoder in encoders.items():
    encoder.fit(X[train], Y[train])
    vectors[name] = encoder.transform(X, Y)
    classifier = RidgeClassifier(0.1).fit(vectors[name][train], labels[train])
    error = 1 - classifier.score(vectors[name][test], labels[test])
    print(f"{name}: {vectors[name].shape[1]} numbers, {error:.1%} of the test digits wrong")

# %%
# One split does not show which encoder is better. ``manifoldseq reproduce mpcca-fusion`` compares them and other
# methods on twenty splits, with standard errors.
#
# The parts of a super vector
# ---------------------------
# The mean vector of a digit by component: gradients of the pixels, gradients of the histograms, and latent vectors.

fig, axes = plt.subplots(1, 3, figsize=(8, 3), width_ratios=(12, 12, 2), layout="constrained")
parts = encoders["super vector"].blocks_
for ax, (name, block) in zip(axes, parts.items(), strict=True):
    mean = vectors["super vector"][labels == 3][:, block].mean(axis=0) - vectors["super vector"][:, block].mean(axis=0)
    ax.imshow(mean.reshape(8, -1), cmap="RdBu", vmin=-0.06, vmax=0.06, aspect="auto")
    ax.set(title=name, xlabel="entry", ylabel="component" if ax is axes[0] else "")
fig.suptitle("Mean of the digit 3 minus the mean of all digits")
plt.show()
