"""Pictures of the start page and of the theory pages, computed with the public API: run it to write docs/_static."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.signal import lfilter

import manifoldseq as ms
from manifoldseq_hierarchical import HierarchicalSequenceEncoder, SubspaceEncoder
from manifoldseq_lds import LDSIdentifier, LDSKernelMatrix, LDSKMeans
from manifoldseq_mpcca import MixturePCCA

STATIC = Path(__file__).parents[1] / "_static"
BLUE, GRAY, RED = "#1f77b4", "#909090", "#d62728"
FOUR = ("#1f77b4", "#d9731a", "#2b9348", "#8e5bb5")
Draw = Callable[[Axes], None]


def sphere(axes: Axes) -> None:
    """Contours of a Rayleigh quotient on the sphere, seen from the front, and the iterates of `minimize`."""
    Q = np.linalg.qr(np.array([[0.8, 0.4, 0.4], [-0.4, 0.9, 0.2], [-0.4, -0.3, 0.8]]))[0]
    S = Q @ np.diag([3.0, 1.6, 0.4]) @ Q.T
    x, y = np.meshgrid(np.linspace(-1, 1, 160), np.linspace(-1, 1, 160))
    z = np.sqrt(np.where(x**2 + y**2 < 1, 1 - x**2 - y**2, np.nan))
    points = np.stack([x, y, z])
    axes.contour(x, y, np.einsum("iab,ij,jab->ab", points, S, points), 12, colors=GRAY, linewidths=0.6)
    turn = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(turn), np.sin(turn), color=GRAY, lw=1)
    problem = ms.Problem(ms.manifolds.Sphere(3), lambda v: v @ S @ v, gradient=lambda v: 2 * S @ v)
    for start, colour in zip(
        ([-0.2, -0.9, 0.3], [-0.35, 0.85, 0.3], [0.1, 0.1, 0.9]), (BLUE, RED, "#2b9348"), strict=True
    ):
        path: list[np.ndarray] = []
        first = ms.manifolds.Sphere(3).nearest(np.array(start))
        ms.minimize(problem, first, solver="tr", callback=lambda event, path=path: path.append(event.x))
        steps = np.array(path)
        axes.plot(steps[:, 0], steps[:, 1], "o-", color=colour, lw=1.3, ms=3)
    axes.set_aspect("equal")


def stiefel(axes: Axes) -> None:
    """Two orthonormal columns in three dimensions while `minimize` turns them into eigenvectors."""
    turn = np.linspace(0, 2 * np.pi, 200)
    for height in (1.0, 0.3):
        axes.plot(np.cos(turn), height * np.sin(turn), color=GRAY, lw=1 if height == 1 else 0.6)
    Q = np.linalg.qr(np.array([[0.9, -0.2, 0.4], [0.2, 0.9, 0.3], [-0.4, -0.2, 0.9]]))[0]
    S, N = Q @ np.diag([3.0, 2.0, 1.0]) @ Q.T, np.array([2.0, 1.0])
    problem = ms.Problem(
        ms.manifolds.Stiefel(3, 2), lambda X: -np.sum(X * (S @ X) * N), gradient=lambda X: -2 * (S @ X) * N
    )
    path: list[np.ndarray] = []
    start = np.linalg.qr(np.array([[0.1, 0.7], [-0.9, 0.6], [0.5, 0.4]]))[0]
    ms.minimize(problem, start, solver="tr", callback=lambda event: path.append(event.x))
    steps = [np.reshape(point, (3, 2)) for point in path]
    fine = [ms.manifolds.Stiefel(3, 2).geodesic(x, y, np.linspace(0, 1, 20)) for x, y in pairwise(steps)]
    for column, colour in (0, RED), (1, BLUE):
        axes.plot(*np.concatenate(fine)[:, :2, column].T, color=colour, lw=1)
        axes.plot(*np.array(steps)[:, :2, column].T, "o", color=colour, ms=2.5)
        axes.plot([0, steps[-1][0, column]], [0, steps[-1][1, column]], color=colour, lw=2.2)
    axes.set_aspect("equal")


def rotations(axes: Axes) -> None:
    """Angles of plane rotations from differences, a third of them wrong: by least squares (gray), robust (blue)."""
    rng = np.random.default_rng(4)
    n, group = 14, ms.manifolds.SpecialOrthogonal(2)
    several = group**n
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    truth = np.stack([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
    i, j = np.triu_indices(n, 1)
    measured = truth[i].mT @ truth[j]
    wrong = rng.random(len(i)) < 0.35
    measured[wrong] = (group ** int(wrong.sum())).random_point(rng)

    def problem(robust: bool) -> ms.Problem:
        def cost_and_gradient(R: np.ndarray) -> tuple[float, np.ndarray]:
            E = R[i] @ measured - R[j]
            root = np.sqrt(0.01 + np.sum(E * E, axis=(-2, -1)))
            pull = E / root[:, None, None] if robust else E
            G = np.zeros_like(R)
            np.add.at(G, i, pull @ measured.mT)
            np.add.at(G, j, -pull)
            return float(np.sum(root)) if robust else float(0.5 * np.sum(E * E)), G

        return ms.Problem(several, ms.objective(value_and_gradient=cost_and_gradient))

    for robust, colour, radius in (False, GRAY, 0.72), (True, BLUE, 1.0):
        R = ms.minimize(problem(robust), truth).x
        common = np.linalg.svd(np.sum(truth @ R.mT, axis=0))
        R = common[0] @ common[2] @ R
        for k in range(n):
            axes.plot(
                [0.45 * R[k, 0, 0], radius * R[k, 0, 0]], [0.45 * R[k, 1, 0], radius * R[k, 1, 0]], color=colour, lw=2
            )
    axes.plot(1.08 * np.cos(angle), 1.08 * np.sin(angle), "o", color=RED, ms=3)
    axes.set_aspect("equal")


def recordings(axes: Axes) -> None:
    """Records of a shaken structure, coloured by the cluster that they are in."""
    data = ms.hooks.get_dataset("damaged-structure").loader()
    found = LDSKMeans(n_clusters=4, random_state=0).fit(data.sequences).labels_
    for row, k in enumerate(np.random.default_rng(1).permutation(len(found))[:6]):
        axes.plot(data.sequences[k][:110, 2] - 4 * row, color=FOUR[found[k]], lw=1)


def cluster(axes: Axes) -> None:
    """The records of a shaken structure, placed by the kernel of their systems; colours are the clusters found."""
    data = ms.hooks.get_dataset("damaged-structure").loader()
    model = LDSKMeans(n_clusters=4, random_state=0).fit(data.sequences)
    chosen = {name: value for name, value in model.choice_.best_params.items() if name != "moments"}
    K = LDSKernelMatrix().set_params(**chosen).fit_transform(data.sequences)
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values, vectors = np.linalg.eigh(centred)
    place = vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]])
    for k, colour in enumerate(FOUR):
        axes.plot(*place[model.labels_ == k].T, "o", color=colour, ms=4, mec="white", mew=0.3)


def forecast(axes: Axes, channels: int = 1) -> None:
    """The ends of channels, their forecast with an interval of 90 %, and what followed (gray)."""
    rng = np.random.default_rng(1)
    t = np.arange(140)[:, None]
    beat = 1 + 0.4 * np.sin(2 * np.pi * t / 61)
    x = beat * np.sin(2 * np.pi * t / 17 + [0, 1, 2]) + 0.15 * rng.standard_normal((140, 3))
    identifier = LDSIdentifier(n_states="auto", method="em").fit([x[:100]])
    mean = identifier.forecast([x[:100]], n_steps=40)[0]
    lower, upper = (bound[0] for bound in identifier.forecast_interval([x[:100]], n_steps=40, coverage=0.9))
    ahead = np.arange(100, 140)
    for channel in range(channels):
        shift = -4.0 * channel
        axes.fill_between(ahead, lower[:, channel] + shift, upper[:, channel] + shift, color=BLUE, alpha=0.25, lw=0)
        axes.plot(np.arange(60, 140), x[60:, channel] + shift, color=GRAY, lw=1)
        axes.plot(np.arange(60, 100), x[60:100, channel] + shift, color=RED, lw=1.3)
        axes.plot(ahead, mean[:, channel] + shift, color=BLUE, lw=1.5)


def views(axes: Axes) -> None:
    """Rows of two views as an image, the missing view filled in (lower right)."""
    rng = np.random.default_rng(0)
    z = np.sort(rng.standard_normal((60, 1)), axis=0) * [[1.0]]
    loadings = rng.standard_normal((1, 6)), rng.standard_normal((1, 5))
    X, Y = (z @ W + 0.15 * rng.standard_normal((60, W.shape[1])) for W in loadings)
    known = np.flatnonzero(np.arange(60) % 3)
    model = MixturePCCA(n_components=1, n_latent=1, random_state=0).fit(X[known], Y[known])
    filled = model.impute(X, None)[1]
    space = np.full((60, 1), np.nan)
    hidden = np.where((np.arange(60) % 3 > 0)[:, None], Y, np.nan)
    axes.imshow(np.hstack([X, space, hidden, space, filled]), aspect="auto", cmap="RdBu", vmin=-2.5, vmax=2.5)


def places(axes: Axes) -> None:
    """Numbers of frames found on a second traverse: one by one (gray) and as a sequence (blue)."""
    rng = np.random.default_rng(0)
    path = lfilter([1.0], [1.0, -0.99], rng.standard_normal((3000, 64)), axis=0)
    encoder = HierarchicalSequenceEncoder().fit(path)
    taken = np.concatenate([np.arange(400, 1400, 4), np.arange(1400, 2600, 12)])
    seen = path[taken] + 12.0 * rng.standard_normal((len(taken), 64))
    axes.plot(encoder.predict(seen), ".", color=GRAY, ms=2.5)
    axes.plot(encoder.match(seen, speed=(1, 15)), color=BLUE, lw=2)


def nested(axes: Axes) -> None:
    """Objective (1) of the hierarchical encoding for every m: the closed form (blue), random rotations (gray)."""
    rng = np.random.default_rng(0)
    d, h = 24, 9
    labels = np.repeat(np.arange(h), 40)
    X = 2.0 * rng.standard_normal((h, d))[labels] + rng.standard_normal((len(labels), d))
    means = np.array([X[labels == k].mean(axis=0) for k in range(h)])
    within, about = X - means[labels], X - X.mean(axis=0)

    def objective(V: np.ndarray) -> np.ndarray:
        inside, outside = ((part @ V) ** 2 for part in (within, about))
        total = np.concatenate([[0.0], np.cumsum(inside.sum(axis=0))]) + outside.sum()
        return (total - np.concatenate([[0.0], np.cumsum(outside.sum(axis=0))])) / len(X)

    for _ in range(12):
        axes.plot(objective(np.linalg.qr(rng.standard_normal((d, d)))[0]), color=GRAY, lw=0.8)
    V = np.linalg.eigh(within.T @ within - about.T @ about)[1]
    axes.plot(objective(V), color=BLUE, lw=2)
    m = len(SubspaceEncoder().fit(X, labels).components_)
    axes.plot([m], [objective(V)[m]], "o", color=RED, ms=6)
    axes.set(xlabel="m, the coordinates in which a frame is replaced by its class mean", ylabel="F(V, m, μ) per frame")


def shared(axes: Axes) -> None:
    """Rows of two views in one column each; the conditional mean of a mixture (lines) against one regression (gray)."""
    rng = np.random.default_rng(3)
    kind, z = rng.integers(2, size=400), rng.standard_normal((400, 1))
    both = z * np.array([[1.0, 1.6], [1.0, -1.2]])[kind] + np.array([[-1.5, 0.0], [2.0, 1.0]])[kind]
    X, Y = np.split(both + 0.25 * rng.standard_normal((400, 2)), [1], axis=1)
    model = MixturePCCA(n_components=2, n_latent=1, random_state=0).fit(X, Y)
    label = model.predict(X, Y)
    for k in range(2):
        axes.plot(X[label == k], Y[label == k], "o", color=FOUR[k], ms=2.5, alpha=0.7)
    grid = np.linspace(X.min(), X.max(), 200)[:, None]
    axes.plot(
        grid, np.polyval(np.polyfit(X[:, 0], Y[:, 0], 1), grid), color=GRAY, lw=1.5, label="one linear regression"
    )
    axes.plot(grid, model.impute(grid, None)[1], color="#101010", lw=2, label="conditional mean of the mixture")
    axes.set(xlabel="view x", ylabel="view y")
    axes.legend(frameon=False)


CARDS: dict[str, Draw] = {
    "stiefel": stiefel,
    "rotation-averaging": rotations,
    "cluster-recordings": recordings,
    "forecasts": partial(forecast, channels=3),
    "two-views": views,
    "places": places,
}
PANELS: dict[str, Draw] = {
    "minimize on manifolds": sphere,
    "cluster recordings by their dynamics": cluster,
    "forecast with intervals": forecast,
}


def cards() -> None:
    """Write the pictures of the cards: no text, transparent, visible on light and on dark pages."""
    for name, draw in CARDS.items():
        figure = Figure(figsize=(2.4, 1.5))
        axes = figure.add_axes((0.02, 0.03, 0.96, 0.94))
        axes.set_axis_off()
        draw(axes)
        figure.savefig(STATIC / "cards" / f"{name}.svg", transparent=True, metadata={"Date": None})


def overview() -> None:
    """Write the picture of the README and of the start page."""
    figure = Figure(figsize=(10, 3.1), layout="constrained")
    for axes, (title, draw) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
        axes.set_axis_off()
        axes.set_title(title, fontsize=12)
        draw(axes)
    figure.savefig(STATIC / "overview.png", dpi=110)


def theory() -> None:
    """Write the pictures of the theory pages."""
    for name, draw in ("theory-hierarchical", nested), ("theory-mpcca", shared):
        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        draw(figure.subplots())
        figure.savefig(STATIC / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    (STATIC / "cards").mkdir(exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "manifoldseq"}):
        cards()
        overview()
        theory()
