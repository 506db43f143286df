"""
Locating frames on a railway line
=================================

A train records the way in one season; in another season, we look out of the window and want to know where we are. The
first run is kept as an encoded sequence, frames of the second are looked for in it: one by one, then together.

The film of the Nordland railway is fetched once (1.4 MB). Where that is not possible, as on a machine without a
network, this page shows generated frames instead, and its figures say so.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms
from manifoldseq_hierarchical import HierarchicalSequenceEncoder

try:
    spring, winter = ms.hooks.get_dataset("nordland").loader().sequences
    way = "Nordland, winter in spring"
except (ImportError, OSError):
    rng = np.random.default_rng(0)
    spring = rng.standard_normal((357, 512))
    for step in range(1, 357):  # neighbouring frames resemble each other
        spring[step] = 0.6 * spring[step - 1] + 0.8 * spring[step]
    winter = spring + 7 * rng.standard_normal(spring.shape)
    way = "generated frames"

# %%
# Keep the first run
# ------------------
# One point per frame and one bit per pixel: where every coordinate is kept, no subspace needs to be stored.

encoder = HierarchicalSequenceEncoder(1, levels=0, n_components=spring.shape[1], bits=1).fit(spring)
print(encoder.storage_report())

# %%
# Look for the second
# -------------------
# A frame by itself is often taken for another place. Frames that follow each other can be placed together: along lines
# through the matrix of distances, as SeqSLAM does, or by a filter that knows about how fast a train goes.

truth = np.arange(len(winter))
speed = (0.8, 1.2)
found = {
    "one by one": encoder.predict(winter),
    "lines": encoder.match(winter, method="lines", speed=speed),
    "Bayes filter": encoder.match(winter, speed=speed),
    "Bayes, smoothed": encoder.match(winter, speed=speed, smooth=True),
}

fig, ax = plt.subplots(figsize=(5.4, 3.2), layout="constrained")
tolerances = np.arange(0, 11)
for name, places in found.items():
    ax.plot(tolerances, [np.mean(np.abs(places - truth) <= t + 0.5) for t in tolerances], marker="o", label=name)
ax.set(xlabel="tolerance (frames)", ylabel="share of frames found", title=way, ylim=(0, 1.03))
ax.legend(loc="lower right", fontsize="small")

# %%
# The match matrix
# ----------------
# Every frame of the second run against every frame of the first: the way is the faint diagonal.

squared = encoder.index_.distances(encoder.transform(winter.astype(np.float32)))
fig, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
contrast = (squared - squared.mean(axis=1, keepdims=True)) / squared.std(axis=1, keepdims=True)
image = ax.imshow(contrast, cmap="cividis", origin="lower", aspect="auto")
ax.plot(found["one by one"], truth, linestyle="", marker=".", markersize=3, color="white", label="one by one")
ax.plot(found["Bayes, smoothed"], truth, color="tab:red", linewidth=1.5, label="Bayes, smoothed")
ax.set(xlabel="frame of the first run", ylabel="frame of the second run", title=way)
ax.legend(loc="upper left", fontsize="small")
fig.colorbar(image, label="distance, in deviations of its row")
plt.show()
