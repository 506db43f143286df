"""
Classifying recorded motions
============================

A smart watch records acceleration and rotation while its wearer walks, runs, stands or plays badminton: six channels,
ten times per second. A support vector machine on the kernel between linear dynamical systems learns from one half of
the recordings and classifies the other half. The most similar recordings explain each result.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSNeighbors

data = ms.hooks.get_dataset("basic-motions").loader()
train, test = np.arange(40), np.arange(40, 80)

fig, axes = plt.subplots(1, 4, figsize=(9, 2.3), sharey=True, layout="constrained")
for ax, motion in zip(axes, np.unique(data.labels), strict=True):
    ax.plot(np.arange(100) / 10, data.sequences[np.flatnonzero(data.labels == motion)[0]][:, :3])
    ax.set(title=motion.lower(), xlabel="seconds")
axes[0].set_ylabel("acceleration")

# %%
# A kernel of systems
# -------------------
# The channels are scaled by the training recordings. Each recording becomes a system with five states. The kernel
# compares two systems by the angles between the outputs that they can produce; the value 1 means equal.

identifier = LDSIdentifier(n_states=5).fit([data.sequences[i] for i in train])
kernel = ms.get_kernel("projection")
packed = kernel.pack(identifier.transform(data.sequences))
gram = kernel.cross(packed, packed) / 5

# %%
# Classify
# --------
# The penalty C is chosen by cross-validation on the training recordings. Two classifiers without systems are compared.
# On the forty test recordings each of them has one more correct result: the classification of four motions needs no
# model of time. Clustering of the motions needs such a model, see :doc:`/benchmarks/clustering`.

search = GridSearchCV(SVC(kernel="precomputed"), {"C": [1, 10, 100]}, cv=5)
search.fit(gram[np.ix_(train, train)], data.labels[train])
predicted = search.predict(gram[np.ix_(test, train)])
print(f"correct: {np.mean(predicted == data.labels[test]):.0%} of {len(test)}, with C={search.best_params_['C']}")
parts = [[data.sequences[i] for i in rows] for rows in (train, test)]
for name, control in {
    "means and deviations": ms.evaluation.StatisticsClassifier(),
    "autocovariances": ms.evaluation.AutocovarianceClassifier(),
}.items():
    correct = np.mean(control.fit(parts[0], data.labels[train]).predict(parts[1]) == data.labels[test])
    print(f"logistic regression on {name}: {correct:.0%}")

fig, ax = plt.subplots(figsize=(4.4, 3.8), layout="constrained")
ConfusionMatrixDisplay.from_predictions(
    data.labels[test], predicted, ax=ax, colorbar=False, xticks_rotation=45, cmap="cividis"
)

# %%
# The most similar recordings
# ---------------------------
# For one test recording of each motion, the program prints the three nearest training recordings. An outlier, a
# recording that is far from all others, has a low score.

neighbors = LDSNeighbors(n_neighbors=3, n_states=5).fit([data.sequences[i] for i in train])
distances, rows = neighbors.kneighbors([data.sequences[i] for i in test])
for motion in np.unique(data.labels):
    i = np.flatnonzero(data.labels[test] == motion)[0]
    nearest = ", ".join(f"{data.labels[train[j]]} ({d:.2f})" for j, d in zip(rows[i], distances[i], strict=True))
    print(f"a {motion.lower()} recording is nearest to: {nearest}")

scores = neighbors.score_samples([data.sequences[i] for i in test])
outlier = int(scores.argmin())
print(f"lowest score: recording {test[outlier]}, {data.labels[test[outlier]]}")

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
for k, motion in enumerate(np.unique(data.labels)):
    members = np.flatnonzero(data.labels[test] == motion)
    ax.plot(np.full(len(members), k), scores[members], linestyle="", marker="o", alpha=0.6)
ax.set_xticks(range(4), [motion.lower() for motion in np.unique(data.labels)])
ax.set(ylabel="score (minus mean distance)", title="Recordings and their neighbours")
plt.show()
