"""Other methods that store frames in a few bytes: faiss indexes and int8 principal components."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

Frames = NDArray[np.float32]
Search = Callable[[Frames], NDArray[np.intp]]
"""A function from queries, shape (Q, d), to the numbers of the nearest rows, shape (Q,)."""

_TRAINED_ON = 65_536


def load_faiss() -> Any:
    """Return the module faiss, or raise an error that says how to install it."""
    try:
        import faiss  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            "the comparison with other libraries needs faiss, which is not installed: run `pip install "
            "'manifoldseq-papers[faiss]'`"
        ) from error
    return faiss


@dataclass(frozen=True)
class Peer:
    """The total size of an index in bytes, and its search."""

    nbytes: int
    search: Search


def flat(X: Frames, seed: int = 0) -> Peer:
    """Return the exact search of float32 frames."""
    faiss = load_faiss()
    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    return Peer(X.nbytes, _first(index))


def product(X: Frames, seed: int = 0, *, groups: int = 8, rotated: bool = False) -> Peer:
    """Return product quantization in `groups` bytes (PQ), after a learned rotation if `rotated` (OPQ)."""
    faiss = load_faiss()
    d = X.shape[1]
    index: Any = faiss.IndexPQ(d, groups, 8)
    index.pq.cp.seed = seed + 1234
    index.pq.cp.min_points_per_centroid = 1
    size = len(X) * groups + 4 * 256 * d
    if rotated:
        rotation, inner = faiss.OPQMatrix(d, groups), faiss.ProductQuantizer(d, groups, 8)
        inner.cp.min_points_per_centroid = 1
        rotation.niter, rotation.niter_pq, rotation.pq = 10, 4, inner
        index = faiss.IndexPreTransform(rotation, index)
        size += 4 * d * d
    index.train(_sample(X, seed))
    index.add(X)
    return Peer(size, _first(index))


def inverted(X: Frames, seed: int = 0, *, groups: int = 16, n_probe: int = 16) -> Peer:
    """Return product quantization of residuals in inverted lists (IVFPQ), about 2 sqrt(n) of them."""
    return inverted_curve(X, seed, groups=groups)(n_probe)


def inverted_curve(X: Frames, seed: int = 0, *, groups: int = 16) -> Callable[[int], Peer]:
    """Return one IVFPQ index as a function of the number of lists that a search visits."""
    faiss = load_faiss()
    n, d = X.shape
    lists = int(max(1, min(2 * np.sqrt(n), n / 39)))
    index = faiss.IndexIVFPQ(faiss.IndexFlatL2(d), d, lists, groups, 8)
    index.cp.seed = index.pq.cp.seed = seed + 1234
    index.cp.niter = 10
    index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
    index.train(_sample(X, seed))
    index.add(X)
    # the number of a frame takes eight bytes in a list; the order in time is not that of the lists
    size = n * (groups + 8) + 4 * 256 * d + 4 * lists * d

    def probing(n_probe: int) -> Peer:
        def search(Q: Frames) -> NDArray[np.intp]:
            index.nprobe = min(n_probe, lists)
            return index.search(Q, 1)[1][:, 0]

        return Peer(size, search)

    return probing


def principal(X: Frames, seed: int = 0, *, n_components: int = 16) -> Peer:
    """Return int8 coordinates of principal components."""
    faiss = load_faiss()
    pca = PCA(n_components=min(n_components, *X.shape), random_state=seed).fit(_sample(X, seed))
    Z = pca.transform(X)
    scale = np.abs(Z).max(axis=0) / 127
    codes = np.rint(Z / scale).astype(np.int8)
    index = faiss.IndexFlatL2(Z.shape[1])
    index.add(np.ascontiguousarray(codes * scale, np.float32))
    find = _first(index)
    size = codes.nbytes + 4 * (len(scale) * X.shape[1] + X.shape[1] + len(scale))
    return Peer(size, lambda Q: find(np.ascontiguousarray(pca.transform(Q), np.float32)))


def on_key_frames(make: Callable[..., Peer], every: int) -> Callable[..., Peer]:
    """Return an index of key frames only, one in every `every` frames; its search returns numbers of frames."""

    def made(X: Frames, seed: int = 0, **settings: Any) -> Peer:
        peer = make(np.ascontiguousarray(X[every // 2 :: every]), seed, **settings)
        return Peer(peer.nbytes, lambda Q: every // 2 + every * peer.search(Q))

    return made


def _first(index: Any) -> Search:
    return lambda Q: index.search(np.ascontiguousarray(Q, np.float32), 1)[1][:, 0]


def _sample(X: Frames, seed: int) -> Frames:
    if len(X) <= _TRAINED_ON:
        return X
    return X[np.sort(np.random.default_rng(seed).choice(len(X), _TRAINED_ON, replace=False))]
