"""What `LDSKMeans` checks before it begins: its settings, its start, and the mark of its checkpoints."""

import dataclasses
import re
from hashlib import sha256
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import manifoldseq as ms
from manifoldseq.estimators import seed_fingerprint

from ._centres import resolved_rule
from ._clustering import Clustering
from ._sequence_input import identifier_of
from ._settings import check_solver, check_switches, check_whole, resolved_kernel
from ._systems import Systems

if TYPE_CHECKING:
    from ._kmeans import LDSKMeans

INITS = ("k-means++", "medoid")


def check_parameters(estimator: "LDSKMeans") -> None:
    """Refuse an invalid parameter."""
    check_whole(estimator, "n_clusters", "n_init", "max_iter", "inner_iter")
    identifier_of(estimator).check_settings()
    resolved_kernel(estimator.kernel)
    check_switches(estimator, "relocate")
    if estimator.solver != "auto":
        check_solver(estimator.solver)
    resolved_rule(estimator.mean)
    if isinstance(estimator.init, str) and estimator.init not in INITS:
        raise ValueError(
            f"init={estimator.init!r} is not known: choose {', '.join(map(repr, INITS))}, labels or Systems"
        )
    if not isinstance(estimator.tol, Real) or not estimator.tol >= 0:
        raise ValueError(f"tol={estimator.tol!r} is not valid: pass a number of at least 0")


def checked_init(init: Any, systems: Systems, n_clusters: int) -> Any:
    """Return the name, labels or systems to start from."""
    N, K = len(systems), n_clusters
    if N < K:
        raise ValueError(f"X has {N} sequences for n_clusters={K}: pass more sequences or lower n_clusters")
    if isinstance(init, str):
        return init
    if isinstance(init, Systems):
        size = (K, systems.n_outputs, systems.n_states)
        if init.C.shape != size:
            raise ValueError(f"init has C of shape {init.C.shape}: pass {K} systems, C of shape {size}")
        return init
    labels = np.asarray(init)
    if labels.shape != (N,) or labels.dtype.kind not in "iu":
        raise ValueError(f"init must be {INITS[0]!r}, {INITS[1]!r}, {K} Systems, or one whole number per sequence")
    if set(np.unique(labels)) != set(range(K)):
        raise ValueError(f"init must assign a sequence to each of the clusters 0 to {K - 1}, and to no other")
    return labels.astype(np.int64)


def marked_store(
    estimator: "LDSKMeans", checkpoint: Any, clustering: Clustering, init: Any
) -> ms.storage.Checkpoint | None:
    """Return the checkpoint, marked with what a state depends on: data and settings, not the stopping rule."""
    if checkpoint is None:
        return None
    store = ms.storage.Checkpoint(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    if store.fingerprint is not None:
        return store
    digest = sha256()
    for record in (clustering.systems, init) if isinstance(init, Systems) else (clustering.systems,):
        for value in (record.A, record.C, record.x1):
            digest.update(b"none" if value is None else np.ascontiguousarray(value).tobytes())
    # kernels are told apart by some of their values, objects without a repr of their own by their type
    cross = clustering.kernel.cross(clustering.packed[:1], clustering.packed[:16])
    values = [f"{value:.6g}" for value in (*cross[0], *clustering.self_values[:16])]
    seed = seed_fingerprint(estimator.random_state)
    start = init if isinstance(init, str) else None if isinstance(init, Systems) else init.tolist()
    settings = [
        getattr(estimator, name) for name in ("n_clusters", "mean", "solver", "inner_iter", "relocate", "bound")
    ]
    digest.update(re.sub(r" at 0x[0-9a-f]+", "", repr([*settings, seed, start, values])).encode())
    return dataclasses.replace(store, fingerprint=digest.hexdigest())
