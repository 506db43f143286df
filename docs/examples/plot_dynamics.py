"""
Clustering sequences that differ only in their dynamics
=======================================================

In each of four generated data sets, all classes have the same means and standard deviations of the channels, and the
sequences cannot be aligned in time: a vibrating structure with a weak spring, textures in strong noise, single channels
with an echo, and pairs of tones. ``loader(3)`` generates a data set from another seed.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms
from manifoldseq_lds import LDSIdentifier, LDSKernelMatrix, LDSKMeans


def cluster(data, labels):
    """Cluster by the defaults and by two controls; return the purities, and the kernel matrix of the chosen systems."""
    K = len(np.unique(labels))
    model = LDSKMeans(n_clusters=K, random_state=0).fit(data.sequences)
    purity = {}
    for name, one in (
        ("systems", model),
        ("mean, deviation", ms.evaluation.StatisticsKMeans(K, random_state=0).fit(data.sequences)),
        ("autocovariance", ms.evaluation.AutocovarianceKMeans(K, random_state=0).fit(data.sequences)),
    ):
        counts = [np.unique(labels[one.labels_ == k], return_counts=True)[1].max() for k in np.unique(one.labels_)]
        purity[name] = sum(counts) / len(labels)
        print(f"{name:<20} purity {purity[name]:.2f}")
    chosen = {name: value for name, value in model.choice_.best_params.items() if name != "moments"}
    print("chosen:", ", ".join(f"{name.removeprefix('identifier__')}={value}" for name, value in chosen.items()))
    return purity, LDSKernelMatrix().set_params(**chosen).fit_transform(data.sequences)


def draw(axes, labels, purity, kernel):
    """Draw the kernel matrix, members by class, and the purities."""
    image = axes[0].imshow(kernel, cmap="viridis", vmax=(kernel - np.diag(kernel.diagonal())).max())
    middles = [np.flatnonzero(labels == label).mean() for label in dict.fromkeys(labels)]
    axes[0].set(xticks=[], yticks=middles, title="kernel of systems")
    axes[0].set_yticklabels(dict.fromkeys(labels))
    axes[0].figure.colorbar(image, ax=axes[0])
    axes[1].barh(list(purity), list(purity.values()), color=["C0", "0.7", "0.7"])
    axes[1].axvline(np.unique(labels, return_counts=True)[1].max() / len(labels), color="k", linewidth=1)
    axes[1].set(xlim=(0, 1), title="purity (line: 1 / K)")
    axes[1].invert_yaxis()


# %%
# A weak spring
# -------------
# Noise shakes six masses in a row between two walls. In one class all seven springs are intact; in each of the other
# classes one spring has lost 40 % of its stiffness. The recordings look alike and are not aligned in time.

data = ms.hooks.get_dataset("damaged-structure").loader()
labels = np.asarray(data.labels)
purity, kernel = cluster(data, labels)

fig, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained", width_ratios=[1.1, 1.1, 1])
for row, label in enumerate(dict.fromkeys(labels)):
    axes[0].plot(data.sequences[np.flatnonzero(labels == label)[0]][:120, 2] - 3 * row, label=label)
axes[0].set(title="third mass", xlabel="step", yticks=[-3 * row for row in range(4)])
axes[0].set_yticklabels(dict.fromkeys(labels))
draw(axes[1:], labels, purity, kernel)

# %%
# The identified systems explain the clusters: a weak spring lowers some of the six natural frequencies. The second and
# the sixth spring are mirror images and have the same frequencies. These two classes differ in the masses that move
# together, which the matrix C describes. Dots at the left are drifts, not vibrations.

modes = LDSIdentifier(12, delay=4, center=False).fit(data.sequences).modes(data.sequences)

fig, ax = plt.subplots(figsize=(6.4, 2.4), layout="constrained")
for row, label in enumerate(dict.fromkeys(labels)):
    for offset, frequencies in zip(np.linspace(-0.3, 0.3, 20), modes.frequencies[labels == label], strict=True):
        ax.plot(frequencies, np.full(12, row + offset), ".", color=f"C{row}", markersize=4)
ax.set(xlabel="frequency of a mode (per step)", yticks=range(4))
ax.set_yticklabels(dict.fromkeys(labels))
ax.invert_yaxis()

# %%
# Textures in strong noise
# ------------------------
# Waves travel over 8 × 8 pixels in one of four directions. All pixels have the same mean and the same variance, and the
# noise has 32 times the variance of the wave. The upper row shows a frame of each class, the lower row the same frame
# without noise. A system is estimated from all pixels and frames, which averages the noise.

data = ms.hooks.get_dataset("noisy-textures").loader()
clean = ms.hooks.get_dataset("noisy-textures").loader(noise=0.0)
labels = np.asarray(data.labels)
purity, kernel = cluster(data, labels)


def strip(films):
    """Return the tenth frame of a film of each class, side by side."""
    frames = [films.sequences[np.flatnonzero(labels == label)[0]][10].reshape(8, 8) for label in dict.fromkeys(labels)]
    return np.hstack([np.pad(frame / frame.std(), 1, constant_values=np.nan) for frame in frames])


fig, axes = plt.subplots(1, 3, figsize=(9, 2.4), layout="constrained", width_ratios=[1.6, 1.1, 1])
axes[0].imshow(np.vstack([strip(data), strip(clean)]), cmap="gray")
axes[0].set(xticks=[], yticks=[4.5, 14.5], title=", ".join(dict.fromkeys(labels)))
axes[0].set_yticklabels(["with noise", "without"])
axes[0].title.set_fontsize(8)
draw(axes[1:], labels, purity, kernel)

# %%
# One channel with an echo
# ------------------------
# The sequences are noise with an echo after 8, 10 or 12 steps. A single value per step does not determine the state, so
# that the automatic choice stacks sixteen steps into one output. Autocovariances at five lags do not reach the echo,
# and autocovariances at sixteen lags are mostly noise. Random convolutions also separate the echoes
# (:doc:`/benchmarks/clustering` has the figures).

data = ms.hooks.get_dataset("echoes").loader()
labels = np.asarray(data.labels)
purity, kernel = cluster(data, labels)

fig, axes = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained", width_ratios=[1.1, 1.1, 1])
for row, label in enumerate(dict.fromkeys(labels)):
    axes[0].plot(data.sequences[np.flatnonzero(labels == label)[0]][:120] - 7 * row)
axes[0].set(title="noise with an echo", xlabel="step", yticks=[-7 * row for row in range(3)])
axes[0].set_yticklabels(dict.fromkeys(labels))
draw(axes[1:], labels, purity, kernel)

# %%
# Two tones of equal level
# ------------------------
# Each sequence has two tones with random phases in noise. Their frequencies are 0.1, 0.2 or 0.3 radians per step apart
# and have the same mean. A system with four states represents both tones.

data = ms.hooks.get_dataset("two-tones").loader()
labels = np.asarray(data.labels)
purity, kernel = cluster(data, labels)

fig, axes = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained", width_ratios=[1.1, 1.1, 1])
for row, label in enumerate(dict.fromkeys(labels)):
    axes[0].plot(data.sequences[np.flatnonzero(labels == label)[0]] - 6 * row)
axes[0].set(title="two tones", xlabel="step", yticks=[-6 * row for row in range(3)])
axes[0].set_yticklabels(dict.fromkeys(labels))
draw(axes[1:], labels, purity, kernel)
plt.show()
