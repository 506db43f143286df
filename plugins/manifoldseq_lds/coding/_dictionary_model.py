"""Dictionary learning (9) as the model ``lds.dictionary``: its objective, and the updates of codes and atoms (10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.execution import cached_property

from ..systems._record import Systems
from ._atom_families import AtomFamily, AtomProblem, Leaves
from ._lasso import objective, positive_semidefinite, sparse_codes, subgradient

Array = NDArray[np.floating[Any]]
Point = tuple[Leaves, Array]
"""The atoms, and their codes of all data, (J, N)."""
Pair = tuple[Array, Array]

MODEL = "lds.dictionary"
_PATIENCE = 10
"""The maximum number of further updates of an atom with a higher objective than that of the datum, outside the bound of
(12), that it is to replace."""
_SPARSE = 0.7
"""An atom that is used by at most this fraction of the data is updated with these data only."""


@dataclass
class Epoch:
    """Quantities of one update of all atoms that are not part of a point.

    Attributes
    ----------
    scale : float
        The factor of step sizes.
    path : tuple of ndarray or None
        The atoms at which updates start, if some atoms violate the bound of (12). The update of the atoms replaces this
        value.
    spent : float
        The number of evaluated kernel values, which the update increases.
    """

    scale: float = 1.0
    path: Leaves | None = None
    spent: float = 0.0


@dataclass(frozen=True)
class DictionaryModel:
    """The data of (9), and the settings of its initializers.

    Parameters
    ----------
    family : AtomFamily
    systems, packed, self_values
        The data, the data in the packed form of the family, and k(x, x) of each.
    n_atoms : int
    atoms : Manifold
        The manifold of the atoms.
    alpha : float
    kernel, bound
        The settings of k-means.
    epoch : Epoch
    """

    family: AtomFamily
    systems: Systems
    packed: Any
    self_values: Array
    n_atoms: int
    atoms: ms.manifolds.Manifold
    alpha: float
    kernel: Any
    bound: float
    epoch: Epoch = field(default_factory=Epoch)

    def of(self, rows: Any, epoch: Epoch, shared: bool = False) -> DictionaryModel:
        """Return the model of the data in `rows`; its initializers still use all data.

        With `shared`, its kernel values are columns of the kernel matrix of this model and are not computed again.
        """
        made = replace(self, packed=self.packed[rows], self_values=self.self_values[rows], epoch=epoch)
        if shared:
            vars(made)["kernels"] = partial(_columns, self.kernels, rows)
        return made

    @cached_property
    def kernels(self) -> Callable[[Leaves], Pair]:
        """The function that returns the kernel matrices of atoms and data, see `kernels_of`."""
        return ms.objectives.last_point(partial(_kernels, self.family, self.packed))

    @cached_property
    def costs(self) -> Callable[[Point], Pair]:
        """The function from a point to each datum's squared distance to its reconstruction, and its penalty."""
        return ms.objectives.last_point(partial(_costs, self.kernels, self.self_values, self.alpha))

    def atom_problem(self, atoms: Leaves, Z: Array, overlap: Array, r: int) -> AtomProblem:
        """Return problem (10) of atom r: half of (9) with codes and other atoms fixed; `overlap` is ``Z Z' / N``."""
        N, used = Z.shape[1], np.flatnonzero(Z[r])
        packed, z = (self.packed[used], Z[r, used]) if len(used) <= _SPARSE * N else (self.packed, Z[r])
        # the weights in (10): -z_ir / N of datum i, sum_i z_ir z_ij / N of another atom j, and sum_i z_ir^2 / (2 N) of
        # k(D_r, D_r)
        gamma = overlap[r].copy()
        gamma[r] = 0.0
        return AtomProblem(packed, -z / N, self.family.pack_atoms(atoms), gamma, overlap[r, r] / 2)


def kernels_of(family: AtomFamily, packed_atoms: Any, packed: Any) -> Pair:
    """Return the kernel matrices of packed atoms, (J, J), and of atoms and data, (J, N)."""
    gram = family.cross(packed_atoms, packed_atoms)
    return positive_semidefinite((gram + gram.T) / 2), family.cross(packed_atoms, packed)


def _kernels(family: AtomFamily, packed: Any, atoms: Leaves) -> Pair:
    return kernels_of(family, family.pack_atoms(atoms), packed)


def _columns(kernels: Callable[[Leaves], Pair], rows: Any, atoms: Leaves) -> Pair:
    gram, cross = kernels(atoms)
    return gram, cross[:, rows]


def _costs(kernels: Callable[[Leaves], Pair], self_values: Array, alpha: float, point: Point) -> Pair:
    return objective(*kernels(point[0]), self_values, alpha, point[1])


# the parts of the model


def manifold(model: DictionaryModel) -> ms.manifolds.Product:
    """Return the product of the manifold of J atoms and the space of their codes."""
    codes = ms.manifolds.Euclidean(model.n_atoms, len(model.packed))
    return ms.manifolds.Product(model.atoms, codes, names=("atoms", "codes"))


def value(model: DictionaryModel, point: Point) -> float:
    """Return the objective (9)."""
    squared, penalty = model.costs(point)
    return float((squared + penalty).mean())


def value_and_gradient(model: DictionaryModel, point: Point) -> tuple[float, Point]:
    """Return the objective (9) and its gradient, for codes that are zero the subgradient of least norm."""
    (atoms, Z), N = point, point[1].shape[1]
    overlap, by_atom = Z @ Z.T / N, []
    for r in range(len(Z)):
        one = tuple(leaf[r] for leaf in atoms)
        by_atom.append(model.family.weighted(one, model.atom_problem(atoms, Z, overlap, r))[1])
    by_atoms = tuple(2 * np.stack(leaves) for leaves in zip(*by_atom, strict=True))
    return value(model, point), (by_atoms, subgradient(*model.kernels(atoms), model.alpha, Z) / N)


def codes(model: DictionaryModel, point: Point) -> Point:
    """Return the point with the sparse codes that minimize (9) for its atoms, by the Lasso."""
    return point[0], sparse_codes(*model.kernels(point[0]), model.alpha, start=point[1])


def atoms(model: DictionaryModel, point: Point) -> Point:
    """Return the point after one update of every atom that is used, with fixed codes.

    If `model.epoch.path` is given, updates start at its atoms, and an atom of the point is replaced only if the result
    is at least as good.
    """
    (found, Z), family, epoch = point, model.family, model.epoch
    overlap, path = Z @ Z.T / Z.shape[1], epoch.path
    for r in np.flatnonzero(Z.any(axis=1)).tolist():
        problem = model.atom_problem(found, Z, overlap, r)
        old = tuple(leaf[r] for leaf in found)
        start = old if path is None else tuple(leaf[r] for leaf in path)
        atom, calls = family.updated(start, problem, epoch.scale)
        if path is not None:
            better = family.better(atom, old, problem)
            for _ in range(_PATIENCE):  # an epoch that changes no atom would end the run
                if better is atom:
                    break
                atom, more = family.updated(atom, problem, epoch.scale)
                better, calls = family.better(atom, old, problem), calls + more
            path, atom = with_rows(path, r, atom), better
        found = with_rows(found, r, atom)
        epoch.spent += calls * (len(problem.packed) + len(Z) - 1)
    epoch.path = path
    return found, Z


def update_factors(model: DictionaryModel) -> dict[str, tuple[str, ...]]:
    """Return the factor that each update replaces."""
    return {"codes": ("codes",), "atoms": ("atoms",)}


def with_rows(atoms: Leaves, rows: Any, new: Leaves) -> Leaves:
    """Return atoms with some of them replaced."""
    copies = tuple(leaf.copy() for leaf in atoms)
    for leaf, part in zip(copies, new, strict=True):
        leaf[rows] = part
    return copies
