"""
Least squares with robust losses
================================

A curve is fitted to data in which a fifth of the values are outliers. The least-squares curve is pulled toward the
outliers. The curves with robust losses follow the other values.
"""

import autograd.numpy as np
import matplotlib.pyplot as plt
import numpy

import manifoldseq as ms

rng = numpy.random.default_rng(0)
t = numpy.linspace(0, 1, 40)
truth = 2 * numpy.exp(-3 * t) + 0.5
y = truth + 0.05 * rng.standard_normal(40)
wrong = rng.choice(40, 8, replace=False)
y[wrong] += rng.uniform(1, 3, 8)


def curve(x):
    return x[0] * np.exp(x[1] * t) + x[2]


losses = {"squares": ms.losses.Squared(), "Huber": ms.losses.Huber(0.1), "Cauchy": ms.losses.Cauchy(0.1)}
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(t, y, "k.", label="data")
left.plot(t, truth, "k", linewidth=0.8, label="truth")
r = numpy.linspace(-0.6, 0.6, 200)
for name, loss in losses.items():
    fit = ms.least_squares(ms.residuals(lambda x: curve(x) - y, loss=loss))
    result = ms.minimize(ms.Problem(ms.manifolds.Euclidean(3), fit), np.array([1.0, -1.0, 0.0]))
    print(f"{name}: {result.x.round(2)} after {result.nit} iterations")
    left.plot(t, curve(result.x), label=name)
    right.plot(r, loss(r**2)[0], label=name)
left.set(xlabel="time", ylabel="value")
left.legend(fontsize="small")
right.set(xlabel="residual", ylabel="loss", ylim=(0, 0.15))
right.legend(fontsize="small")
plt.show()
