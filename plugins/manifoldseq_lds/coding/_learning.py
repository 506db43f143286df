"""Dictionary learning (9): an epoch updates atoms and codes, on all data or mini-batches, and replaces unused atoms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

from ..systems._record import Systems
from ._atom_families import AtomFamily, Leaves
from ._dictionary_model import DictionaryModel, Epoch, Point, kernels_of, with_rows
from ._lasso import objective, sparse_codes, zero_codes

Array = NDArray[np.floating[Any]]
Rows = NDArray[np.intp]
State = dict[str, Any]


@dataclass(frozen=True)
class Coding:
    """Codes Z (J, N) of data, with each datum's squared distance to its reconstruction, and the objective (9)."""

    codes: Array
    squared: Array
    fun: float


def coding(family: AtomFamily, packed_atoms: Any, packed: Any, alpha: float) -> Coding:
    """Return the sparse codes of packed data over packed atoms."""
    gram, cross = kernels_of(family, packed_atoms, packed)
    codes = sparse_codes(gram, cross, alpha)
    squared, penalty = objective(gram, cross, family.diag(packed), alpha, codes)
    return Coding(codes, squared, float((squared + penalty).mean()))


def coded(problem: ms.Problem, atoms: Leaves, start: Array | None = None) -> Coding:
    """Return the codes of the data of a problem, by the update ``codes`` of the model ``lds.dictionary``."""
    model = problem.data.model
    start = np.zeros((model.n_atoms, len(model.packed))) if start is None else start
    point = atoms, _update(problem, "codes")((atoms, start))[1]
    return Coding(point[1], model.costs(point)[0], problem.objective.value(point))


def updated(problem: ms.Problem, point: Point) -> Leaves:
    """Return the atoms after one pass of the update ``atoms`` of the registered model, with fixed codes."""
    return _update(problem, "atoms")(point)[0]


def _update(problem: ms.Problem, name: str) -> Any:
    return next(update.apply for update in problem.objective.updates if update.name == name)


@dataclass(frozen=True)
class Learning:
    """One dictionary-learning problem and its epochs, which apply the updates of the registered model.

    Parameters
    ----------
    problem : Problem
        The problem of the model ``lds.dictionary``.
    batch : Batches
    halve_every : int, optional
        Epochs after which step sizes are halved.
    """

    problem: ms.Problem
    batch: Batches
    halve_every: int | None

    @property
    def model(self) -> DictionaryModel:
        """The model of all data."""
        return self.problem.data.model

    def start(self, init: str | Systems, rng: np.random.Generator, number: int) -> tuple[State, ms.Measures]:
        """Return the initial state of the learning, the codes of all data in it, and its measures."""
        atoms, first = self.begun(init, rng)
        state = {"start": number, "x": atoms, "codes": first.codes, "epoch": 0, "rng": rng.bit_generator.state}
        return self._with_path(state, None), self._measures(first, 0, 0.0)

    def begun(self, init: str | Systems, rng: np.random.Generator) -> tuple[Leaves, Coding]:
        """Return initial atoms and the codes of all data; raise an error if all codes are zero."""
        given = isinstance(init, Systems)
        atoms = self.model.family.chosen(init) if given else self.problem.initializers[init](self.problem, rng)[0]
        made = coded(self.problem, atoms)
        if not made.codes.any():
            raise zero_codes(self.model.alpha, self.model.kernels(atoms)[1])
        return atoms, made

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state after one epoch."""
        rng = np.random.default_rng()
        rng.bit_generator.state = state["rng"]
        scale = 1.0 if self.halve_every is None else 0.5 ** (state["epoch"] // self.halve_every)
        atoms, codes, path = state["x"], state["codes"], state.get("path")
        if self.batch.full:
            epoch = Epoch(scale, path)
            atoms = updated(self._problem(replace(self.model, epoch=epoch)), (atoms, codes))
            made, path, spent = coded(self.problem, atoms, codes), epoch.path, epoch.spent / self.batch.n
            worst = np.arange(self.batch.n)
        else:
            atoms, made, worst, spent = self._batches(atoms, codes, scale, rng)
        dead = np.flatnonzero(~made.codes[:, np.isfinite(made.squared)].any(axis=1))
        if len(dead):
            order = worst[np.argsort(-made.squared[worst], kind="stable")][: len(dead)]
            replaced = dead[: len(order)]
            atoms = with_rows(atoms, replaced, self.model.family.chosen(self.model.systems[order]))
            near = self.model.family.within(atoms)
            if path is not None and near is not None:
                path = with_rows(path, dead, tuple(new[dead] for new in near))
            if self.batch.full:
                made = coded(self.problem, atoms, made.codes)
        state = {
            "start": state["start"],
            "x": atoms,
            "codes": made.codes,
            "epoch": state["epoch"] + 1,
            "rng": rng.bit_generator.state,
        }
        return self._with_path(state, path), self._measures(made, len(dead), spent)

    def _with_path(self, state: State, path: Leaves | None) -> State:
        """Return a state with the starting points of the next updates, if they differ from the atoms."""
        near = self.model.family.within(state["x"])
        return state if near is None else {**state, "path": near if path is None else path}

    def _problem(self, model: DictionaryModel) -> ms.Problem:
        """Return the problem of a model: of a mini-batch, or of all data with the quantities of an epoch."""
        return self.problem.data.spec.problem(ms.Prepared(model))

    def _batches(
        self, atoms: Leaves, codes: Array, scale: float, rng: np.random.Generator
    ) -> tuple[Leaves, Coding, Rows, float]:
        """Code and update with one mini-batch after the other; measures refer to each batch before its update."""
        n, codes = self.batch.n, codes.copy()
        squared, total, spent, batches, last = np.full(n, np.nan), 0.0, 0.0, [*self.batch.epoch(rng)], np.full(n, -1)
        for i, rows in enumerate(batches):
            last[rows] = i
        for i, rows in enumerate(batches):
            epoch = Epoch(scale)
            batch = self._problem(self.model.of(rows, epoch))
            made = coded(batch, atoms, codes[:, rows])
            codes[:, rows], squared[rows] = made.codes, made.squared
            # each datum contributes to the objective once: in the last batch that contains it
            final = last[rows] == i
            if final.all():
                total += len(rows) * made.fun
            elif final.any():
                part = self._problem(batch.data.model.of(final, epoch, shared=True))
                total += final.sum() * part.objective.value((atoms, made.codes[:, final]))
            atoms = updated(batch, (atoms, made.codes))
            spent += epoch.spent / n
        return atoms, Coding(codes, squared, total / np.isfinite(squared).sum()), batches[-1], spent

    def _measures(self, made: Coding, dead: int, spent: float) -> ms.Measures:
        seen = np.isfinite(made.squared)
        squared = made.squared[seen]
        return ms.Measures(
            fun=made.fun,
            evaluations=ms.Evaluations(spent, spent),
            extra={
                "error": float(squared.mean()),
                "cost": float((squared - self.model.self_values[seen]).mean()),
                "nonzero": float((made.codes != 0).mean()),
                "replaced": float(dead),
            },
        )


@dataclass(frozen=True)
class Batches:
    """The data of each update.

    Parameters
    ----------
    n : int
        Number of data.
    size : int or (int, int) or None
        None: all data. A number: consecutive parts of a random order. A pair: the number of random groups of each
        update and the number of random data of each group, as in the hierarchical sampler of the paper (20 videos, 4
        blocks of each).
    groups : array of int of shape (N,), optional
        The group (video) of each datum.
    """

    n: int
    size: int | tuple[int, int] | None
    groups: Rows | None

    @property
    def full(self) -> bool:
        """Whether every update uses all data."""
        return self.size is None or (not isinstance(self.size, tuple) and self.size >= self.n)

    def epoch(self, rng: np.random.Generator) -> Iterator[Rows]:
        """Yield the rows of each mini-batch of one epoch, with about as many rows in total as there are data."""
        if isinstance(self.size, tuple):
            assert self.groups is not None
            per_batch = min(self.size[0], len(np.unique(self.groups))) * self.size[1]
            for _ in range(max(1, round(self.n / per_batch))):
                yield hierarchical_batch(self.groups, *self.size, rng)
            return
        order = rng.permutation(self.n)
        assert self.size is not None
        parts = max(1, round(self.n / self.size))
        yield from np.array_split(order, parts)


def hierarchical_batch(groups: Rows, n_groups: int, n_each: int, rng: np.random.Generator) -> Rows:
    """Return the rows of a mini-batch: random data of random groups (all data of groups with fewer than `n_each`).

    Parameters
    ----------
    groups : array of int of shape (N,)
        The video of each block.
    n_groups, n_each : int
        Number of groups and of data of each group; the experiments of the paper use 20 and 4.
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np
    >>> rows = hierarchical_batch(np.repeat(np.arange(30), 10), 20, 4, np.random.default_rng(0))
    >>> len(rows), len(np.unique(rows // 10))
    (80, 20)
    """
    groups = np.asarray(groups)
    names = np.unique(groups)
    if min(len(names), n_groups, n_each) < 1:
        raise ValueError(
            f"a batch of {n_groups} groups with {n_each} data each, out of {len(names)} groups, is not valid: all "
            "numbers must be at least 1"
        )
    drawn = rng.choice(names, size=min(n_groups, len(names)), replace=False)
    parts = []
    for name in drawn:
        members = np.flatnonzero(groups == name)
        parts.append(rng.choice(members, size=min(n_each, len(members)), replace=False))
    return np.concatenate(parts)
