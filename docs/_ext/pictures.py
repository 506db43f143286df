"""Small pictures of manifolds for *Choose a manifold*, drawn with the public geometry: run it to write docs/_static."""

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import manifoldseq as ms

M = ms.manifolds
BLUE, GRAY, RED = "#1f77b4", "#909090", "#d62728"
T = np.linspace(0, 1, 60)
Plot = Callable[..., None]


def drawn() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every picture."""
    with matplotlib.rc_context({"svg.hashsalt": "manifoldseq"}):
        for draw in DRAWINGS:
            figure = Figure(figsize=(1.3, 1.3))
            axes = figure.add_axes((0.02, 0.02, 0.96, 0.96))
            axes.set_axis_off()
            axes.set_aspect("equal")
            draw(axes.plot)
            file = io.StringIO()
            figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
            yield f"{draw.__name__}.svg", re.sub(r" +$", "", file.getvalue(), flags=re.MULTILINE)


def _circle(plot: Plot, colour: str = GRAY) -> None:
    plot(np.cos(2 * np.pi * T), np.sin(2 * np.pi * T), color=colour, lw=0.8)


def _ends(plot: Plot, path: np.ndarray) -> None:
    plot(path[:, 0], path[:, 1], color=BLUE, lw=1.6)
    plot(path[[0, -1], 0], path[[0, -1], 1], "o", color=RED, ms=3.5)


def euclidean(plot: Plot) -> None:
    for k in np.linspace(-1, 1, 5):
        plot([-1, 1], [k, k], color=GRAY, lw=0.5)
        plot([k, k], [-1, 1], color=GRAY, lw=0.5)
    _ends(plot, M.Euclidean(2).geodesic(np.array([-0.7, -0.4]), np.array([0.6, 0.8]), T))


def sphere(plot: Plot) -> None:
    _circle(plot)
    plot(np.cos(np.pi * (1 + T)), 0.3 * np.sin(np.pi * (1 + T)), color=GRAY, lw=0.8)
    x, y = M.Sphere(3).nearest(np.array([[-0.8, 0.1, 0.5], [0.6, 0.7, 0.5]]))
    _ends(plot, M.Sphere(3).geodesic(x, y, T))


def oblique(plot: Plot) -> None:
    _circle(plot)
    for angle in (0.3, 1.4, 2.6, 4.4):
        plot([0, np.cos(angle)], [0, np.sin(angle)], color=BLUE, lw=1.4, marker="o", ms=3, markevery=[1])


def stiefel(plot: Plot) -> None:
    _circle(plot)
    for angle in (0.5, 0.5 + np.pi / 2):
        plot([0, np.cos(angle)], [0, np.sin(angle)], color=BLUE, lw=1.6, marker="o", ms=3.5, markevery=[1])
    plot([0.132, 0.06, -0.072], [0.072, 0.204, 0.132], color=GRAY, lw=0.8)


def grassmann(plot: Plot) -> None:
    G = M.Grassmann(2, 1)
    x, y = (np.array([[np.cos(a)], [np.sin(a)]]) for a in (0.2, 1.5))
    for k, line in enumerate(G.geodesic(x, y, np.linspace(0, 1, 6))[:, :, 0]):
        colour = RED if k in (0, 5) else BLUE
        plot([-line[0], line[0]], [-line[1], line[1]], color=colour, lw=1.6 if k in (0, 5) else 0.7)


def rotations(plot: Plot) -> None:
    R = M.SpecialOrthogonal(2)
    end = np.array([[0.0, -1.0], [1.0, 0.0]])
    shape = np.array([[-0.5, -0.25], [0.5, -0.25], [0.5, 0.25], [-0.5, 0.25], [-0.5, -0.25]])
    for k, turn in enumerate(R.geodesic(np.eye(2), end, np.linspace(0, 1, 4))):
        moved = (shape + np.array([0.45, 0.0])) @ turn.T
        plot(moved[:, 0], moved[:, 1], color=RED if k in (0, 3) else BLUE, lw=1.3 if k in (0, 3) else 0.7)


def poses(plot: Plot) -> None:
    P = M.SpecialEuclidean(2)
    turned = np.array([[-0.6, -0.8], [0.8, -0.6]])
    path = P.geodesic((np.eye(2), np.array([-0.8, -0.5])), (turned, np.array([0.8, 0.6])), np.linspace(0, 1, 5))
    for turn, place in zip(*path, strict=True):
        for axis, colour in zip(0.35 * turn.T, (RED, BLUE), strict=True):
            plot([place[0], place[0] + axis[0]], [place[1], place[1] + axis[1]], color=colour, lw=1.4)
    plot(path[1][:, 0], path[1][:, 1], color=GRAY, lw=0.7)


RING = np.stack([np.cos(2 * np.pi * T), np.sin(2 * np.pi * T)], axis=1)


def _ellipses(plot: Plot, metric: str, height: float = 0.0) -> None:
    """Draw the geodesic between two long ellipses at right angles."""
    ends = np.diag([0.36, 0.002]), np.diag([0.002, 0.36])
    path = M.SymmetricPositiveDefinite(2, metric).geodesic(*ends, np.linspace(0, 1, 5))
    for k, covariance in enumerate(path):
        moved = RING @ np.linalg.cholesky(covariance).T + [0.8 * k - 1.6, height]
        plot(moved[:, 0], moved[:, 1], color=RED if k in (0, 4) else BLUE, lw=1.0)


def definite(plot: Plot) -> None:
    S = M.SymmetricPositiveDefinite(2)
    ends = np.diag([0.16, 0.01]), np.array([[0.04, 0.05], [0.05, 0.12]])
    for k, covariance in enumerate(S.geodesic(*ends, np.linspace(0, 1, 5))):
        moved = RING @ np.linalg.cholesky(covariance).T + [0.45 * k - 0.9, 0]
        plot(moved[:, 0], moved[:, 1], color=RED if k in (0, 4) else BLUE, lw=1.2)


def logarithms(plot: Plot) -> None:
    _ellipses(plot, "log-euclidean")


def transport(plot: Plot) -> None:
    _ellipses(plot, "bures-wasserstein")


def canonical(plot: Plot) -> None:
    """The way of two columns, seen from above: gray in the embedded metric, blue in the canonical one."""
    _circle(plot)
    start = np.eye(4)[:, :2]
    velocity = np.array([[0.0, -1.5], [1.5, 0.0], [1.2, 0.0], [0.0, 0.2]])
    end = M.Stiefel(4, 2, metric="canonical").exp(start, velocity)
    for metric, colour in ("embedded", GRAY), ("canonical", BLUE):
        path = M.Stiefel(4, 2, metric=metric).geodesic(start, end, T)
        for column in (0, 1):
            plot(path[:, 0, column], path[:, 1, column], color=colour, lw=1.4)
            plot(path[[0, -1], 0, column], path[[0, -1], 1, column], "o", color=RED, ms=3.5)


def reflections(plot: Plot) -> None:
    """A letter and its mirror image, both turned: no path leads from one to the other."""
    letter = np.array([[-0.2, -0.4], [-0.2, 0.4], [0.2, 0.4], [-0.2, 0.4], [-0.2, 0.05], [0.12, 0.05]])
    for mirror, side, colour in (1, -0.55, BLUE), (-1, 0.55, RED):
        for angle, height in (0.0, 0.5), (1.0, -0.5):
            c, s = np.cos(mirror * angle), np.sin(mirror * angle)
            moved = letter @ np.diag([mirror, 1]) @ np.array([[c, s], [-s, c]]) + [side, height]
            plot(moved[:, 0], moved[:, 1], color=colour, lw=1.5)
    plot([0, 0], [-1, 1], color=GRAY, lw=0.9, ls=":")


def openbox(plot: Plot) -> None:
    B = M.OpenBox(2, 1.0)
    plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color=GRAY, lw=0.9, ls=":")
    _ends(plot, B.geodesic(np.array([-0.97, -0.5]), np.array([0.6, 0.98]), T))


def product(plot: Plot) -> None:
    """A cylinder, Sphere(2) × Euclidean(1), from the side."""
    for height in (-0.9, 0.9):
        plot(0.7 * np.cos(2 * np.pi * T), height + 0.2 * np.sin(2 * np.pi * T), color=GRAY, lw=0.8)
    for side in (-0.7, 0.7):
        plot([side, side], [-0.9, 0.9], color=GRAY, lw=0.8)
    C = M.Product(M.Sphere(2), M.Euclidean(1))
    turn, height = C.geodesic(
        (np.array([-0.94, -0.342]), np.array([-0.6])), (np.array([0.94, -0.342]), np.array([0.6])), T
    )
    _ends(plot, np.column_stack([0.7 * turn[:, 0], height[:, 0] + 0.2 * turn[:, 1]]))


def power(plot: Plot) -> None:
    """Three points of a circle that move at once."""
    P = M.Sphere(2) ** 3
    angles = np.array([0.2, 1.9, 3.3]), np.array([1.4, 2.6, 5.0])
    x, y = (np.stack([np.cos(a), np.sin(a)], axis=-1) for a in angles)
    for k, path in enumerate(P.geodesic(x, y, T).transpose(1, 0, 2)):
        size = 1.0 - 0.28 * k
        plot(size * np.cos(2 * np.pi * T), size * np.sin(2 * np.pi * T), color=GRAY, lw=0.8)
        _ends(plot, size * path)


def frozen(plot: Plot) -> None:
    """One coordinate stays as it started."""
    plot([0.0, 0.0], [-1, 1], color=GRAY, lw=0.5)
    plot([-1, 1], [0.35, 0.35], color=GRAY, lw=0.9, ls=":")
    F = M.Product(M.Euclidean(1), M.Frozen(M.Euclidean(1)))
    path = F.geodesic((np.array([-0.8]), np.array([0.35])), (np.array([0.7]), np.array([0.35])), T)
    _ends(plot, np.column_stack([path[0][:, 0], np.full(len(T), 0.35)]))


def systems(plot: Plot) -> None:
    """The states of a stable system of a random point, x ← diag(λ) V x: they spiral into the origin."""
    _circle(plot)
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    lam, V, _ = M.CanonicalLDS(2, 2, 0.95).nearest((np.array([0.93, 0.88]), turn, np.eye(2)))
    states = [np.array([1.0, 0.0])]
    for _ in range(16):
        states.append(lam * (V @ states[-1]))
    path = np.array(states)
    plot(path[:, 0], path[:, 1], color=BLUE, lw=0.7)
    plot(path[:, 0], path[:, 1], "o", color=RED, ms=2)


def simplex(plot: Plot) -> None:
    corners = np.array([[-1, -0.7], [1, -0.7], [0, 1.0]])
    outline = corners[[0, 1, 2, 0]]
    plot(outline[:, 0], outline[:, 1], color=GRAY, lw=0.9)
    path = M.Simplex(3).geodesic(np.array([0.9, 0.05, 0.05]), np.array([0.04, 0.26, 0.7]), T)
    _ends(plot, path @ corners)


def positive(plot: Plot) -> None:
    plot([0, 0, 2], [2, 0, 0], color=GRAY, lw=0.9)
    _ends(plot, M.Positive(2).geodesic(np.array([0.1, 1.8]), np.array([1.7, 0.2]), T))


def box(plot: Plot) -> None:
    plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color=GRAY, lw=0.9)
    _ends(plot, M.BoundedDiagonal(2, 1.0).geodesic(np.array([-0.6, -1.0]), np.array([1.0, 0.5]), T))


def hyperbolic(plot: Plot) -> None:
    H = M.Hyperbolic(2)
    _circle(plot)
    for a, b in (([-2.0, -1.5], [2.5, -0.8]), ([-2.0, 1.5], [0.3, 2.5]), ([-0.5, -0.2], [1.6, 1.4])):
        x, y = (H.nearest(np.array([0.0, *end])) for end in (a, b))
        path = H.geodesic(x, y, T)
        _ends(plot, path[:, 1:] / (1 + path[:, :1]))  # in the Poincaré ball


def generalized(plot: Plot) -> None:
    B = np.array([[1.0, 0.4], [0.4, 2.0]])
    ring = np.stack([np.cos(2 * np.pi * T), np.sin(2 * np.pi * T)])
    outline = np.linalg.solve(np.linalg.cholesky(B).T, ring)
    plot(outline[0], outline[1], color=GRAY, lw=0.8)
    for column in M.GeneralizedStiefel(B, 2).nearest(np.array([[1.0, -0.4], [0.3, 1.0]])).T:
        plot([0, column[0]], [0, column[1]], color=BLUE, lw=1.6, marker="o", ms=3.5, markevery=[1])


DRAWINGS = (
    euclidean,
    box,
    openbox,
    positive,
    simplex,
    sphere,
    oblique,
    stiefel,
    canonical,
    generalized,
    grassmann,
    rotations,
    reflections,
    poses,
    definite,
    logarithms,
    transport,
    hyperbolic,
    product,
    power,
    frozen,
    systems,
)

if __name__ == "__main__":
    folder = Path(__file__).parents[1] / "_static" / "manifolds"
    folder.mkdir(exist_ok=True)
    for name, text in drawn():
        (folder / name).write_text(text, encoding="utf-8")
