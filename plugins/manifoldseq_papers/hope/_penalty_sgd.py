"""Algorithm 1 as a solver: stochastic gradient ascent with renormalization, as printed and in a corrected form."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.estimators import check_choice, check_number
from manifoldseq_hope import penalty, penalty_gradient

Array = NDArray[np.floating[Any]]
State = dict[str, Any]


def gram_schmidt(U: Array) -> Array:
    """Return the rows orthonormalized one after the other; two passes are enough (Kahan)."""
    found = np.array(U, dtype=np.float64)
    for i in range(len(found)):
        for _ in range(2):
            found[i] -= found[:i].T @ (found[:i] @ found[i])
        found[i] /= np.linalg.norm(found[i])
    return found


def qr(U: Array) -> Array:
    """Return the orthonormal factor of U' = QR with positive diagonal of R, as rows."""
    Q, R = np.linalg.qr(U.T)
    return (Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)).T


def polar(U: Array) -> Array:
    """Return the nearest matrix with orthonormal rows."""
    return ms.linalg.polar(U.T).T


def unit_rows(U: Array) -> Array:
    """Return the rows divided by their lengths (36). They need not be orthogonal: the penalty reduces correlations."""
    return U / np.linalg.norm(U, axis=1, keepdims=True)


ORTHOGONALITY: dict[str, Callable[[Array], Array]] = {
    "penalty": unit_rows,
    "gram-schmidt": gram_schmidt,
    "qr": qr,
    "polar": polar,
}
"""How rows are normalized after a step."""


@dataclass(frozen=True, kw_only=True)
class PenaltySGD(ms.solvers.Stochastic):
    """Algorithm 1: gradient steps on mini-batches in the coordinates of all factors, then renormalization.

    Factors on the Stiefel manifold (n, p) hold the rows of U as columns. In the printed algorithm, the penalty (15)
    reduces their correlations and every column is divided by its length (36). The other choices orthonormalize the
    columns in every step. Weights on the simplex are divided by their sum (35).

    Parameters
    ----------
    step_size : float or Schedule
        The rate epsilon.
    beta : float
        Factor of the penalty (equation 14): per batch as printed, per row if `repaired`. Only for
        ``orthogonality="penalty"``.
    orthogonality : {"polar", "qr", "gram-schmidt", "penalty"}
        How columns on Stiefel factors are kept orthonormal.
    repaired : bool
        Whether the defects of the printed algorithm are corrected. False: the derivatives are sums over the batch, and
        a weight moves by epsilon N_k / pi_k before the weights are renormalized; the fixed point of this update is at
        the square roots of the mean responsibilities. True: the derivatives are means over the batch, and weights
        follow the Riemannian gradient of the simplex, whose fixed point is the maximum of the likelihood.
    batch_size, clip, average_from, seed, retraction
        As in `manifoldseq.solvers.SGD`. The retraction is not used.

    Notes
    -----
    With the penalty, iterates are not on the manifold: `manifoldseq.minimize` returns the nearest point of the
    manifold. The column ``penalty`` of the history is the violation D(U) at each iterate. If columns are linearly
    dependent, there is no unique nearest point.

    References
    ----------
    Zhang, Jiang, Algorithm 1, equations (14)-(18), (35), (36).

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> X = ms.get_model("hope.movmf").example(np.random.default_rng(0))
    >>> problem = ms.get_model("hope.movmf").problem(X, n_components=3, n_latent=2, noise_variance=0.1)
    >>> options = {"step_size": 0.05, "orthogonality": "qr", "batch_size": 50}
    >>> result = ms.minimize(problem, solver="papers:penalty-sgd", options=options, stop=ms.MaxIterations(200), seed=0)
    >>> bool(result.fun < result.history["fun"][0])
    True
    """

    step_size: float | ms.solvers.Schedule = 0.01
    beta: float = 1.0
    orthogonality: str = "polar"
    repaired: bool = True
    batch_size: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta", self.beta)
        check_choice("orthogonality", self.orthogonality, tuple(ORTHOGONALITY))

    def begin(self, problem: ms.Problem, x: Any) -> State:
        """Return no memory."""
        return {}

    def move(
        self, problem: ms.Problem, at: ms.solvers.Iterate, memory: State, rate: float, k: int
    ) -> tuple[Any, State]:
        """Follow the gradient of a batch."""
        pull = self.beta
        if not self.repaired:  # sums over the batch, where the objective is a mean over rows
            assert problem.objective.terms is not None
            n, size = problem.objective.terms.n, self.batch_size
            rows = min(size, n - k % -(-n // size) * size)  # the last batch of an epoch is what is left
            rate, pull = rate * rows, pull / rows
        gradient = ms.linalg.unflattener(at.x)(at.grad)
        return self._moved(problem.manifold, at.x, at.egrad, gradient, rate, pull), memory

    def columns(self, problem: ms.Problem, at: ms.solvers.Iterate) -> dict[str, float]:
        """Return D(U) (15)."""
        return {"penalty": _correlated(problem.manifold, at.x)}

    def _moved(self, manifold: Any, x: Any, egrad: Any, gradient: Any, rate: float, pull: float) -> Any:
        """Return a factor after a step, from its Euclidean and its Riemannian gradient."""
        if isinstance(x, tuple):
            parts = zip(manifold.factors, x, egrad, gradient, strict=True)
            return tuple([self._moved(*part, rate, pull) for part in parts])
        # with the penalty (18) along the Euclidean gradient, else along the Riemannian one; then rows are made
        # orthonormal, or unit (36)
        if _orthonormal(manifold):
            slope = egrad + pull * penalty_gradient(x.T).T if self.orthogonality == "penalty" else gradient
            return np.ascontiguousarray(ORTHOGONALITY[self.orthogonality]((x - rate * slope).T).T, dtype=x.dtype)
        if isinstance(manifold, ms.manifolds.Simplex):
            if self.repaired:
                return manifold.retract(x, -rate * gradient, "softmax")
            # as printed: weights move along their unconstrained derivative (32), and are renormalized (35)
            moved = np.maximum(x - rate * egrad, np.finfo(x.dtype).tiny)
            return moved / moved.sum(axis=-1, keepdims=True)
        if manifold.metric == "embedded":
            return manifold.nearest(x - rate * gradient)
        return manifold.retract(x, -rate * gradient)


def _orthonormal(manifold: Any) -> bool:
    return isinstance(manifold, (ms.manifolds.Stiefel, ms.manifolds.Orthogonal))


def _correlated(manifold: Any, x: Any) -> float:
    """Return the sum of the penalty (15) over the factors with orthonormal columns."""
    if isinstance(x, tuple):
        return sum(_correlated(factor, part) for factor, part in zip(manifold.factors, x, strict=True))
    return penalty(x.T) if _orthonormal(manifold) else 0.0
