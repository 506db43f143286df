"""Dictionary learning (9) as a pure step: codes by the Lasso, atoms one after the other, dead atoms replaced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

from ..systems._record import Systems
from ._atom_families import AtomFamily, AtomProblem, Leaves
from ._lasso import objective, positive_semidefinite, sparse_codes, zero_codes

Array = NDArray[np.floating[Any]]
Rows = NDArray[np.intp]
State = dict[str, Any]

_PATIENCE = 10
"""Number of successive updates of an atom that is worse than a datum outside the bound of (12)."""
_SPARSE = 0.7
"""An atom that is used by at most this fraction of the data is updated with these data only."""


@dataclass(frozen=True)
class Coding:
    """Codes Z (J, N) of data, with each datum's squared distance to its reconstruction, and its penalty."""

    codes: Array
    squared: Array
    penalty: Array

    @property
    def mean(self) -> float:
        """The objective (9)."""
        return float((self.squared + self.penalty).mean())


def coding(
    family: AtomFamily, packed_atoms: Any, packed: Any, self_values: Array, alpha: float, start: Array | None = None
) -> Coding:
    """Return the sparse codes of packed data over packed atoms."""
    gram = family.cross(packed_atoms, packed_atoms)
    gram = positive_semidefinite((gram + gram.T) / 2)
    cross = family.cross(packed_atoms, packed)
    codes = sparse_codes(gram, cross, alpha, start=start)
    return Coding(codes, *objective(gram, cross, self_values, alpha, codes))


@dataclass(frozen=True)
class Learning:
    """The data of one dictionary-learning problem, with the steps that solve it.

    Parameters
    ----------
    family : AtomFamily
    systems, packed, self_values
        The data, the data in the packed form of the family, and k(x, x) of each.
    alpha : float
    batch : Batches
    halve_every : int, optional
        Epochs after which step sizes are halved.
    """

    family: AtomFamily
    systems: Systems
    packed: Any
    self_values: Array
    alpha: float
    batch: Batches
    halve_every: int | None

    def start(self, atoms: Leaves, rng: np.random.Generator, number: int = 0) -> tuple[State, ms.Measures]:
        """Return the initial state of the learning, the codes of all data in it, and its measures."""
        first = self.first_coding(atoms)
        state = {"start": number, "x": atoms, "codes": first.codes, "epoch": 0, "rng": rng.bit_generator.state}
        return self._with_path(state, None), self._measures(first, 0, 0.0)

    def first_coding(self, atoms: Leaves) -> Coding:
        """Return the codes of all data over the initial atoms; raise an error if all codes are zero."""
        made = self.coded(atoms, None)
        if not made.codes.any():
            raise zero_codes(self.alpha, self.family.cross(self.family.pack_atoms(atoms), self.packed))
        return made

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state after one epoch."""
        rng = np.random.default_rng()
        rng.bit_generator.state = state["rng"]
        scale = self.scale(state["epoch"])
        atoms, codes, path = state["x"], state["codes"], state.get("path")
        if self.batch.full:
            atoms, path, spent = self.update(atoms, self.packed, codes, scale, path)
            made, spent = self.coded(atoms, codes), spent / self.batch.n
            worst = np.arange(self.batch.n)
        else:
            atoms, made, worst, spent = self._batches(atoms, codes, scale, rng)
        dead = np.flatnonzero(~made.codes[:, np.isfinite(made.squared)].any(axis=1))
        if len(dead):
            atoms = self._replaced(atoms, dead, worst, made.squared[worst])
            near = self.family.within(atoms)
            if path is not None and near is not None:
                path = tuple(_with_rows(leaf, dead, new[dead]) for leaf, new in zip(path, near, strict=True))
            if self.batch.full:
                made = self.coded(atoms, made.codes)
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
        near = self.family.within(state["x"])
        return state if near is None else {**state, "path": near if path is None else path}

    def scale(self, epoch: int) -> float:
        """Return the factor of step sizes in an epoch."""
        return 1.0 if self.halve_every is None else 0.5 ** (epoch // self.halve_every)

    def update(
        self, atoms: Leaves, packed: Any, codes: Array, scale: float, path: Leaves | None = None
    ) -> tuple[Leaves, Leaves | None, float]:
        """Update every atom once with fixed codes (J, N); return the atoms and the number of evaluated kernel values.

        With a `path`, updates start at its atoms; an atom is kept as long as it is better than the result.
        """
        N, spent = len(packed), 0.0
        overlap = codes @ codes.T / N
        for r in range(len(codes)):
            used = np.flatnonzero(codes[r])
            if not len(used):
                continue
            part, z = (packed[used], codes[r, used]) if len(used) <= _SPARSE * N else (packed, codes[r])
            # (10): weights -z_ir / N of the data, sum_i z_ir z_ij / N of the other atoms, half of that of the atom
            # itself
            gamma = overlap[r].copy()
            gamma[r] = 0.0
            others = self.family.pack_atoms(atoms)
            problem = AtomProblem(part, -z / N, others, gamma, overlap[r, r] / 2)
            old = tuple(leaf[r] for leaf in atoms)
            start = old if path is None else tuple(leaf[r] for leaf in path)
            atom, calls = self.family.updated(start, problem, scale)
            if path is not None:
                better = self.family.better(atom, old, problem)
                for _ in range(_PATIENCE):  # an epoch that changes no atom ends the run
                    if better is atom:
                        break
                    atom, more = self.family.updated(atom, problem, scale)
                    better, calls = self.family.better(atom, old, problem), calls + more
                path = tuple(_with_rows(leaf, r, new) for leaf, new in zip(path, atom, strict=True))
                atom = better
            atoms = tuple(_with_rows(leaf, r, new) for leaf, new in zip(atoms, atom, strict=True))
            spent += calls * (len(part) + len(codes) - 1)
        return atoms, path, spent

    def _batches(
        self, atoms: Leaves, codes: Array, scale: float, rng: np.random.Generator
    ) -> tuple[Leaves, Coding, Rows, float]:
        """Code and update with one mini-batch after the other; measures refer to each batch before its update."""
        codes = codes.copy()
        n = self.batch.n
        squared, penalty, spent, rows = np.full(n, np.nan), np.full(n, np.nan), 0.0, np.arange(0)
        for rows in self.batch.epoch(rng):
            batch = self.packed[rows]
            made = coding(
                self.family, self.family.pack_atoms(atoms), batch, self.self_values[rows], self.alpha, codes[:, rows]
            )
            codes[:, rows], squared[rows], penalty[rows] = made.codes, made.squared, made.penalty
            atoms, _, calls = self.update(atoms, batch, made.codes, scale)
            spent += calls / n
        return atoms, Coding(codes, squared, penalty), rows, spent

    def coded(self, atoms: Leaves, start: Array | None) -> Coding:
        """Return the codes of all data."""
        packed = self.family.pack_atoms(atoms)
        return coding(self.family, packed, self.packed, self.self_values, self.alpha, start)

    def _replaced(self, atoms: Leaves, dead: Rows, rows: Rows, squared: Array) -> Leaves:
        """Replace atoms that no datum uses by the data with the largest errors."""
        order = rows[np.argsort(-squared, kind="stable")][: len(dead)]
        for r, row in zip(dead, order, strict=False):
            new = self.family.chosen(self.systems[[row]])
            atoms = tuple(_with_rows(leaf, int(r), part[0]) for leaf, part in zip(atoms, new, strict=True))
        return atoms

    def _measures(self, made: Coding, dead: int, spent: float) -> ms.Measures:
        seen = np.isfinite(made.squared)
        squared, penalty = made.squared[seen], made.penalty[seen]
        return ms.Measures(
            fun=float((squared + penalty).mean()),
            evaluations=ms.Evaluations(spent, spent),
            extra={
                "error": float(squared.mean()),
                "cost": float((squared - self.self_values[seen]).mean()),
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
    """Return rows of a mini-batch: random groups, then random data of each (all data of smaller groups).

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


def _with_rows(leaf: Array, rows: Any, new: Array) -> Array:
    leaf = leaf.copy()
    leaf[rows] = new
    return leaf
