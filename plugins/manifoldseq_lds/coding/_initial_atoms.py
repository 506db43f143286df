"""Initial atoms of a dictionary: random data, medoids of random groups, or centres of k-means."""

from functools import partial
from typing import Any

import numpy as np

import manifoldseq as ms
from manifoldseq.estimators import uninterrupted
from manifoldseq.models import Stages

from ..clustering._kmeans import LDSKMeans
from ..means._mean import medoid_row
from ..systems._record import Systems
from ._atom_families import StableAtoms
from ._dictionary_model import Point

INITS = ("random", "medoid", "k-means")


def starting_systems(
    init: str,
    n_atoms: int,
    systems: Systems,
    compared: Any,
    packed: Any,
    *,
    kernel: Any,
    bound: float,
    rng: Any,
    mean: str = "exact",
    stages: Stages | None = None,
) -> Systems:
    """Return the initial systems of dictionary learning.

    Parameters
    ----------
    init : {"random", "medoid", "k-means"}
    n_atoms : int
    systems : Systems
        The data.
    compared, packed
        An object with the methods ``cross`` and ``diag`` for the comparison of data, and the data in its packed form.
    kernel, bound, mean
        Parameters of `LDSKMeans`, which runs five epochs for ``"k-means"``.
    rng : numpy.random.Generator
    stages : Stages, optional
        The stages of the fit, of which k-means is a part.
    """
    if init == "random":
        return systems[rng.choice(len(systems), size=n_atoms, replace=False)]
    if init == "medoid":
        labels = rng.permutation(len(systems)) % n_atoms
        groups = [np.flatnonzero(labels == k) for k in range(n_atoms)]
        return systems[[int(rows[medoid_row(compared, packed[rows])]) for rows in groups]]
    seed = int(rng.integers(2**31))
    clustering = LDSKMeans(n_atoms, kernel=kernel, mean=mean, n_init=1, max_iter=5, bound=bound, random_state=seed)
    clustering._fit_quietly(systems, **(stages or Stages()).part())
    return uninterrupted(clustering).systems_


def _start(init: str, problem: ms.Problem, rng: np.random.Generator) -> Point:
    """Return initial atoms of the model ``lds.dictionary``, with codes of zeros."""
    model = problem.data.model
    settings = {"kernel": model.kernel, "bound": model.bound, "rng": rng}
    settings["mean"] = "exact" if isinstance(model.family, StableAtoms) else "canonical"
    systems = starting_systems(init, model.n_atoms, model.systems, model.family, model.packed, **settings)
    return model.family.chosen(systems), np.zeros((model.n_atoms, len(model.packed)))


random, medoid, k_means = (partial(_start, init) for init in INITS)
