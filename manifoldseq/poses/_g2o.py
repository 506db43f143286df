"""Pose graphs, and files of g2o."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from .._problem import Problem
from ..linalg import freeze
from ..losses import Loss, loss_of
from ..manifolds import Power, SpecialEuclidean
from ..objectives import Residuals, least_squares
from ._between import Pose, between

_VERTICES = {"VERTEX_SE2": (2, 4), "VERTEX_SE3:QUAT": (3, 8)}
_EDGES = {"EDGE_SE2": (2, 11), "EDGE_SE3:QUAT": (3, 30)}
_LARGEST, _SHORTEST = 2**63, 1e-100


@dataclass(frozen=True, eq=False)
class PoseGraph:
    """Poses in the plane or in space, and measured relative poses between pairs of them.

    Attributes
    ----------
    start : tuple of ndarray
        Rotations (n, d, d) and translations (n, d) of the poses, d = 2 or 3.
    i, j : ndarray of shape (K,)
        The pairs of poses of the measurements.
    rotations, translations : ndarray of shape (K, d, d) and (K, d)
        The measured poses of j in the coordinates of i.
    information : ndarray of shape (K, m, m)
        Inverse covariances, m = 3 or 6, rotation first.
    fixed : tuple of int
        Indices of known poses. If it is empty, the first pose is fixed.
    ids : ndarray of shape (n,)
        The numbers of the poses in the file.

    Examples
    --------
    >>> import numpy as np, manifoldseq as ms
    >>> eye = np.stack([np.eye(2)] * 3)
    >>> graph = ms.poses.PoseGraph((eye, np.zeros((3, 2))), np.array([0, 1]), np.array([1, 2]), eye[:2],
    ...     np.ones((2, 2)), np.stack([np.eye(3)] * 2))
    >>> ms.minimize(graph.problem(), graph.start).x[1].round(6).tolist()
    [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    """

    start: Pose
    i: np.ndarray
    j: np.ndarray
    rotations: np.ndarray
    translations: np.ndarray
    information: np.ndarray
    fixed: tuple[int, ...] = ()
    ids: np.ndarray = field(default_factory=lambda: np.zeros(0, int))

    def __post_init__(self) -> None:
        if not len(self.ids):
            object.__setattr__(self, "ids", np.arange(len(self.start[0])))
        object.__setattr__(self, "start", freeze(tuple([np.array(part, float) for part in self.start])))

    def __repr__(self) -> str:
        return f"PoseGraph(SE({self.start[1].shape[1]}), {len(self.ids)} poses, {len(self.i)} measurements)"

    @property
    def manifold(self) -> Power:
        """The power of SE(d) with the fixed poses, or with the first pose fixed if none is given."""
        return Power(SpecialEuclidean(self.start[1].shape[1]), len(self.ids), self.fixed or (0,))

    def residuals(self, loss: Loss | str | None = None) -> Residuals:
        """Return the residuals of the measurements in units of their standard deviations, with a robust loss."""
        try:
            roots = np.linalg.cholesky(self.information).mT
        except np.linalg.LinAlgError:
            k = int(np.argmin(np.linalg.eigvalsh(self.information)[:, 0]))
            raise ValueError(
                f"the information matrix of the measurement from pose {self.ids[self.i[k]]} to pose "
                f"{self.ids[self.j[k]]} is not positive definite"
            ) from None
        return between(self.rotations, self.translations, (self.i, self.j), loss=loss, weights=roots)

    def problem(self, loss: Loss | str | None = None) -> Problem:
        """Return the least-squares problem, whose initializer is the start of the graph.

        Parameters
        ----------
        loss : Loss or str, optional
            A robust loss of each measurement, such as ``ms.losses.Cauchy(3.0)``, ``"huber"`` or ``"gnc"``.

        Returns
        -------
        Problem
        """
        return Problem(self.manifold, least_squares(self.residuals(loss)), {"file": lambda problem, rng: self.start})


def read_g2o(path: str | Path) -> PoseGraph:
    """Read a pose graph from a g2o file.

    Parameters
    ----------
    path : str or Path
        Lines ``VERTEX_SE2``, ``VERTEX_SE3:QUAT``, ``EDGE_SE2``, ``EDGE_SE3:QUAT``, ``FIX`` and comments that begin with
        #. Numbers of poses are integers of at most 64 bits. Information matrices are reordered: g2o has translations
        first.

    Returns
    -------
    PoseGraph

    Raises
    ------
    ValueError
        If the file has lines of another kind or length, poses of both dimensions, a pose that is defined twice, an edge
        of an unknown pose or from a pose to itself, values that are not finite, pose numbers that are not integers, or
        quaternions of length zero.
    """
    vertices: list[list[float]] = []
    edges: list[list[float]] = []
    pairs: list[list[int]] = []
    fixed: list[int] = []
    position: dict[int, int] = {}
    d = 0
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            tag = words[0]
            first = len(words) if tag == "FIX" else 3 if tag in _EDGES else 2  # before it are the numbers of poses
            try:
                keys = [_key(word) for word in words[1:first]] if tag in (*_VERTICES, *_EDGES, "FIX") else []
                numbers = [float(word) for word in words[first:]] if tag in (*_VERTICES, *_EDGES) else []
            except ValueError as error:
                raise ValueError(f"{path}: line {number}: {error}") from error
            if not all(map(math.isfinite, numbers)):
                raise ValueError(f"{path}: line {number} ({tag}) has a number that is not finite")
            if tag == "FIX":
                fixed += keys
                continue
            if tag not in _VERTICES and tag not in _EDGES:
                known = ", ".join([*_VERTICES, *_EDGES, "FIX"])
                raise ValueError(f"{path}: line {number} begins with {tag}: only {known} can be read")
            dimension, size = (_VERTICES | _EDGES)[tag]
            if len(words) - 1 != size:
                raise ValueError(f"{path}: line {number} ({tag}) has {len(words) - 1} numbers: write {size}")
            if d not in (0, dimension):
                raise ValueError(
                    f"{path}: line {number} has a pose of SE({dimension}), but the earlier lines have SE({d})"
                )
            d = dimension
            if d == 3 and not math.hypot(*numbers[3:7]) > _SHORTEST:
                raise ValueError(f"{path}: line {number} ({tag}) has a quaternion of length zero")
            if tag in _EDGES:
                if keys[0] == keys[1]:
                    raise ValueError(f"{path}: line {number} ({tag}) measures pose {keys[0]} from itself")
                pairs.append(keys)
                edges.append(numbers)
                continue
            if position.setdefault(keys[0], len(vertices)) < len(vertices):
                raise ValueError(f"{path}: line {number} defines pose {keys[0]} a second time")
            vertices.append(numbers)
    if not vertices:
        raise ValueError(f"{path} has no vertices")
    V = np.array(vertices, float)
    own = np.array(edges, float) if edges else np.zeros((0, 28 if d == 3 else 9))
    unknown = {*(key for pair in pairs for key in pair), *fixed} - position.keys()
    if unknown:
        raise ValueError(f"{path}: pose {min(unknown)} is used, but no vertex has this number")
    i, j = (np.array([position[pair[c]] for pair in pairs], dtype=np.intp) for c in (0, 1))
    m = 3 if d == 2 else 6
    measured, entries = d + (1 if d == 2 else 4), np.triu_indices(m)
    information = np.zeros((len(own), m, m))
    information[:, entries[0], entries[1]] = information[:, entries[1], entries[0]] = own[:, measured:]
    order = np.r_[d:m, 0:d]  # rotation first
    rotations, translations = _poses(d, own[:, :measured])
    return PoseGraph(
        _poses(d, V), i, j, rotations, translations, information[:, order][:, :, order],
        tuple(position[k] for k in fixed), np.array(list(position), dtype=np.int64),
    )  # fmt: skip


def _key(word: str) -> int:
    """Return the number of a pose: an integer, also of 64 bits, which a float would round."""
    try:
        key = int(word)
    except ValueError:
        as_number = float(word)
        if not as_number.is_integer():
            raise ValueError(f"the number of a pose is {word}: it must be an integer") from None
        key = int(as_number)
    if not -_LARGEST <= key < _LARGEST:
        raise ValueError(f"the number of a pose is {word}: it must be an integer of at most 64 bits")
    return key


def graph_problem(path: str | Path, loss: str = "squared", scale: float = 3.0) -> Problem:
    """Return the least-squares problem of a g2o file. The attribute `data` of the problem is the graph.

    Parameters
    ----------
    path : str or Path
    loss : str
        A name that :func:`manifoldseq.residuals` knows, such as ``"cauchy"`` or ``"gnc"``.
    scale : float
        The scale of the loss, in standard deviations.

    Returns
    -------
    Problem
    """
    graph = read_g2o(path)
    return replace(graph.problem(loss_of(loss, scale)), data=graph)


def write_g2o(path: str | Path, graph: PoseGraph, x: Pose | None = None) -> None:
    """Write a pose graph to a g2o file, with 17 digits.

    Parameters
    ----------
    path : str or Path
    graph : PoseGraph
    x : tuple of ndarray, optional
        The poses, for example ``result.x``; by default the start of the graph.
    """
    Path(path).write_text(g2o_text(graph, x), encoding="utf-8")


def g2o_text(graph: PoseGraph, x: Pose | None = None) -> str:
    """Return the text of a file of g2o."""
    R, t = graph.start if x is None else x
    d = t.shape[1]
    order = np.argsort(np.r_[d : (3 if d == 2 else 6), 0:d])
    information = graph.information[:, order][:, :, order]
    upper = np.triu_indices(information.shape[1])
    vertex, edge = ("VERTEX_SE2", "EDGE_SE2") if d == 2 else ("VERTEX_SE3:QUAT", "EDGE_SE3:QUAT")
    lines = [_line(vertex, [k], row) for k, row in zip(graph.ids.tolist(), _numbers(R, t), strict=True)]
    lines += [f"FIX {graph.ids[k]}" for k in graph.fixed]
    measured = np.concatenate([_numbers(graph.rotations, graph.translations), information[:, *upper]], axis=1)
    ends = np.stack([graph.ids[graph.i], graph.ids[graph.j]], axis=1)
    lines += [_line(edge, pair, row) for pair, row in zip(ends.tolist(), measured, strict=True)]
    return "\n".join(lines) + "\n"


def _line(tag: str, ids: list[int], numbers: np.ndarray) -> str:
    return " ".join([tag, *map(str, ids), *[f"{number:.17g}" for number in numbers.tolist()]])


def _poses(d: int, rows: np.ndarray) -> Pose:
    if d == 3:
        rotations = Rotation.from_quat(rows[:, 3:]).as_matrix() if len(rows) else np.zeros((0, 3, 3))
        return rotations, rows[:, :3]
    c, s = np.cos(rows[:, 2]), np.sin(rows[:, 2])
    return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2), rows[:, :2]


def _numbers(R: np.ndarray, t: np.ndarray) -> np.ndarray:
    if t.shape[1] == 2:
        return np.concatenate([t, np.arctan2(R[:, 1, 0], R[:, 0, 0])[:, None]], axis=1)
    return np.concatenate([t, Rotation.from_matrix(R).as_quat()], axis=1)
