"""
Forecasts with confidence intervals
===================================

A linear dynamical system continues a sequence of two channels, with intervals for every step. On a hundred simulated
sequences, the intervals of 90 % contain about 90 % of the values.
"""

import matplotlib.pyplot as plt
import numpy as np

from manifoldseq_lds import LDSIdentifier


def simulated(rng, n_steps=160):
    """Return a damped oscillation that noise drives, seen in two channels, (n_steps, 2)."""
    A = 0.98 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    state, rows = rng.standard_normal(2) * 3, []
    for _ in range(n_steps):
        state = A @ state + 0.3 * rng.standard_normal(2)
        rows.append(np.array([[1.0, 0.2], [0.3, 0.8]]) @ state + 0.3 * rng.standard_normal(2))
    return np.array(rows)


x = simulated(np.random.default_rng(0))
seen, ahead = x[:130], 30
identifier = LDSIdentifier(n_states=2, method="em").fit([seen])
mean = identifier.forecast([seen], ahead)[0]

fig, axes = plt.subplots(2, 1, figsize=(8, 3.8), sharex=True, layout="constrained")
for share, alpha in ((0.9, 0.2), (0.5, 0.3)):
    lower, upper = identifier.forecast_interval([seen], ahead, coverage=share)
    for channel, ax in enumerate(axes):
        ax.fill_between(
            range(130, 160), lower[0, :, channel], upper[0, :, channel], color="C1", alpha=alpha, label=f"{share:.0%}"
        )
for channel, ax in enumerate(axes):
    ax.plot(range(60, 130), seen[60:, channel], color="C0", label="recorded")
    ax.plot(range(130, 160), x[130:, channel], color="C0", linestyle=":", label="what followed")
    ax.plot(range(130, 160), mean[:, channel], color="C1", label="forecast")
    ax.set(ylabel=f"channel {channel}")
axes[0].legend(ncols=5, fontsize="small", loc="upper left")
axes[1].set_xlabel("step")

# %%
# Coverage
# --------
# The share of values that lie within the intervals, over a hundred other sequences.

sequences = [simulated(np.random.default_rng(seed)) for seed in range(1, 101)]
starts = [x[:130] for x in sequences]
lower, upper = LDSIdentifier(n_states=2, method="em").fit(starts).forecast_interval(starts, ahead, n_bootstrap=5)
rest = np.stack([x[130:] for x in sequences])
inside = (lower < rest) & (rest < upper)
print(f"intervals of 90 % hold {inside.mean():.1%} of the values")

fig, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
ax.plot(np.arange(1, ahead + 1), inside.mean(axis=(0, 2)), "o-")
ax.axhline(0.9, color="k", linewidth=1)
ax.set(xlabel="steps ahead", ylabel="share inside", ylim=(0.5, 1))
plt.show()
