"""
Locating frames on a railway line
=================================

A camera on a train records the same railway line in two seasons. The recording of the first season is stored as an
encoded sequence, and frames of the second season are located in it: one by one, and then as a sequence.

The video of the Nordland railway is downloaded once (1.4 MB). Without a network, the example uses generated frames, and
the titles of the figures say so.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms
from manifoldseq_hierarchical import HierarchicalSequenceEncoder

try:
    spring, winter = ms.hooks.get_dataset("nordland").loader().sequences
    title = "Nordland: winter frames in the spring recording"
except (ImportError, OSError):
    rng = np.random.default_rng(0)
    spring = rng.standard_normal((357, 512))
    for step in range(1, 357):  # neighbouring frames resemble each other
        spring[step] = 0.6 * spring[step - 1] + 0.8 * spring[step]
    winter = spring + 7 * rng.standard_normal(spring.shape)
    title = "generated frames"

# %%
# Store the first recording
# -------------------------
# The encoder keeps one point per frame and one bit per pixel. With all coordinates, no subspace has to be stored.

encoder = HierarchicalSequenceEncoder(1, levels=0, n_components=spring.shape[1], bits=1).fit(spring)
print(encoder.storage_report())

# %%
# Locate the second recording
# ---------------------------
# A single frame is often assigned to a wrong place. Consecutive frames are located together along lines through the
# matrix of distances, as in SeqSLAM, or by a filter with a range of speeds.

truth = np.arange(len(winter))
speed = (0.8, 1.2)
places = {
    "one by one": encoder.predict(winter),
    "lines": encoder.match(winter, method="lines", speed=speed),
    "Bayes filter": encoder.match(winter, speed=speed),
    "Bayes, smoothed": encoder.match(winter, speed=speed, smooth=True),
}

fig, ax = plt.subplots(figsize=(5.4, 3.2), layout="constrained")
tolerances = np.arange(0, 11)
for name, found in places.items():
    ax.plot(tolerances, [np.mean(np.abs(found - truth) <= t + 0.5) for t in tolerances], marker="o", label=name)
ax.set(xlabel="tolerance (frames)", ylabel="share of frames found", title=title, ylim=(0, 1.03))
ax.legend(loc="lower right", fontsize="small")

# %%
# The match matrix
# ----------------
# The distances of all frames of the second recording from all frames of the first: the true places are the faint
# diagonal.

squared = encoder.index_.distances(encoder.transform(winter.astype(np.float32)))
fig, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
contrast = (squared - squared.mean(axis=1, keepdims=True)) / squared.std(axis=1, keepdims=True)
image = ax.imshow(contrast, cmap="cividis", origin="lower", aspect="auto")
ax.plot(places["one by one"], truth, linestyle="", marker=".", markersize=3, color="white", label="one by one")
ax.plot(places["Bayes, smoothed"], truth, color="tab:red", linewidth=1.5, label="Bayes, smoothed")
ax.set(xlabel="frame of the first recording", ylabel="frame of the second recording", title=title)
ax.legend(loc="upper left", fontsize="small")
fig.colorbar(image, label="distance, standardized by row")
plt.show()
