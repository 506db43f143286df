"""
Many small problems at once
===========================

Five hundred point clouds are aligned with their models by a robust loss: 500 problems over rotations, solved together.
Each problem stops by itself, so that the batch shrinks as it proceeds.
"""

import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms

rng = np.random.default_rng(0)
rotations, n_problems, n_points = ms.manifolds.SpecialOrthogonal(3), 500, 30
truth = (rotations**n_problems).random_point(rng)
model = rng.standard_normal((n_problems, n_points, 3))
cloud = model @ truth.mT + 0.05 * rng.standard_normal(model.shape)
wrong = rng.random((n_problems, n_points)) < 0.25
cloud[wrong] = 3 * rng.standard_normal((int(wrong.sum()), 3))


def aligned(R, which):
    """Return values (B,) and gradients (B, 3, 3) of the active problems."""
    E = model[which] @ R.mT - cloud[which]
    root = np.sqrt(0.01 + np.sum(E**2, axis=2))
    return root.sum(axis=1), (E / root[..., None]).mT @ model[which]


problem = ms.Problem(rotations, ms.objective(batched=aligned))
results = ms.minimize_batch(problem, n_problems=n_problems, seed=0)
angles = np.degrees(rotations.dist(results.x, truth) / np.sqrt(2))
nit = np.array([results[k].nit for k in range(n_problems)])
print(f"{results.success.sum()} of {n_problems} converged; median error {np.median(angles):.2f} degrees")

fig, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
steps = np.arange(nit.max() + 1)
axes[0].step(steps, [(nit > step).sum() for step in steps])
axes[0].set(xlabel="iteration", ylabel="active problems", ylim=(0, None))
axes[1].hist(angles, bins=np.geomspace(0.05, 180, 40))
axes[1].set(xscale="log", xlabel="error of the rotation (degrees)", ylabel="problems")
plt.show()
