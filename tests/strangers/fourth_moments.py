"""A plugin in one file: an initializer of a model that another plugin registers, and that model with another cost."""

import numpy as np

import manifoldseq as ms

VMF = ms.get_model("hope:hope.vmf")


def fourth_moments(problem, rng):
    """Return centres along the axes of the fourth moments of whitened rows."""
    blocks, (K, D) = problem.data.blocks, problem.manifold.shape[1]
    X = blocks.take(np.sort(rng.choice(blocks.n, min(blocks.n, 2000), replace=False)))[0]
    Z = X - X.mean(axis=0)
    w, E = np.linalg.eigh(Z.T @ Z / len(Z))
    W = Z @ (E / np.sqrt(np.maximum(w, 1e-9)))
    axes = np.linalg.eigh((W * (W**2).sum(axis=1)[:, None]).T @ W)[1].T @ E.T
    return np.full(K, 1 / K), 5.0 * np.resize(np.concatenate([axes, -axes]), (K, D))


def sparse(model, point, sums):
    """Return the cost of hope.vmf with an L1 penalty, and its gradient."""
    fun, (by_weights, by_mu) = VMF.value_and_gradient(model, point, sums)
    return fun + 0.01 * np.abs(point[1]).sum(), (by_weights, by_mu + 0.01 * np.sign(point[1]))


@ms.hookimpl
def manifoldseq_initializers():
    yield ms.hooks.InitializerSpec("fourth-moments", fourth_moments, model="hope.vmf")


@ms.hookimpl
def manifoldseq_models():
    yield ms.hooks.ModelSpec("sparse-vmf", base="hope.vmf", value_and_gradient=sparse, solver="lbfgs")
