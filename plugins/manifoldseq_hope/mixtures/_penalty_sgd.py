"""Algorithm 1 as a solver: stochastic gradient ascent that renormalizes, as printed and repaired."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

import manifoldseq as ms

from ..families._settings import check_choice, check_number, check_whole
from ._penalty import ORTHOGONALITY, penalty, penalty_gradient

State = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PenaltySGD(ms.solvers.Solver):
    """Algorithm 1: gradient steps on mini-batches in the coordinates of all factors, then renormalization.

    Factors on the Stiefel manifold (n, p) hold the rows of U as columns. As printed, the penalty (15) keeps them apart
    and every column is divided by its length (36); other choices make them orthonormal in every step. Weights on the
    simplex are divided by their sum (35).

    Parameters
    ----------
    step_size : float
        The rate epsilon.
    beta : float
        Of the penalty (14), per batch as printed, per row if repaired. Only for ``orthogonality="penalty"``.
    orthogonality : {"polar", "qr", "gram-schmidt", "penalty"}
    repaired : bool
        False: as printed. The derivatives are sums over the batch, and a weight moves by epsilon N_k / pi_k before it
        is renormalized, which has its fixed point at the square roots of the mean responsibilities. True: means over
        the batch, and weights by the Riemannian gradient of the simplex, which rest at the maximum of the likelihood.
    batch_size : int
    seed : int, optional

    Notes
    -----
    With the penalty, points are off the manifold: `manifoldseq.minimize` returns the nearest point on it, and the
    history has the violation in ``penalty``, D(U) of the point of each step. Collapsed columns have no nearest point.

    References
    ----------
    Zhang, Jiang, Algorithm 1, equations (14)-(18), (35), (36).

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> X = ms.get_model("hope.movmf").example(np.random.default_rng(0))
    >>> problem = ms.get_model("hope.movmf").build(X, n_components=3, n_latent=2, noise_variance=0.1)
    >>> options = {"step_size": 0.05, "orthogonality": "qr", "batch_size": 50}
    >>> result = ms.minimize(problem, solver="penalty-sgd", options=options, stop=ms.MaxIterations(200), seed=0)
    >>> bool(result.fun < result.history["fun"][0])
    True
    """

    step_size: float = 0.01
    beta: float = 1.0
    orthogonality: str = "polar"
    repaired: bool = True
    batch_size: int = 100
    seed: int | None = None
    needs: ClassVar[tuple[str, ...]] = ("value_and_gradient", "terms")
    deterministic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("step_size", self.step_size, open_=True)
        check_number("beta", self.beta)
        check_choice("orthogonality", self.orthogonality, tuple(ORTHOGONALITY))
        check_whole("batch_size", self.batch_size)

    @property
    def monotone(self) -> bool:
        return False

    def seeded(self, seed: int) -> "PenaltySGD":
        """Return the solver with this seed, unless it has one."""
        return self if self.seed is not None else replace(self, seed=seed)

    def init(self, problem: ms.Problem, point: Any) -> tuple[State, ms.Measures]:
        """Return the state before the first epoch."""
        assert problem.objective.value_and_gradient is not None
        fun, _ = problem.objective.value_and_gradient(point)
        bits = np.random.default_rng(0 if self.seed is None else self.seed).bit_generator.state
        state = {"x": point, "rng": bits, "order": np.arange(0), "next": 0}
        return state, ms.Measures(fun, extra={"penalty": _correlated(problem.manifold, point)})

    def step(self, problem: ms.Problem, state: State) -> tuple[State, ms.Measures]:
        """Draw a batch and follow its gradient."""
        terms = problem.objective.terms
        assert terms is not None
        rows, drawn = self._draw(state, terms.n)
        batch = terms.batch(rows)
        assert batch.value_and_gradient is not None
        x = state["x"]
        fun, slope = batch.value_and_gradient(x)
        rate = self.step_size * (1 if self.repaired else len(rows))  # the objective is a mean over rows
        pull = self.beta if self.repaired else self.beta / len(rows)
        moved = self._moved(problem.manifold, x, slope, rate, pull)
        return {**state, **drawn, "x": moved}, ms.Measures(fun, extra={"penalty": _correlated(problem.manifold, x)})

    def _draw(self, state: State, n: int) -> tuple[np.ndarray, State]:
        order, first, bits = state["order"], state["next"], state["rng"]
        if first >= len(order):
            rng = np.random.Generator(np.random.PCG64())
            rng.bit_generator.state = bits
            order, first, bits = rng.permutation(n), 0, rng.bit_generator.state
        last = first + self.batch_size
        return np.sort(order[first:last]), {"order": order, "next": last, "rng": bits}

    def _moved(self, manifold: Any, x: Any, slope: Any, rate: float, pull: float) -> Any:
        if isinstance(x, tuple):
            return tuple(
                self._moved(factor, part, by, rate, pull)
                for factor, part, by in zip(manifold.factors, x, slope, strict=True)
            )
        if _orthonormal(manifold):
            if self.orthogonality == "penalty":
                slope = slope + pull * penalty_gradient(x.T).T
            else:
                slope = manifold.gradient(x, slope)
            return np.ascontiguousarray(ORTHOGONALITY[self.orthogonality]((x - rate * slope).T).T, dtype=x.dtype)
        if isinstance(manifold, ms.manifolds.Simplex):
            if self.repaired:
                return manifold.retract(x, -rate * manifold.gradient(x, slope), "softmax")
            moved = np.maximum(x - rate * slope, np.finfo(x.dtype).tiny)
            return moved / moved.sum(axis=-1, keepdims=True)
        if manifold.metric == "embedded":
            return manifold.nearest(x - rate * manifold.gradient(x, slope))
        return manifold.retract(x, -rate * manifold.gradient(x, slope))


def _orthonormal(manifold: Any) -> bool:
    return isinstance(manifold, (ms.manifolds.Stiefel, ms.manifolds.Orthogonal))


def _correlated(manifold: Any, x: Any) -> float:
    """Return the sum of the penalty (15) over the factors with orthonormal columns."""
    if isinstance(x, tuple):
        return sum(_correlated(factor, part) for factor, part in zip(manifold.factors, x, strict=True))
    return penalty(x.T) if _orthonormal(manifold) else 0.0
