"""
Clustering recorded speech by speaker
=====================================

Ninety utterances of three speakers are clustered without labels. Each utterance is a sequence with 12 channels. The
utterances have different lengths and are compared by the linear dynamical systems that describe them.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSKMeans

data = ms.hooks.get_dataset("japanese-vowels").loader()
speakers = ("1", "4", "7")
chosen = [i for speaker in speakers for i in np.flatnonzero(data.labels == speaker)[:30]]
sequences, labels = [data.sequences[i] for i in chosen], data.labels[chosen]

fig, axes = plt.subplots(1, 3, figsize=(8, 2.4), sharey=True, layout="constrained")
for ax, i in zip(axes, (0, 30, 60), strict=True):
    ax.plot(sequences[i])
    ax.set(title=f"speaker {labels[i]}", xlabel="step")
axes[0].set_ylabel("12 channels")

# %%
# k-means on systems
# ------------------
# The settings (number of states, delay, use of the levels of the channels) are chosen without labels; the table
# shows the compared settings. Two descriptions without systems are clustered for comparison. Means and standard
# deviations of the channels separate these three speakers as well, but not all nine speakers, see
# :doc:`/benchmarks/clustering`.

model = LDSKMeans(n_clusters=3, random_state=0)
agreement = adjusted_rand_score(labels, model.fit_predict(sequences))
print(model.choice_)
print(f"agreement with the speakers (1 is perfect): {agreement:.2f}")
for name, control in {
    "means and deviations": ms.evaluation.StatisticsKMeans(3, random_state=0),
    "autocovariances": ms.evaluation.AutocovarianceKMeans(3, random_state=0),
}.items():
    print(f"k-means on {name}: {adjusted_rand_score(labels, control.fit(sequences).labels_):.2f}")

# %%
# The kernel matrix
# -----------------
# The kernel values of all pairs of systems, sorted by cluster. Bright blocks are similar recordings.

systems = LDSIdentifier(n_states=3, center=False).fit_transform(sequences)
kernel = ms.get_kernel("projection")
packed = kernel.pack(systems)
order = np.argsort(model.labels_, kind="stable")

fig, ax = plt.subplots(figsize=(4.8, 4), layout="constrained")
image = ax.imshow(kernel.cross(packed, packed)[np.ix_(order, order)], cmap="viridis")
ax.set(xlabel="recording, by cluster", ylabel="recording, by cluster")
fig.colorbar(image, label="projection kernel")

# %%
# Convergence
# -----------

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(model.history_["nit"], model.history_["fun"], marker="o")
ax.set(xlabel="epoch", ylabel="mean squared distance")
plt.show()
