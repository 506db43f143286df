"""
Input-output identification
===========================

A tank is heated; the power of the heater is known and two thermometers are read. A system identified with its input
predicts the temperatures for a planned input. A system without the input can only continue the past.
"""

import matplotlib.pyplot as plt
import numpy as np

from manifoldseq_lds import LDSIdentifier

rng = np.random.default_rng(0)
n_steps = 400
power = np.repeat(rng.integers(0, 2, 50), 8)[:, None].astype(float)
A, B = np.array([[0.90, 0.03], [0.10, 0.85]]), np.array([[0.5], [0.0]])
states = np.zeros((n_steps + 1, 2))
for step in range(n_steps):
    states[step + 1] = A @ states[step] + B @ power[step] + 0.02 * rng.standard_normal(2)
temperature = 20 + states[:-1] + 0.1 * rng.standard_normal((n_steps, 2))
seen, ahead = slice(0, 300), 100

driven = LDSIdentifier(n_states=2, method="em").fit([temperature[seen]], inputs=[power[seen]])
mean, std = driven.forecast(
    [temperature[seen]], ahead, inputs=[power[seen]], future_inputs=[power[300:]], return_std=True
)
alone = LDSIdentifier(n_states=2, method="em").fit([temperature[seen]]).forecast([temperature[seen]], ahead)
system = driven.transform([temperature[seen]], inputs=[power[seen]])
print("eigenvalues, true:      ", np.sort(np.linalg.eigvals(A).real).round(3))
print("eigenvalues, identified:", np.sort(np.linalg.eigvals(system.A[0]).real).round(3))
rest = temperature[300:]
for name, forecast in (("with the input", mean[0]), ("without", alone[0])):
    print(f"{name}: R² = {1 - np.sum((rest - forecast) ** 2) / np.sum((rest - rest.mean(axis=0)) ** 2):.2f}")

fig, axes = plt.subplots(3, 1, figsize=(8, 4.4), sharex=True, layout="constrained", height_ratios=[2, 2, 1])
for channel in range(2):
    ax, span = axes[channel], np.arange(300, 400)
    ax.plot(temperature[:, channel], color="0.6", linewidth=1, label="measured")
    ax.plot(span, mean[0, :, channel], color="C1", label="forecast with the planned input")
    half = 1.645 * std[0, :, channel]
    ax.fill_between(span, mean[0, :, channel] - half, mean[0, :, channel] + half, color="C1", alpha=0.3)
    ax.plot(span, alone[0, :, channel], color="C0", linestyle="--", label="forecast without input")
    ax.set(ylabel=f"thermometer {channel + 1}")
axes[0].legend(fontsize="small", loc="upper left")
axes[2].step(np.arange(n_steps), power[:, 0], color="k")
axes[2].set(ylabel="power", xlabel="step", xlim=(200, 400))
plt.show()
