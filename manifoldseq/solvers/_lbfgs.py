"""Riemannian limited-memory BFGS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .._problem import Problem
from .._result import Measures, Point, Status
from ..linalg._blas import AXPY
from ..linalg._tree import flatten, leaves, tree_map, unflattener, unflattener_of
from ..manifolds import Manifold
from ..manifolds._base import base_of
from ..manifolds._product import _Factored as Factored
from ._base import Solver, one_of, whole_numbers
from ._hessian import first_step
from ._iterates import Dot, Iterate, State, evaluate, inner_product, secant
from ._precondition import Precondition, check_precondition, preconditioned
from ._saddle import leave_saddle, stationary
from ._search import LINE_SEARCHES, Line, search

Pair = tuple[np.ndarray, np.ndarray, float, float]


@dataclass(frozen=True)
class LBFGS(Solver):
    """Limited-memory BFGS on a manifold: the default solver.

    Gradient, direction and pairs are flat ambient vectors. With the embedded metric the stored pairs are not
    transported, the direction is projected onto the current tangent space (measured: the same iterations, 20–35 % less
    time); with another one every pair is transported in every step, and dropped if it loses its curvature (measured:
    half to a third of the iterations). One fused evaluation per iteration, but for rejected trial steps. Where the
    manifold is bounded the step works on the free coordinates and the search follows the projected arc (Bertsekas
    1982); a pair loses the coordinates that a bound comes to hold.

    Parameters
    ----------
    memory : int
        Number of stored pairs.
    retraction : str, optional
        A kind that the manifold knows; its default otherwise.
    line_search : {"armijo", "wolfe"}
        Sufficient decrease alone, or the strong Wolfe conditions with curvature constant 0.9. Both follow the
        projected arc where the manifold is bounded.
    max_trials : int
        Trial steps per line search.
    precondition : callable, optional
        ``precondition(problem, x, g) -> tangent vector``: an approximation of the inverse Hessian at x times g (the
        Riemannian gradient, or a change of it), in the structure of the point; linear in g, symmetric and positive
        definite in the metric. It takes the place of the identity that the two-loop recursion begins with. Where the
        direction does not descend, the negative gradient does.

    References
    ----------
    Huang, Gallivan, Absil, "A Broyden class of quasi-Newton methods for Riemannian optimization", 2015.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: ((x - 1) ** 2).sum()))
    >>> ms.minimize(problem, np.zeros(2), solver="lbfgs", options={"memory": 5}).x.round(6).tolist()
    [1.0, 1.0]
    """

    memory: int = 10
    retraction: str | None = None
    line_search: str = "armijo"
    max_trials: int = 30
    precondition: Precondition | None = None
    curvature: ClassVar[bool] = True
    frames: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        whole_numbers("LBFGS", memory=self.memory, max_trials=self.max_trials)
        one_of("LBFGS", LINE_SEARCHES, line_search=self.line_search)
        check_precondition("LBFGS", self.precondition)

    @property
    def scale_free(self) -> bool:
        return True

    def init(self, problem: Problem[Point], point: Point) -> tuple[State, Measures]:
        """Return the state without pairs."""
        at = evaluate(problem, point)
        return at.state(pairs=(), held=()), at.measures(problem.manifold)

    def step(self, problem: Problem, state: State) -> tuple[State, Measures]:
        """Search along the quasi-Newton direction, and along the negative gradient if that fails."""
        manifold = problem.manifold
        at = Iterate.of(state)
        tree, dot = unflattener_of(manifold.shape), inner_product(problem, at.x)
        pairs, held = state["pairs"], state["held"]
        if stationary(at):
            return leave_saddle(problem, state, at, self.retraction, lambda new: new.state(pairs=(), held=()))
        if manifold.bounded:
            now = tuple((at.grad == 0).nonzero()[0].tolist())  # what bounds hold is among these
            if now != held:
                now = _held(manifold.free(at.x, at.egrad))
                pairs, held = _release(pairs, [i for i in now if i not in held], dot), now
        P = None if self.precondition is None else partial(preconditioned, self.precondition, problem, at)
        while True:
            direction = two_loop(-at.grad, pairs, dot, P)
            if pairs:
                # pairs of earlier points are not tangent here
                direction = flatten(manifold.project(at.x, tree(direction)))
            # the pairs have the unit of the inverse Hessian, so that a step of one is tried first; without pairs the
            # curvature along the direction gives the first step
            slope, size = dot(at.grad, direction), dot(direction, direction) ** 0.5
            found = None
            if slope < -1e-10 * at.grad_norm * size or not (pairs or P):
                first = 1.0 if pairs else first_step(problem, at, self.retraction, direction if P else None)
                line = Line(problem, at, direction, slope, self.retraction)
                found = search(self.line_search, line, first, self.max_trials, 0.9, expand=not pairs)
            if found is not None:
                break
            if not (pairs or P):
                return state, at.measures(manifold, status=Status.NO_DECREASE)
            pairs, P = (), P if pairs else None
        new, t = found
        # the secant pair s = t d, y = g⁺ − g; with another metric both are first transported to the new point
        s, length = direction if t == 1 else t * direction, t * size
        if manifold.metric != "embedded":
            pairs, curvature = _transported(manifold, at, new, (*pairs, (s, -at.grad))[-self.memory :])
        else:
            y = new.grad - at.grad
            pair = secant_pair(s, y, dot)
            curvature = secant(dot(s, y) if pair is None else pair[2], length * length)
            pairs = pairs if pair is None else (*pairs, pair)[-self.memory :]
        return new.state(pairs=pairs, held=held), new.measures(manifold, length, curvature)

    def inverse_hessian(self, problem: Problem, state: State) -> Callable[[np.ndarray], np.ndarray] | None:
        at, pairs = Iterate.of(state), state["pairs"]
        if not pairs:
            return None
        manifold, tree, dot = problem.manifold, unflattener_of(problem.manifold.shape), inner_product(problem, at.x)
        return lambda v: flatten(manifold.project(at.x, tree(two_loop(v, pairs, dot))))


def _transported(
    manifold: Manifold, at: Iterate, new: Iterate, pairs: tuple[Any, ...]
) -> tuple[tuple[Any, ...], float | None]:
    """Return the pairs at the new point, without those that lose their curvature there, and the curvature of the last.

    The last one comes as the step with the negative gradient at its start; the new gradient makes it complete.
    """
    # all vectors s and y as one stack of 2k rows, transported at once; only the last y lacks the gradient at its end
    tree, k = unflattener(at.x), len(pairs)
    vectors = tree_map(lambda *parts: np.stack(parts), *(tree(v) for i in (0, 1) for v in [pair[i] for pair in pairs]))
    with np.errstate(all="ignore"):
        moved = _carried(manifold, at.x, new.x, vectors)
        flat = [flatten(tree_map(lambda leaf, i=i: leaf[i], moved)) for i in range(2 * k)]
        flat[-1] = flat[-1] + new.grad
        there = unflattener(new.x)
        S, Y = (tree_map(lambda *parts: np.stack(parts), *map(there, part)) for part in (flat[:k], flat[k:]))
        x = base_of(manifold, new.x, k)
        ss, sy, yy = (manifold.inner(x, u, v) for u, v in ((S, S), (S, Y), (Y, Y)))
        # transport by projection is not an isometry: the inverse Hessian stays positive with positive ⟨s, y⟩ only
        curved = np.isfinite(ss) & np.isfinite(yy) & (yy > 0) & (sy > 1e-12 * np.sqrt(ss) * np.sqrt(yy))
    rows = zip(flat[:k], flat[k:], sy.tolist(), yy.tolist(), curved, strict=True)
    return tuple((s, y, a, a / b) for s, y, a, b, keep in rows if keep), secant(float(sy[-1]), float(ss[-1]))


def _carried(manifold: Manifold, x: Any, y: Any, vectors: Any) -> Any:
    """Transport vectors over a leading axis from x to y; where the metric is embedded they stay as they are."""
    if isinstance(manifold, Factored):
        return tuple(map(_carried, manifold.factors, x, y, vectors))
    if manifold.metric == "embedded":
        return vectors
    k = len(leaves(vectors)[0])
    return manifold.transport(base_of(manifold, x, k), base_of(manifold, y, k), vectors)


def secant_pair(s: np.ndarray, y: np.ndarray, dot: Dot) -> Pair | None:
    """Return what :func:`two_loop` remembers of a step: s, y, ⟨s, y⟩ and ⟨s, y⟩/⟨y, y⟩.

    Parameters
    ----------
    s, y : ndarray of shape (n,)
        The step and the change of the gradient, flat tangent vectors at one point.
    dot : callable
        Their inner product, see :func:`inner_product`.

    Returns
    -------
    tuple or None
        None where the curvature ⟨s, y⟩ is not positive, beyond rounding.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Positive(1), ms.manifolds.Euclidean(1))
    >>> dot = ms.solvers.inner_product(ms.Problem(M, lambda x: 0.0), (np.array([2.0]), np.zeros(1)))
    >>> ms.solvers.secant_pair(np.array([1.0, 0.0]), np.array([4.0, 0.0]), dot)[2:]
    (1.0, 0.25)
    """
    sy, yy = dot(s, y), dot(y, y)
    if yy > 0 and sy > 1e-12 * (dot(s, s) * yy) ** 0.5:
        return s, y, sy, sy / yy
    return None


def two_loop(
    v: np.ndarray,
    pairs: Sequence[Pair],
    dot: Dot,
    initial: Callable[[np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """Multiply the inverse Hessian of L-BFGS by a vector, by the two-loop recursion.

    Parameters
    ----------
    v : ndarray of shape (n,)
        Flat tangent vector; the negative gradient gives the quasi-Newton direction.
    pairs : sequence of tuples
        Of :func:`secant_pair`, oldest first, all at the point of `v`. Without any the result is `v`, or ``initial(v)``.
    dot : callable
        Inner product of flat tangent vectors.
    initial : callable, optional
        Product with the matrix that the recursion begins with, up to a factor; the identity by default, and where
        ⟨y, initial(y)⟩ of the last pair is not positive. The factor is ⟨s, y⟩/⟨y, initial(y)⟩.

    Returns
    -------
    ndarray of shape (n,)
        A new array.

    References
    ----------
    Nocedal, Wright, "Numerical Optimization", 2006, algorithm 7.4.

    Examples
    --------
    On a product, with the gradient of a quadratic function of curvatures 4 and 2: after a step along each of the two
    axes the direction leads to the minimizer.

    >>> import numpy as np, manifoldseq as ms
    >>> M = ms.manifolds.Product(ms.manifolds.Euclidean(1), ms.manifolds.Euclidean(1))
    >>> problem = ms.Problem(M, lambda x: (2 * x[0] ** 2 + x[1] ** 2).sum())
    >>> at = ms.solvers.evaluate(problem, (np.array([1.0]), np.array([3.0])))
    >>> dot = ms.solvers.inner_product(problem, at.x)
    >>> axes = [(np.array([1.0, 0.0]), np.array([4.0, 0.0])), (np.array([0.0, 1.0]), np.array([0.0, 2.0]))]
    >>> ms.solvers.two_loop(-at.grad, [ms.solvers.secant_pair(s, y, dot) for s, y in axes], dot).tolist()
    [-1.0, -3.0]
    """
    if not pairs:
        return v.copy() if initial is None else initial(v)
    axpy = AXPY[v.dtype]
    q, n = v.copy(), v.size
    alphas = []
    # from the newest pair to the oldest: αᵢ = ⟨sᵢ, q⟩/⟨sᵢ, yᵢ⟩, q ← q − αᵢ yᵢ
    for s, y, sy, _ in reversed(pairs):
        alpha = dot(s, q) / sy
        alphas.append(alpha)
        axpy(y, q, n, -alpha)
    _, y, sy, scale = pairs[-1]
    # the first matrix γ P with ⟨y, γ P y⟩ = ⟨s, y⟩ for the newest pair
    curved = 0.0 if initial is None else dot(y, initial(y))
    if initial is not None and curved > 0:
        q = initial(q) * q.dtype.type(sy / curved)
    else:
        q *= scale
    # and back: q ← q + (αᵢ − ⟨yᵢ, q⟩/⟨sᵢ, yᵢ⟩) sᵢ
    for s, y, sy, _ in pairs:
        axpy(s, q, n, alphas.pop() - dot(y, q) / sy)
    return q


def _held(mask: Any) -> tuple[int, ...]:
    """Return the numbers of the coordinates that active bounds hold."""
    if mask is None:
        return ()
    free = flatten(mask)
    return () if free.all() else tuple(np.flatnonzero(~free).tolist())


def _release(pairs: tuple[Any, ...], held: list[int], dot: Dot) -> tuple[Any, ...]:
    """Return the pairs without some coordinates, and without those of them that lose their curvature."""
    if not held or not pairs:
        return pairs
    kept = []
    for s, y, *_ in pairs:
        s, y = s.copy(), y.copy()
        s[held] = y[held] = 0
        kept.append(secant_pair(s, y, dot))
    return tuple([pair for pair in kept if pair is not None])
