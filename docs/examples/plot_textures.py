"""
Forecasting dynamic textures
============================

A video whose pixels move together is a *dynamic texture*: the state of a linear dynamical system, a few numbers,
determines each frame and the next state. A system identified from a short video predicts further frames, restores
missing frames and synthesizes new frames. The videos of this example are generated, with noise in every pixel.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation

from manifoldseq_lds import LDSIdentifier, dynamic_textures

videos, labels = dynamic_textures()
names = ("slow waves", "fast waves", "rotation", "rising noise", "flicker", "blobs")
X = [video.reshape(60, -1) for video in videos]  # one row of 1024 pixels per frame
seen, ahead = [x[:45] for x in X], np.stack([x[45:] for x in X])

# %%
# Forecast
# --------
# Systems are identified from the first 45 frames and predict the next 15. Two states suffice for rotations and
# travelling waves. The stabilizer ``"SN"``, the default for kernels, damps every system, so that a predicted wave
# fades. ``"CG"`` changes only unstable systems. `forecast` uses it by default; here the systems are passed, for
# comparison.
#
# All frames of a flicker are multiples of one image, so that one frame does not determine its phase. Stacking two
# frames (``delay=2``) does. Rising noise and new blobs are not linear functions of the past, and their forecasts are no
# better than the mean frame. No forecast can be better than the noise of the pixels, whose variance is identified with
# the system (``Omega``). Two forecasts without a system are shown for comparison: the mean frame, with the error 1, and
# the last frame.

models = {
    "SN": LDSIdentifier(2, scale=False),
    "CG": LDSIdentifier(2, scale=False, stabilizer="CG"),
    "CG, delay=2": LDSIdentifier(2, scale=False, stabilizer="CG", delay=2),
}
forecasts = {name: model.fit(seen).forecast(seen, 15, model.transform(seen)) for name, model in models.items()}
forecasts["last frame"] = np.stack([x[-1:].repeat(15, axis=0) for x in seen])
spread = np.stack([x.mean(axis=0) for x in seen])[:, None] - ahead

fig, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
for column, (name, guess) in enumerate(forecasts.items()):
    error = [np.sqrt(np.mean((guess - ahead)[labels == c] ** 2) / np.mean(spread[labels == c] ** 2)) for c in range(6)]
    ax.bar(np.arange(6) + 0.2 * (column - 1.5), error, 0.18, label=name, color="0.6" if name == "last frame" else None)
    print(f"{name:12}", *(f"{n} {e:.2f}" for n, e in zip(names, error, strict=True)), sep="  ")
noise = models["CG, delay=2"].transform(seen).Omega.mean(axis=1)
noise = [np.sqrt(noise[labels == c].mean() / np.mean(spread[labels == c] ** 2)) for c in range(6)]
ax.plot(range(6), noise, "k_", markersize=24, label="noise of the pixels")
print("noise", *(f"{n} {e:.2f}" for n, e in zip(names, noise, strict=True)), sep="  ")
ax.axhline(1, color="gray", linewidth=1)
ax.set(xticks=range(6), xticklabels=names, ylabel="error (1: mean frame)", title="Fifteen frames ahead", ylim=(0, 2.1))
ax.legend(fontsize="small", ncols=2, loc="upper center")

# %%
# The upper row shows the true frames, the lower row the forecasts.

fig, axes = plt.subplots(2, 9, figsize=(8, 2.2), layout="constrained")
for column, (video, frame) in enumerate((v, f) for v in (1, 2, 4) for f in (0, 7, 14)):
    for row, frames in enumerate((ahead, forecasts["CG, delay=2"])):
        axes[row, column].imshow(frames[video, frame].reshape(32, 32), cmap="gray", vmin=0, vmax=1)
        axes[row, column].set(xticks=[], yticks=[])
    axes[0, column].set_title(f"{names[video]} +{frame + 1}", fontsize=7)

# %%
# Missing frames
# --------------
# Nine frames in the middle are missing. Expectation maximization fits a system to the other frames, and its Kalman
# smoother fills the gap from both sides. Linear interpolation between the frames before and after the gap is the
# baseline.

missing = np.arange(60)[:, None] // 9 == 3
with_gaps = [np.where(missing, np.nan, X[i]) for i in (1, 2)]
filled = LDSIdentifier(2, scale=False, stabilizer="CG").fit(seen).interpolate(with_gaps)
gap = np.flatnonzero(missing)
line = [x[26] + (x[36] - x[26]) * np.arange(1, 10)[:, None] / 10 for x in with_gaps]
for i, y, straight in zip((1, 2), filled, line, strict=True):
    errors = [np.sqrt(np.mean((guess - X[i][gap]) ** 2)) for guess in (y[gap], straight)]
    print(f"{names[i]}: error of the missing frames {errors[0]:.3f}, of linear interpolation {errors[1]:.3f}")
pixel = 16 * 32 + 8
fig, axes = plt.subplots(1, 2, figsize=(8, 2.4), sharey=True, layout="constrained")
for ax, i, y, hole in zip(axes, (1, 2), filled, with_gaps, strict=True):
    ax.plot(X[i][:, pixel], ".", color="0.7", label="missing" if i == 1 else None)
    ax.plot(hole[:, pixel], ".", label="recorded")
    ax.plot(np.where(missing[:, 0], y[:, pixel], np.nan), label="filled")
    ax.set(title=f"{names[i]}, one pixel", xlabel="frame")
fig.legend(loc="outside right upper", fontsize="small")

# %%
# Synthesized frames
# ------------------
# A simulation starts at the first state and draws the estimated noise, for any number of frames. The upper row shows
# the recordings, repeated after 60 frames, and the lower row 120 synthesized frames.

chosen = [1, 2, 4]
texture = models["CG, delay=2"]
synthesized = texture.simulate(texture.transform([X[i] for i in chosen]), 120, random_state=0)

fig, axes = plt.subplots(2, 3, figsize=(4.2, 3.2), layout="constrained")
style = {"cmap": "gray", "vmin": 0, "vmax": 1}
images = [ax.imshow(np.zeros((32, 32)), **style) for ax in axes.ravel()]
for ax, i in zip(axes[0], chosen, strict=True):
    ax.set_title(names[i], fontsize=9)
for ax in axes.ravel():
    ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("recorded")
axes[1, 0].set_ylabel("synthesized")


def draw(frame):
    for k, i in enumerate(chosen):
        images[k].set_data(videos[i][frame % 60])
        images[3 + k].set_data(synthesized[k, frame].reshape(32, 32))
    return images


animation = FuncAnimation(fig, draw, frames=range(0, 120, 3), interval=120)
fig.canvas.draw()

# %%
# Frequencies
# -----------
# The eigenvalues of A give the frequencies of the texture, in Hz at 25 frames per second. The generator drew
# frequencies between 2.2 and 3.3 Hz for the fast waves, and between 0.8 and 1.25 Hz for the slow waves.

modes = models["CG, delay=2"].modes(X, sampling_rate=25.0)
for c in (0, 1):
    rates = modes.frequencies[labels == c, 0]
    print(f"{names[c]}: {rates.min():.2f} to {rates.max():.2f} Hz")
plt.show()
