"""
Rotation averaging with outliers
================================

Forty cameras measure the relative rotations of some pairs, with noise; some of the measurements are outliers. The
least-squares estimate is compared with that of a robust loss, for five shares of outliers.
"""

import autograd.numpy as anp
import matplotlib.pyplot as plt
import numpy as np

import manifoldseq as ms

rotations, n = ms.manifolds.SpecialOrthogonal(3), 40


def graph(share, rng):
    """Return true rotations, the pairs (i, j) and the measured rotations."""
    truth = (rotations**n).random_point(rng)
    i, j = np.triu_indices(n, 1)
    keep = rng.random(len(i)) < 0.3
    i, j = i[keep], j[keep]
    exact = truth[i].mT @ truth[j]
    measured = rotations.exp(exact, rotations.project(exact, 0.05 * rng.standard_normal(exact.shape)))
    wrong = rng.random(len(i)) < share
    if wrong.any():
        measured[wrong] = (rotations ** int(wrong.sum())).random_point(rng)
    return truth, i, j, measured


def averaging(i, j, measured, loss):
    """Return the problem of all rotations, the first one fixed."""
    block = ms.residuals(lambda A, B: anp.reshape(B - A @ measured, (-1, 9)), on=(i, j), loss=loss)
    return ms.Problem(ms.manifolds.Power(rotations, n, fixed=[0]), ms.least_squares(block))


def errors(truth, estimate):
    """Return the angles in degrees between two sets of rotations, up to one common rotation."""
    common = ms.frechet_mean(rotations, truth @ estimate.mT)
    return np.degrees(rotations.dist(common @ estimate, truth) / np.sqrt(2))


# %%
# Least squares runs from eight random starts. The robust loss starts from that solution: graduated non-convexity begins
# nearly quadratic, and ends with the loss of Geman and McClure.

shares = (0.0, 0.1, 0.2, 0.3, 0.4)
angles = {"least squares": [], "robust loss": []}
robust = ms.losses.Graduated(0.3)
for share in shares:
    truth, *pairs = graph(share, np.random.default_rng(0))
    squares = ms.minimize(averaging(*pairs, None), n_starts=8, seed=0)
    result = ms.minimize(averaging(*pairs, robust), squares.x)
    for (name, found), end in zip(angles.items(), (squares, result), strict=True):
        found.append(errors(truth, end.x))
        print(f"{share:.0%} outliers, {name}: median error {np.median(found[-1]):.1f} degrees")

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for k, (name, found) in enumerate(angles.items()):
    ax.boxplot(
        found,
        positions=np.arange(len(shares)) + 0.3 * k - 0.15,
        widths=0.25,
        patch_artist=True,
        boxprops={"facecolor": f"C{k}", "alpha": 0.6},
        medianprops={"color": "k"},
        label=name,
    )
ax.set_xticks(range(len(shares)), [f"{share:.0%}" for share in shares])
ax.set(xlabel="outliers among the measurements", ylabel="error of a rotation (degrees)")
ax.legend(loc="upper left")
plt.show()
