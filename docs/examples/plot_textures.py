"""
Forecasting dynamic textures
============================

A video whose pixels move together is a *dynamic texture*: few numbers, the state of a linear dynamical system, tell
each frame, and the state tells the next state. So a short recording can be continued, its lost frames restored, and new
frames made up that never were. The videos on this page are generated; every pixel has noise.
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
# Systems are identified from the first 45 frames and continue them. Two states are enough for what turns or travels.
# The soft normalization (``"SN"``) that the kernels like damps every system, and a damped wave is soon gone; ``"CG"``
# changes only what is unstable, and is what `forecast` takes in the place of SN, unless it is given systems, as here
# for comparison. A flicker moves nothing: all its frames are multiples of one, so its rhythm cannot be seen in one
# frame. Stacking two frames (``delay=2``) shows it. Noise that rises into the picture, and blobs that start anew, are
# not linear functions of what was seen: there the forecast is no better than the mean frame. Nothing can be better
# than the noise of the pixels, whose variance is identified with the system (``Omega``). Two forecasts without a system
# are shown for comparison: the mean frame, at 1, and the last frame, repeated.

models = {
    "SN": LDSIdentifier(2, scale=False),
    "CG": LDSIdentifier(2, scale=False, stabilizer="CG"),
    "CG, delay=2": LDSIdentifier(2, scale=False, stabilizer="CG", delay=2),
}
forecasts = {name: model.fit(seen).forecast(seen, 15, model.transform(seen)) for name, model in models.items()}
forecasts["last frame"] = np.stack([x[-1:].repeat(15, axis=0) for x in seen])
spread = np.stack([x.mean(axis=0) for x in seen])[:, None] - ahead

fig, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
for place, (name, made) in enumerate(forecasts.items()):
    error = [np.sqrt(np.mean((made - ahead)[labels == c] ** 2) / np.mean(spread[labels == c] ** 2)) for c in range(6)]
    ax.bar(np.arange(6) + 0.2 * (place - 1.5), error, 0.18, label=name, color="0.6" if name == "last frame" else None)
    print(f"{name:12}", *(f"{n} {e:.2f}" for n, e in zip(names, error, strict=True)), sep="  ")
noise = models["CG, delay=2"].transform(seen).Omega.mean(axis=1)
noise = [np.sqrt(noise[labels == c].mean() / np.mean(spread[labels == c] ** 2)) for c in range(6)]
ax.plot(range(6), noise, "k_", markersize=24, label="noise of the pixels")
print("noise", *(f"{n} {e:.2f}" for n, e in zip(names, noise, strict=True)), sep="  ")
ax.axhline(1, color="gray", linewidth=1)
ax.set(xticks=range(6), xticklabels=names, ylabel="error (1: mean frame)", title="Fifteen frames ahead", ylim=(0, 2.1))
ax.legend(fontsize="small", ncols=2, loc="upper center")

# %%
# What it looks like: above the frames that came, below the forecast.

fig, axes = plt.subplots(2, 9, figsize=(8, 2.2), layout="constrained")
for column, (video, frame) in enumerate((v, f) for v in (1, 2, 4) for f in (0, 7, 14)):
    for row, frames in enumerate((ahead, forecasts["CG, delay=2"])):
        axes[row, column].imshow(frames[video, frame].reshape(32, 32), cmap="gray", vmin=0, vmax=1)
        axes[row, column].set(xticks=[], yticks=[])
    axes[0, column].set_title(f"{names[video]} +{frame + 1}", fontsize=7)

# %%
# Lost frames
# -----------
# Nine frames in the middle are lost. Expectation maximization fits a system to the others, and its Kalman smoother
# fills the gap from both sides. A straight line between the frames before and after it is the control.

lost = np.arange(60)[:, None] // 9 == 3
holed = [np.where(lost, np.nan, X[i]) for i in (1, 2)]
filled = LDSIdentifier(2, scale=False, stabilizer="CG").fit(seen).interpolate(holed)
gap = np.flatnonzero(lost)
line = [x[26] + (x[36] - x[26]) * np.arange(1, 10)[:, None] / 10 for x in holed]
for i, y, straight in zip((1, 2), filled, line, strict=True):
    errors = [np.sqrt(np.mean((guess - X[i][gap]) ** 2)) for guess in (y[gap], straight)]
    print(f"{names[i]}: error of the lost frames {errors[0]:.3f}, of a straight line {errors[1]:.3f}")
pixel = 16 * 32 + 8
fig, axes = plt.subplots(1, 2, figsize=(8, 2.4), sharey=True, layout="constrained")
for ax, i, y, hole in zip(axes, (1, 2), filled, holed, strict=True):
    ax.plot(X[i][:, pixel], ".", color="0.7", label="lost" if i == 1 else None)
    ax.plot(hole[:, pixel], ".", label="recorded")
    ax.plot(np.where(lost[:, 0], y[:, pixel], np.nan), label="filled")
    ax.set(title=f"{names[i]}, one pixel", xlabel="frame")
fig.legend(loc="outside right upper", fontsize="small")

# %%
# New frames
# ----------
# Simulation starts at the first state and draws the noise that was found: a texture that goes on for as long as one
# likes. Above the recording, which starts again after its 60 frames; below 120 synthesized frames.

chosen = [1, 2, 4]
texture = models["CG, delay=2"]
made = texture.simulate(texture.transform([X[i] for i in chosen]), 120, random_state=0)

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
        images[3 + k].set_data(made[k, frame].reshape(32, 32))
    return images


animation = FuncAnimation(fig, draw, frames=range(0, 120, 3), interval=120)
fig.canvas.draw()

# %%
# How fast is it?
# ---------------
# The eigenvalues of A say how often the texture repeats: at 25 frames per second, in Hz. The generator drew between 2.2
# and 3.3 Hz for the fast waves, and between 0.8 and 1.25 Hz for the slow ones.

found = models["CG, delay=2"].modes(X, sampling_rate=25.0)
for c in (0, 1):
    rates = found.frequencies[labels == c, 0]
    print(f"{names[c]}: {rates.min():.2f} to {rates.max():.2f} Hz")
plt.show()
