"""
Learned weights of a Procrustes problem
=======================================

Thirty points are measured in two frames, and a third of the measurements are outliers. The weights of the points are
learned by gradient descent through the solution of the weighted Procrustes problem. The derivative of the solution
follows from its optimality condition on the rotations.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms
import manifoldseq_jax as mj

rng = np.random.default_rng(1)
rotations = ms.manifolds.SpecialOrthogonal(3)
truth = rotations.random_point(rng)
points = rng.standard_normal((30, 3))
outliers = np.arange(30) < 10
measured = points @ truth.T + 0.02 * rng.standard_normal((30, 3))
measured[outliers] += rng.standard_normal((10, 3))
exact = rng.standard_normal((6, 3))


def alignment(R, w):
    return jnp.sum(w[:, None] * (points @ R.T - measured) ** 2)


def outer(logits):
    """Return the error of the estimated rotation on points that are known exactly."""
    R = mj.minimize(alignment, rotations, np.eye(3), jax.nn.softmax(logits)).x
    return jnp.sum((exact @ R.T - exact @ truth.T) ** 2)


# %%
# Gradient descent on the logarithms of the weights. The pure function is compiled once, with its derivative.

with jax.enable_x64(True):
    step, logits, errors = jax.jit(jax.value_and_grad(outer)), np.zeros(30), []
    for _ in range(60):
        error, gradient = step(logits)
        errors.append(float(error))
        logits = logits - 20.0 * np.asarray(gradient)
    weights = np.asarray(jax.nn.softmax(logits))

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.semilogy(errors)
left.set(xlabel="outer iteration", ylabel="error on the exact points")
right.bar(np.arange(30)[outliers], weights[outliers], label="outliers")
right.bar(np.arange(30)[~outliers], weights[~outliers], label="other measurements")
right.set(xlabel="point", ylabel="weight")
right.legend()
plt.show()
