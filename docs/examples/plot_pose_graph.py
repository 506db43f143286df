"""
A pose graph with wrong loop closures
=====================================

A robot drives around a square three times. Its odometry drifts, and loop closures correct the drift. Some loop closures
are wrong; the Cauchy loss gives them a small weight.
"""

import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms

rng = np.random.default_rng(0)
n = 120


def turned(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)


R = turned(np.pi / 2 * (np.arange(n) // 10))
t = np.vstack([np.zeros(2), np.cumsum(R[:-1] @ [1.0, 0.0], axis=0)])
closures = np.arange(n - 40)
i, j = np.r_[np.arange(n - 1), closures], np.r_[np.arange(1, n), closures + 40]
rotations = R[i].mT @ R[j] @ turned(0.03 * rng.standard_normal(len(i)))
translations = np.einsum("kba,kb->ka", R[i], t[j] - t[i]) + 0.05 * rng.standard_normal((len(i), 2))
wrong = n - 1 + rng.choice(n - 40, 8, replace=False)
translations[wrong] += rng.uniform(-8, 8, (8, 2))

# %%
# Odometry alone is the start.

start_R, start_t = R.copy(), t.copy()
for k in range(n - 1):
    start_R[k + 1], start_t[k + 1] = start_R[k] @ rotations[k], start_t[k] + start_R[k] @ translations[k]
information = np.broadcast_to(np.diag([1 / 0.03**2, 1 / 0.05**2, 1 / 0.05**2]), (len(i), 3, 3))
graph = ms.poses.PoseGraph((start_R, start_t), i, j, rotations, translations, information)
loss = ms.losses.Cauchy(3.0)
result = ms.minimize(graph.problem(loss), graph.start)
print(result.message)

# %%
# Residuals at the solution give the weights of the measurements.

(R, places), start = result.x, graph.start[1]
residuals = graph.residuals().value([(R[i], places[i]), (R[j], places[j])], len(i))
weight = loss(np.sum(residuals**2, axis=1))[1]

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(*start.T, color="C1", label="odometry")
left.plot(*places.T, "C0.-", markersize=4, label="optimized")
left.plot(*t.T, "k--", linewidth=0.8, label="truth")
left.set(xlabel="x", ylabel="y", aspect="equal")
left.legend(fontsize="small")
right.semilogy(np.arange(len(i)), weight, "C0.", label="right measurements")
right.semilogy(wrong, weight[wrong], "C3x", label="wrong closures")
right.set(xlabel="measurement", ylabel="weight")
right.legend(fontsize="small")
plt.show()
