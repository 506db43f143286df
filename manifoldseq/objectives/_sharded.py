"""Objectives that are sums over shards of data; recipes load the shards where they are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._result import Tree
from ..execution import Shards
from ..execution._executors import added
from ..linalg import tree_map
from ._objective import FiniteTerms, Objective, number


def sharded(make_objective: Callable[[Any], Objective], recipes: Sequence[Callable[[], Any]]) -> Objective:
    """Build the sum of one objective per shard of the data.

    ``make_objective(recipe())`` runs once per shard, in the process in which the executor of the context computes, and
    the objective stays there: on a worker under ``using("dask", …)``, otherwise in this process. For every evaluation
    the point is sent to the shards, and every shard returns a value and a gradient. The values and gradients are added
    in float64 in the order of the recipes, so that the result is bit-identical on every executor. If a worker dies,
    another worker runs its recipes again.

    Parameters
    ----------
    make_objective : callable
        ``make_objective(data) -> Objective``.
    recipes : sequence of callables
        ``recipe() -> data``, one per shard, with a small pickle and the same data at every call, such as
        ``functools.partial(numpy.load, path, mmap_mode="r")``. On a cluster, the path must be valid on the worker.

    Returns
    -------
    Objective
        An objective with the functions ``value_and_gradient``, ``hessian_product`` and ``terms``, as far as every shard
        has them. The terms are numbered across the shards, and a batch evaluates only the shards of its terms.

    Raises
    ------
    TypeError
        If a recipe is not callable or `make_objective` returns something else.
    ValueError
        If there are no recipes.

    Notes
    -----
    The shards are loaded in this call, to find out which functions they have. Call it inside the ``using`` block whose
    executor holds them; otherwise they are loaded twice. In one process all shards are in memory together (unless they
    are memory maps). If the starts of one :func:`manifoldseq.minimize` run on several workers, each start loads every
    shard.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, manifoldseq as ms
    >>> def squares(data):
    ...     return ms.objective(lambda x: ((x - data) ** 2).sum(), lambda x: 2 * (x - data).sum(axis=0))
    >>> f = ms.sharded(squares, [partial(np.full, (2, 3), 1.0), partial(np.full, (5, 3), 2.0)])
    >>> value, gradient = f.value_and_gradient(np.zeros(3))
    >>> value, gradient.tolist()
    (66.0, [-24.0, -24.0, -24.0])
    """
    if not callable(make_objective):
        raise TypeError(
            f"make_objective={make_objective!r} is not a function: pass a function that "
            "takes the data of a shard and returns an Objective"
        )
    checked = Shards(recipes).recipes
    shards = Shards([partial(_load, make_objective, recipe) for recipe in checked])
    parts = [_Part(number) for number in range(len(shards))]
    fused, products, sizes = zip(*shards.map(_abilities, [(part.shard, None) for part in parts]), strict=True)
    whole = _sum(shards, parts, all(fused), all(products))
    if None in sizes:
        return whole
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    terms = FiniteTerms(int(offsets[-1]), partial(_batch, shards, offsets, all(fused), all(products)))
    return replace(whole, terms=terms)


class _Part(NamedTuple):
    """The requested part of a shard: all terms, or some terms with a weight."""

    shard: int
    indices: np.ndarray | None = None
    weight: float = 1.0


def _load(make_objective: Callable[[Any], Objective], recipe: Callable[[], Any]) -> Objective:
    made = make_objective(recipe())
    if not isinstance(made, Objective):
        raise TypeError(f"make_objective returned {type(made).__name__}: it must return an Objective, see ms.objective")
    if made.riemannian:
        raise ValueError(
            "make_objective returned Riemannian derivatives: return Euclidean derivatives, which sums over shards need"
        )
    return made


def _abilities(objective: Objective, _: None) -> tuple[bool, bool, int | None]:
    terms = objective.terms
    return bool(objective.value_and_gradient), bool(objective.hessian_product), terms.n if terms else None


def _sum(shards: Shards[Objective], parts: list[_Part], fused: bool, products: bool) -> Objective:
    return Objective(
        partial(_value, shards, parts),
        partial(_pair, shards, parts) if fused else None,
        partial(_product, shards, parts) if products else None,
        costly_hessian=True,
    )


def _value(shards: Shards[Objective], parts: list[_Part], x: Tree) -> float:
    return added([number(value) for value in _asked(shards, parts, "value", x)])


def _pair(shards: Shards[Objective], parts: list[_Part], x: Tree) -> tuple[float, Tree]:
    values, gradients = zip(*_asked(shards, parts, "value_and_gradient", x), strict=True)
    return added([number(value) for value in values]), _added_like(x, gradients)


def _product(shards: Shards[Objective], parts: list[_Part], x: Tree, u: Tree) -> Tree:
    return _added_like(x, _asked(shards, parts, "hessian_product", x, u))


def _batch(
    shards: Shards[Objective], offsets: np.ndarray, fused: bool, products: bool, indices: np.ndarray
) -> Objective:
    """Return the objective of some terms, from the shards that contain them.

    A batch of a shard represents all of its terms; weighted by its fraction of them, it is the sum over the indices.
    """
    indices = np.asarray(indices)
    owners = np.searchsorted(offsets, indices, side="right") - 1
    parts = []
    for shard in np.unique(owners):
        local = indices[owners == shard] - offsets[shard]
        share = len(local) / (offsets[shard + 1] - offsets[shard])
        parts.append(_Part(int(shard), local, float(share * offsets[-1] / len(indices))))
    return _sum(shards, parts, fused, products)


def _asked(shards: Shards[Objective], parts: list[_Part], name: str, *points: Tree) -> list[Any]:
    return shards.map(_answer, [(part.shard, (part, name, points)) for part in parts])


def _answer(objective: Objective, question: tuple[_Part, str, tuple[Tree, ...]]) -> Any:
    part, name, points = question
    if part.indices is not None:
        assert objective.terms is not None
        objective = part.weight * objective.terms.batch(part.indices)
    return getattr(objective, name)(*points)


def _added_like(x: Tree, trees: Sequence[Tree]) -> Tree:
    """Return the sum of gradients in float64, in the structure and dtype of the point."""
    wide = [tree_map(lambda _, leaf: np.asarray(leaf, np.float64), x, tree) for tree in trees]
    return tree_map(lambda leaf, total: total.astype(leaf.dtype), x, added(wide))
