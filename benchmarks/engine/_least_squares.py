"""Least squares: pose graphs, bundle adjustment and random graphs, compared with gtsam, scipy and our own L-BFGS."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module, util
from statistics import mean, median
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from scipy.spatial.transform import Rotation

import manifoldseq as ms
from manifoldseq.manifolds import Euclidean, Power, Product, SpecialEuclidean, SpecialOrthogonal
from manifoldseq.poses._between import cross_matrix

from . import _graphs
from ._session import Session

anp: Any = import_module("autograd.numpy")
GRAPHS = [
    *((_graphs.sphere, n, 4 * n, loss) for n in (100, 500) for loss in ("Huber", "Cauchy", "GemanMcClure")),
    (_graphs.sphere, 2500, 10_000, "Cauchy"),
    (_graphs.torus, 2500, 10_000, "Cauchy"),
    (_graphs.manhattan, 1000, 3000, "Cauchy"),
    (_graphs.manhattan, 10_000, 30_000, "Cauchy"),
    (_graphs.torus, 10_000, 25_000, "Cauchy"),
]
SCALE = 3.0


def run(session: Session) -> None:
    """Measure."""
    session.report.title("least squares: CPU of whole calls")
    peer = util.find_spec("gtsam") is not None
    if not peer:
        session.report.note("gtsam is not installed: the rows about it are left out")
        session.report.skipped.append("least squares compared with gtsam")
    if peer:
        _graphs_against_gtsam(session)
        _bundle(session)
    _against_scipy(session)
    _random_graph(session)


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def _graphs_against_gtsam(session: Session) -> None:
    ratios = []
    for make, n, edges, loss in GRAPHS[1:2] if session.quick else GRAPHS:
        graph = make(n, edges)
        rounds: list[float] = []
        above = 0.0
        for _ in range(1 if session.quick or n > 1000 else 3):
            result, ours = _timed(partial(_ours, graph, loss))
            (value, _), theirs = _timed(partial(gtsam_graph, graph, loss))
            rounds.append(ours / theirs)
            above = (result.fun - value) / value
            assert result.success
        name = f"{make.__name__} {n}, {loss}"
        ratios.append(median(rounds))
        session.report.row(f"{name}: our CPU over gtsam's", ratios[-1], most=2.5)
        session.report.row(f"{name}: value above gtsam's, relative", above, ".1e", most=1e-8)
    session.report.row(f"mean of the {len(ratios)} ratios", mean(ratios), most=1.8)


def _ours(graph: ms.poses.PoseGraph, loss: str) -> ms.Result:
    return ms.minimize(graph.problem(getattr(ms.losses, loss)(SCALE)), graph.start, max_iter=200)


def gtsam_graph(graph: ms.poses.PoseGraph, loss: str) -> tuple[float, int]:
    """Return the value and the iterations of gtsam, its graph built in Python."""
    g: Any = import_module("gtsam")
    (R0, t0), space = graph.start, graph.start[1].shape[1] == 3

    def pose(R: np.ndarray, t: np.ndarray) -> Any:
        return g.Pose3(g.Rot3(R), t) if space else g.Pose2(t[0], t[1], np.arctan2(R[1, 0], R[0, 0]))

    sigmas = 1 / np.sqrt(np.diagonal(graph.information[0]))
    estimator = getattr(g.noiseModel.mEstimator, loss).Create(SCALE)
    model = g.noiseModel.Robust.Create(estimator, g.noiseModel.Diagonal.Sigmas(sigmas if space else sigmas[[1, 2, 0]]))
    factor, prior = (g.BetweenFactorPose3, g.PriorFactorPose3) if space else (g.BetweenFactorPose2, g.PriorFactorPose2)
    factors, values = g.NonlinearFactorGraph(), g.Values()
    for k, (R, t) in enumerate(zip(R0, t0, strict=True)):
        values.insert(k, pose(R, t))
    for i, j, Z, p in zip(graph.i.tolist(), graph.j.tolist(), graph.rotations, graph.translations, strict=True):
        factors.add(factor(i, j, pose(Z, p), model))
    factors.add(prior(0, pose(R0[0], t0[0]), g.noiseModel.Constrained.All(6 if space else 3)))
    return _optimized(g, factors, values)


def _optimized(g: Any, factors: Any, values: Any) -> tuple[float, int]:
    options = g.LevenbergMarquardtParams()
    options.setMaxIterations(200)
    options.setRelativeErrorTol(1e-10)
    options.setAbsoluteErrorTol(0)
    optimizer = g.LevenbergMarquardtOptimizer(factors, values, options)
    return factors.error(optimizer.optimize()), optimizer.iterations()


def _bundle(session: Session) -> None:
    start, camera, point, pixels = _graphs.bundle(*((20, 300) if session.quick else (100, 5000)))
    (R0, C0), P0 = start

    def project(X: Any, p: Any) -> tuple[np.ndarray, list[np.ndarray]]:
        R, t = X
        q = np.einsum("kba,kb->ka", R, p - t)
        inverse = 500 / q[:, 2]
        D, S = np.zeros((len(q), 2, 3)), np.zeros((len(q), 3, 3))
        D[:, 0, 0] = D[:, 1, 1] = inverse
        D[:, :, 2] = -q[:, :2] * (inverse / q[:, 2])[:, None]
        # Rᵀ(p − t) turns by q × ω, with ω/√2 the coordinates of the basis
        S[:, 0, 1], S[:, 0, 2], S[:, 1, 2] = -q[:, 2], q[:, 1], -q[:, 0]
        by_point = D @ R.mT
        by_pose = np.concatenate([D @ (S - S.mT) / np.sqrt(2), -by_point], -1)
        return q[:, :2] * inverse[:, None] - pixels, [by_pose, by_point]

    M = Product(
        Power(SpecialEuclidean(3), len(R0), fixed=[0, 1]), Power(Euclidean(3), len(P0)), names=("cameras", "points")
    )

    def ours() -> Any:
        on = (("cameras", camera), ("points", point))
        block = ms.residuals(value_and_jacobian=project, on=on, loss=ms.losses.Cauchy(SCALE))
        return ms.minimize(ms.Problem(M, ms.least_squares(block)), start)

    def theirs() -> Any:
        g: Any = import_module("gtsam")
        factors, values, calibration = g.NonlinearFactorGraph(), g.Values(), g.Cal3_S2(500, 500, 0, 0, 0)
        model = g.noiseModel.Robust.Create(g.noiseModel.mEstimator.Cauchy.Create(SCALE), g.noiseModel.Unit.Create(2))
        for k in range(len(R0)):
            values.insert(g.symbol("c", k), g.Pose3(g.Rot3(R0[k]), C0[k]))
        for k in range(len(P0)):
            values.insert(g.symbol("p", k), P0[k])
        for c, p, uv in zip(camera.tolist(), point.tolist(), pixels, strict=True):
            factors.add(g.GenericProjectionFactorCal3_S2(uv, model, g.symbol("c", c), g.symbol("p", p), calibration))
        for k in (0, 1):
            pose = g.Pose3(g.Rot3(R0[k]), C0[k])
            factors.add(g.PriorFactorPose3(g.symbol("c", k), pose, g.noiseModel.Constrained.All(6)))
        return _optimized(g, factors, values)

    ratios, above = [], 0.0
    for _ in range(1 if session.quick else 3):
        result, own = _timed(ours)
        (value, _), other = _timed(theirs)
        ratios.append(own / other)
        above = (result.fun - value) / value
    name = f"bundle adjustment, {len(R0)} cameras, {len(P0):,} points"
    session.report.row(f"{name}: our CPU over gtsam's", median(ratios), most=1.5)
    session.report.row(f"{name}: value above gtsam's, relative", above, ".1e", most=1e-8)


def _against_scipy(session: Session) -> None:
    for n, least, limit in ((100, None, 100),) if session.quick else ((500, 5.0, 300), (2500, 7.0, 300)):
        graph = _graphs.sphere(n, 4 * n)
        result, ours = _timed(partial(ms.minimize, graph.problem(ms.losses.Cauchy(SCALE)), graph.start))
        residuals, jacobian = in_a_chart(graph, ms.losses.Cauchy(SCALE))
        options = {"method": "trf", "tr_solver": "lsmr", "max_nfev": limit, "ftol": 1e-10, "xtol": None, "gtol": None}
        call = partial(scipy.optimize.least_squares, residuals, np.zeros(6 * n - 6), jacobian, **options)
        judge, theirs = _timed(call)
        above = (judge.cost - result.fun) / result.fun
        session.report.row(f"sphere {n}, Cauchy: scipy's least_squares over our CPU", theirs / ours, least=least)
        session.report.row(f"sphere {n}, Cauchy: its value above ours, relative", above, ".1e")


def in_a_chart(graph: ms.poses.PoseGraph, loss: ms.losses.Loss) -> tuple[Any, Any]:
    """Return the residuals r √(ρ(s)/s) of the same objective and their sparse Jacobian, by rotation vectors and places.

    The poses are (R exp(w), t + v) from the start (R, t); the first is fixed.
    """
    (R, t), block, ends = graph.start, graph.residuals(), (graph.i, graph.j)
    n, K = len(R), len(graph.i)

    def parts(y: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        w, v = np.split(np.r_[np.zeros(6), y].reshape(n, 6), 2, axis=1)
        x = R @ Rotation.from_rotvec(w).as_matrix(), t + v
        r, derivatives = block.linearize([(x[0][on], x[1][on]) for on in ends], K)
        W = cross_matrix(w)
        angle = np.maximum(np.linalg.norm(w, axis=1), 1e-9)[:, None, None]
        # the right Jacobian of the exponential; ω/√2 are the coordinates of the basis
        right = np.eye(3) - (1 - np.cos(angle)) / angle**2 * W + (angle - np.sin(angle)) / angle**3 * (W @ W)
        s = np.vecdot(r, r)
        value, weight = loss(s)
        root = np.sqrt(value / s)
        bend = (weight - value / s) / (s * root)
        made = []
        for on, J in zip(ends, derivatives, strict=True):
            J = np.concatenate([np.sqrt(2) * J[..., :3] @ right[on], J[..., 3:]], -1)
            made.append(root[:, None, None] * J + (bend[:, None] * r)[..., None] * (r[:, None] @ J))
        return root[:, None] * r, made

    rows = np.repeat(np.arange(6 * K), 6)
    columns = [(6 * np.repeat(on, 6)[:, None] + np.arange(6)).ravel() for on in ends]

    def jacobian(y: np.ndarray) -> Any:
        entries = np.concatenate([J.ravel() for J in parts(y)[1]])
        places = np.concatenate([rows, rows]), np.concatenate(columns)
        return sp.csr_array((entries, places), shape=(6 * K, 6 * n))[:, 6:]

    return lambda y: parts(y)[0].ravel(), jacobian


def _random_graph(session: Session) -> None:
    n = 200 if session.quick else 1000
    start, i, j, Z = _graphs.expander(n, 4 * n)

    def between(A: Any, B: Any) -> Any:
        return anp.reshape(B - A @ Z, (-1, 9))

    block = ms.residuals(between, on=(i, j), loss=ms.losses.GemanMcClure(0.5))
    problem = ms.Problem(Power(SpecialOrthogonal(3), n, fixed=[0]), ms.least_squares(block))
    ratios, above = [], 0.0
    for _ in range(1 if session.quick else 3):
        result, ours = _timed(lambda: ms.minimize(problem, start))
        judge, theirs = _timed(lambda: ms.minimize(problem, start, solver="lbfgs", max_iter=5000))
        ratios.append(theirs / ours)
        above = (result.fun - judge.fun) / judge.fun
    least = None if session.quick else 2.0
    session.report.row(f"{n} rotations on a random graph: L-BFGS over our CPU", median(ratios), least=least)
    session.report.row("its value above that of L-BFGS, relative", above, ".1e", most=1e-8)
