"""Features of a HOPE layer: the threshold of (39), and the reconstruction of projections from features."""

from dataclasses import dataclass

import numpy as np

from ..families._family import Array, Family
from ._expectation import Expectation
from ._parameters import Data, Model

_ROWS = 10_000
"""Number of rows, evenly spaced, for a quantile."""
_ENTRIES = 1 << 22
_ITERATIONS = 50


def threshold_of(expectation: Expectation, data: Data, given: float | None, quantile: float) -> float:
    """Return epsilon (39): the given number, or the quantile of phi (37) over the rows and components."""
    if given is not None:
        return float(given)
    keep = np.unique(np.linspace(0, data.X.shape[0] - 1, min(data.X.shape[0], _ROWS)).astype(np.intp))
    phi = expectation.phi(data.X[keep]).astype(np.float64)
    if data.weight is None:
        return float(np.quantile(phi, quantile, method="inverted_cdf"))
    weight = np.broadcast_to(data.weight[keep, None], phi.shape)
    return float(np.quantile(phi.ravel(), quantile, weights=weight.ravel(), method="inverted_cdf"))


def located(model: Model, eta: Array, threshold: float) -> Array:
    """Return the z with log-likelihood contributions nearest to ``eta + threshold`` where eta is above zero."""
    K, M, family = model.n_components, model.M, model.family
    natural, offset = family.natural(model.parameters, M)
    with np.errstate(divide="ignore"):
        offset = offset + np.log(model.weights)
    centres, basis = family.centres(model.parameters), None
    if family.names == ("mu",) and M > K:
        # t(z) is z: start, steps and solution lie in the span of the centres, in whose coordinates M is K
        basis = np.linalg.qr(centres.T)[0]
        natural, centres = natural @ basis, centres @ basis
    problem = _Trilateration(family, natural, centres)
    found = np.empty((len(eta), M))
    most = max(1, _ENTRIES // (K * centres.shape[1]))
    for start in range(0, len(eta), most):
        rows = slice(start, start + most)
        active = eta[rows] > 0
        z = problem.solved(eta[rows], np.where(active, eta[rows] + threshold - offset, 0.0), active)
        if model.normalize_z:
            length = np.linalg.norm(z, axis=1, keepdims=True)
            z = z / np.where(length > 0, length, 1.0)
        found[rows] = z if basis is None else z @ basis.T
    return found


@dataclass(frozen=True)
class _Trilateration:
    """Least squares in z, (n, M), of ``natural @ t(z)`` minus the target, both (n, K), over active components."""

    family: Family
    natural: Array
    centres: Array

    def solved(self, eta: Array, target: Array, active: Array) -> Array:
        """Return z by Levenberg-Marquardt steps for all rows together, from the mean of the centres weighted by eta."""
        total, M = eta.sum(axis=1, keepdims=True), self.centres.shape[1]
        z = eta @ self.centres / np.where(total > 0, total, 1.0)
        error, cost = self._error(target, active, z)
        damping = np.zeros(len(z))
        for _ in range(_ITERATIONS):
            # (J'J + damping tr(J'J) I) step = J' error, row by row: J is (N, K, M), H (N, M, M), maybe singular
            J = self._jacobian(z) * active[:, :, None]
            H = J.mT @ J
            trace = np.trace(H, axis1=1, axis2=2)
            H = H + (damping * trace)[:, None, None] * np.eye(M)
            step = (np.linalg.pinv(H, rcond=1e-12, hermitian=True) @ (J.mT @ error[:, :, None]))[:, :, 0]
            new = z + step
            new_error, new_cost = self._error(target, active, new)
            better = new_cost < cost
            z, error = np.where(better[:, None], new, z), np.where(better[:, None], new_error, error)
            gained = np.where(better, cost - new_cost, 0.0)
            cost = np.where(better, new_cost, cost)
            damping = np.where(better, damping / 10, np.maximum(10 * damping, 1e-6))
            done = (gained <= 1e-14 * (1 + cost)) & (better | (damping > 1e6) | (cost < 1e-20))
            if np.all(done) or not np.any(active):
                break
        return z

    def _error(self, target: Array, active: Array, z: Array) -> tuple[Array, Array]:
        error = np.where(active, target - self.family.statistics(z) @ self.natural.T, 0.0)
        return error, np.einsum("nk,nk->n", error, error)

    def _jacobian(self, z: Array) -> Array:
        """Return the derivatives of phi by z, (N, K, M)."""
        (N, M), K = z.shape, len(self.natural)
        return self.family.pullback(np.repeat(z, K, axis=0), np.tile(self.natural, (N, 1))).reshape(N, K, M)
