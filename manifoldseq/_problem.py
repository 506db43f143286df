"""The optimization problem: a manifold, an objective and initializers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import numpy as np

from ._residual_system import on_manifold
from ._result import Point
from ._riemannian import euclidean
from .interop import from_pymanopt, to_pymanopt
from .interop._from_pymanopt import hessian_direction
from .interop._objective import Positional, of_pymanopt
from .interop._pymanopt import pymanopt
from .linalg import ONE
from .manifolds import Factored, Frozen, Manifold, Product, leaf_shapes
from .objectives import Constraint, Objective, constraint, is_of_scipy, objective, of_scipy

Constraints = Any
"""A function of the point, an Objective, a Constraint, scipy's LinearConstraint or Bounds, or a sequence of these."""

Initializer = Callable[["Problem[Any]", np.random.Generator], Any]


@dataclass(frozen=True)
class Problem(Generic[Point]):
    """Minimize an objective over a manifold.

    Parameters
    ----------
    manifold : Manifold
    objective : Objective or callable
        A cost ``(point) -> float``, the return value of :func:`manifoldseq.objective` (for Hessian products, Riemannian
        derivatives, other backends and batches), or a model.
    initializers : mapping of str to callable
        ``(problem, rng) -> point``; the first is the default start.
    equalities, inequalities : callable, Objective, Constraint, or list of these
        Constraints h = 0 and g ≤ 0 in addition to the manifold, for solvers that support them: one or several functions
        of the point that return a number or an array of any shape. They are differentiated by autograd, unless
        :func:`manifoldseq.constraint` was given their derivative. ``scipy.optimize.LinearConstraint`` and ``Bounds``
        refer to the flat point (all entries in the order of the factors). Entries with equal bounds become equalities,
        and the other entries become inequalities, with the upper bounds first, regardless of the argument.
    gradient : callable, optional
        ``gradient(point)``, the Euclidean gradient of a cost, in the structure of the point. Without it the cost is
        differentiated by autograd and must be written with ``autograd.numpy``.
    data : object, optional
        The data that the initializers read. For a registered model, this is the `Prepared` record of the model.
    solver : str
        Name of the solver that ``solver="auto"`` chooses if the objective has the functions that this solver needs; ""
        if there is no such solver.

    Attributes
    ----------
    objective : Objective
        The objective with Euclidean derivatives. Riemannian derivatives are converted.
    equalities, inequalities : tuple of Objective or Constraint

    Raises
    ------
    TypeError
        If an argument has another type, or a gradient is given together with an Objective.
    ValueError
        If derivatives are Riemannian and the manifold cannot convert them to Euclidean derivatives
        (``euclidean_gradient``).

    Examples
    --------
    The leading eigenvector of a symmetric matrix:

    >>> import numpy as np, manifoldseq as ms
    >>> A = np.diag([3.0, 1.0, 0.0])
    >>> problem = ms.Problem(ms.manifolds.Sphere(3), lambda x: -x @ A @ x, gradient=lambda x: -2 * A @ x)
    >>> round(ms.minimize(problem, seed=0).fun, 8)
    -3.0
    """

    manifold: Manifold[Point]
    objective: Objective
    initializers: Mapping[str, Initializer] = field(default_factory=dict)
    equalities: tuple[Objective | Constraint, ...] = ()
    inequalities: tuple[Objective | Constraint, ...] = ()
    data: Any = field(default=None, kw_only=True)
    solver: str = field(default="", kw_only=True)
    gradient: InitVar[Callable[[Any], Any] | None] = field(default=None, kw_only=True)
    axis: ClassVar[Any] = ONE  # or ROWS; "Any" because scalars are floats with one and arrays with the other

    if TYPE_CHECKING:

        def __init__(
            self,
            manifold: Manifold[Point],
            objective: Objective | Callable[[Point], Any],
            initializers: Mapping[str, Initializer] = ...,
            equalities: Constraints = ...,
            inequalities: Constraints = ...,
            *,
            gradient: Callable[[Point], Any] | None = ...,
            data: Any = ...,
            solver: str = ...,
        ) -> None: ...

    def __post_init__(self, gradient: Callable[[Any], Any] | None) -> None:
        if not isinstance(self.manifold, Manifold):
            raise TypeError(
                f"Problem(manifold=…) must be a manifold such as ms.manifolds.Stiefel(5, 2), got {self.manifold!r}"
            )
        if not isinstance(self.objective, Objective):
            if not callable(self.objective):
                raise TypeError(f"Problem(objective=…) must be a function of the point, got {self.objective!r}")
            if gradient is not None and not callable(gradient):
                raise TypeError(f"Problem(gradient=…) must be a function of the point, got {gradient!r}")
            object.__setattr__(self, "objective", objective(self.objective, gradient))
        elif gradient is not None:
            raise TypeError(
                "Problem(gradient=…) is for a cost, but the objective is an Objective with its own gradient: leave out "
                "gradient=…"
            )
        for name, made in self._constraints().items():
            object.__setattr__(self, name, tuple(made))
        object.__setattr__(self, "objective", on_manifold(self.manifold, euclidean(self.manifold, self.objective)))
        if not isinstance(self.initializers, Mapping):
            raise TypeError(f"Problem(initializers=…) must map names to functions, got {self.initializers!r}")
        for name, initializer in self.initializers.items():
            if not callable(initializer):
                raise TypeError(
                    f"the initializer {name!r} must be a function (problem, rng) -> point, got {initializer!r}"
                )

    def _constraints(self) -> dict[str, list[Objective | Constraint]]:
        """Return the given constraints, one function or several; constraints of scipy may be of both kinds."""
        made: dict[str, list[Any]] = {"equalities": [], "inequalities": []}
        for name, all_of_a_kind in made.items():
            given = getattr(self, name)
            for one in given if isinstance(given, tuple | list) else (given,):
                if is_of_scipy(one):
                    size = sum(map(math.prod, leaf_shapes(self.manifold.shape)))
                    equal, unequal = of_scipy(one, size)
                    made["equalities"] += equal
                    made["inequalities"] += unequal
                elif isinstance(one, Objective):
                    all_of_a_kind.append(euclidean(self.manifold, one))
                elif isinstance(one, Constraint) or callable(one):
                    all_of_a_kind.append(one if isinstance(one, Constraint) else constraint(one))
                else:
                    raise TypeError(
                        f"Problem({name}=…) must be a function, an Objective, an ms.constraint(…), scipy's "
                        f"LinearConstraint or Bounds, or a tuple or list of them, got {one!r}"
                    )
        return made

    def __repr__(self) -> str:
        constraints = [("equality", "equalities", self.equalities), ("inequality", "inequalities", self.inequalities)]
        counts = [f"{len(c)} {one if len(c) == 1 else many}" for one, many, c in constraints if c]
        starts = [f"starts {', '.join(self.initializers)}"] if self.initializers else []
        return f"Problem({'; '.join([repr(self.manifold), repr(self.objective), *counts, *starts])})"

    @classmethod
    def from_pymanopt(cls, problem: Any) -> Problem[Any]:
        """Return the problem of a ``pymanopt.Problem``.

        Parameters
        ----------
        problem : pymanopt.Problem
            The cost can use any backend. The Euclidean gradient and Hessian are used if they are given, or if the
            backend differentiates the cost. A preconditioner and a Riemannian Hessian are ignored.

        Returns
        -------
        Problem
            A problem over ``from_pymanopt(problem.manifold)``. Points that are lists in pymanopt become tuples.

        Raises
        ------
        TypeError
            If the argument is not such a problem, or if its manifold is not supported, see
            :func:`manifoldseq.from_pymanopt`.
        ValueError
            If the problem has only a Riemannian gradient and the metric is not the embedded metric.

        Examples
        --------
        >>> import autograd.numpy as np, pymanopt, manifoldseq as ms
        >>> sphere = pymanopt.manifolds.Sphere(3)
        >>> @pymanopt.function.autograd(sphere)
        ... def cost(x):
        ...     return np.sum(np.array([3.0, 2.0, 1.0]) * x**2)
        >>> problem = ms.Problem.from_pymanopt(pymanopt.Problem(sphere, cost))
        >>> round(ms.minimize(problem, seed=0).fun, 8)
        1.0
        """
        if not isinstance(problem, pymanopt().Problem):
            raise TypeError(f"Problem.from_pymanopt needs a pymanopt.Problem, got {type(problem).__name__}")
        theirs, manifold = problem.manifold, from_pymanopt(problem.manifold)
        x = manifold.random_point(np.random.default_rng(0))
        flat = isinstance(theirs.point_layout, int) and isinstance(x, tuple)
        direction = partial(hessian_direction, theirs)
        return cls(manifold, of_pymanopt(problem, manifold.hessian is not None, direction, flat))

    def to_pymanopt(self) -> Any:
        """Return the ``pymanopt.Problem`` for an optimizer of pymanopt.

        The cost takes the arrays of all factors as arguments, see :func:`manifoldseq.to_pymanopt`. Values and
        derivatives at the last point are cached.

        Returns
        -------
        pymanopt.Problem

        Raises
        ------
        ValueError
            If the problem has constraints.

        Examples
        --------
        >>> import numpy as np, pymanopt, manifoldseq as ms
        >>> f = ms.objective(lambda x: np.sum((x - 2) ** 2), lambda x: 2 * (x - 2))
        >>> problem = ms.Problem(ms.manifolds.Sphere(4), f)
        >>> descent = pymanopt.optimizers.SteepestDescent(verbosity=0)
        >>> descent.run(problem.to_pymanopt()).point.round(4).tolist()
        [0.5, 0.5, 0.5, 0.5]
        """
        if self.equalities or self.inequalities:
            raise ValueError("pymanopt does not support constraints: add a penalty to the objective")
        theirs, f = to_pymanopt(self.manifold), self.objective
        asked, wrap = Positional(f, theirs.tree), pymanopt().function.numpy(theirs)
        return pymanopt().Problem(
            theirs,
            wrap(lambda *parts: asked.cost(parts)),
            euclidean_gradient=wrap(lambda *parts: asked.gradient(parts)) if f.value_and_gradient else None,
            euclidean_hessian=wrap(lambda *parts: asked.hessian_product(parts)) if f.hessian_product else None,
        )

    def freeze(self, *names: str) -> Problem[Any]:
        """Return the problem over the remaining factors: the named factors keep the arrays of the start.

        Parameters
        ----------
        *names : str
            Names of factors of the manifold, which is a product.

        Returns
        -------
        Problem
            A problem over a product with :class:`manifoldseq.manifolds.Frozen` factors. Block updates that would
            replace a frozen factor are dropped.

        Raises
        ------
        ValueError
            If the manifold has no factors, or no factor of that name.

        Examples
        --------
        >>> import numpy as np, manifoldseq as ms
        >>> M = ms.manifolds.Product(ms.manifolds.Euclidean(1), ms.manifolds.Euclidean(1), names=("a", "b"))
        >>> problem = ms.Problem(M, ms.objective(lambda x: ((x[0] - 2 * x[1]) ** 2).sum()))
        >>> ms.minimize(problem.freeze("b"), ([0.0], [3.0])).x
        (array([6.]), array([3.]))
        """
        manifold = self.manifold
        known = (manifold.names or ()) if isinstance(manifold, Factored) else ()
        for name in names:
            if name not in known:
                listed = f"its factors are {', '.join(map(repr, known))}" if known else "it is not a product"
                raise ValueError(f"{manifold!r} has no factor {name!r} to freeze: {listed}")
        if not names:
            return self
        assert isinstance(manifold, Factored)
        factors = zip(known, manifold.factors, strict=True)
        frozen = [Frozen(factor) if name in names else factor for name, factor in factors]
        updates = tuple(u for u in self.objective.updates if not set(u.factors or known) & set(names))
        additive = self.objective.additive
        if additive is not None:
            damped, plain = (
                tuple(u for u in some if not set(u.factors or known) & set(names))
                for some in (additive.damped, additive.plain)
            )
            additive = replace(additive, damped=damped, plain=plain)
        return replace(
            self,
            manifold=Product(*frozen, names=known),
            objective=replace(self.objective, updates=updates, additive=additive),
            initializers={name: partial(_started, self, start) for name, start in self.initializers.items()},
        )


def _started(original: Problem, initializer: Initializer, problem: Problem, rng: np.random.Generator) -> Any:
    """Return the start of an initializer for the problem for which the initializer was written."""
    return initializer(original, rng)
