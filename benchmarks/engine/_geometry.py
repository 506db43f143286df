"""The newer manifolds compared with the alternatives: pymanopt, geoopt, formulas of scipy."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import util
from typing import Any

import numpy as np
import pymanopt
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

import manifoldseq as ms
from manifoldseq.manifolds import (
    GeneralizedStiefel,
    Hyperbolic,
    OpenBox,
    Positive,
    SpecialEuclidean,
    Stiefel,
    SymmetricPositiveDefinite,
)

from . import _pymanopt
from ._more_problems import weighted_pca
from ._session import Session

Array = NDArray[Any]
Call = Callable[[], Any]


def run(session: Session) -> None:
    """Compare operations, means and whole problems; ratios are peers over ours, more than one where ours is faster."""
    _logarithms(session)
    _operations(session)
    _means(session)
    _problems(session)
    _others(session)


def _compare(session: Session, what: str, ours: Call, peers: dict[str, Call], off: Callable[[Any, Any], float]) -> None:
    """Print a row per peer: the median ratio of interleaved CPU seconds, and how far the answers are apart."""
    calls = {"ours": ours, **peers}
    answers = {name: call() for name, call in calls.items()}  # warm
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(session.rounds):
        for name, call in calls.items():
            began = time.process_time()
            call()
            seconds[name].append(time.process_time() - began)
    for name in peers:
        ratios = np.array(seconds[name]) / np.maximum(seconds["ours"], 1e-9)
        apart = off(answers["ours"], answers[name])
        median = float(np.median(seconds["ours"]))
        session.report.row(f"{what}: {name} / ours ({median:.2g} s; apart {apart:.0e})", float(np.median(ratios)))


def _largest(a: Any, b: Any) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


def _logarithms(session: Session) -> None:
    report, rng = session.report, np.random.default_rng(0)
    n, p, many = (6, 2, 3) if session.quick else (20, 5, 50)
    report.title(f"logarithms of {many} pairs on St({n},{p}), 1.5 apart; peers are loops over pairs")
    for metric in ("canonical", "embedded"):
        M = Stiefel(n, p, metric=metric)
        X = np.stack([M.random_point(rng) for _ in range(many)])
        U = M.random_tangent(X, rng)
        U = 1.5 * U / np.sqrt(M.inner(X, U, U))[:, None, None]
        Y = M.exp(X, U)
        peer = {
            "canonical": {
                "scipy's logm and expm": lambda X=X, Y=Y: [_by_logm(x, y) for x, y in zip(X, Y, strict=True)]
            },
            "embedded": {"scipy's root": lambda X=X, Y=Y: [_by_root(x, y) for x, y in zip(X, Y, strict=True)]},
        }[metric]
        _compare(session, metric, lambda M=M, X=X, Y=Y: M.log(X, Y), peer, _largest)


def _by_logm(x: Array, y: Array) -> Array:
    """Return the canonical logarithm as it is written down: the basic algebraic method, which turns by exp(−C)."""
    p = x.shape[1]
    Q, N = np.linalg.qr(y - x @ (x.T @ y))
    V, _ = np.linalg.qr(np.vstack([x.T @ y, N]), mode="complete")
    V = np.column_stack([np.vstack([x.T @ y, N]), V[:, p:]])
    D, _, Rt = np.linalg.svd(V[p:, p:])
    V[:, p:] = V[:, p:] @ (Rt.T @ D.T)
    if np.linalg.det(V) < 0:
        V[:, p] *= -1
    for _ in range(100):
        L = np.real(scipy.linalg.logm(V))
        if np.linalg.norm(L[p:, p:]) < 1e-13:
            break
        V[:, p:] = V[:, p:] @ scipy.linalg.expm(-L[p:, p:])
    return x @ L[:p, :p] + Q @ L[p:, :p]


def _by_root(x: Array, y: Array) -> Array:
    """Return the embedded logarithm by a solver for equations, over the entries of A and B."""
    p = x.shape[1]
    Q, N = np.linalg.qr(y - x @ (x.T @ y))
    target, low = np.vstack([x.T @ y, N]), np.tril_indices(p, -1)

    def blocks(z: Array) -> tuple[Array, Array]:
        A = np.zeros((p, p))
        A[low] = z[: len(low[0])]
        return A - A.T, z[len(low[0]) :].reshape(p, p)

    def missing(z: Array) -> Array:
        A, B = blocks(z)
        turn = scipy.linalg.expm(np.block([[2 * A, -B.T], [B, np.zeros((p, p))]]))
        turn[:, :p] = turn[:, :p] @ scipy.linalg.expm(-A)
        off = turn.T @ target
        return np.concatenate([(off[:p] - off[:p].T)[low] / 2, off[p:].ravel()])

    start = np.concatenate([(target[:p] - target[:p].T)[low] / 2, N.ravel()])
    A, B = blocks(scipy.optimize.root(missing, start, method="krylov", tol=1e-12).x)
    return x @ A + Q @ B


def _operations(session: Session) -> None:
    report, rng = session.report, np.random.default_rng(1)
    n, p, many = (6, 2, 3) if session.quick else (20, 5, 100)
    report.title(f"operations at {many} points at once")
    C, E, H = Stiefel(n, p, metric="canonical"), Stiefel(n, p), Hyperbolic(p)
    X = np.stack([C.random_point(rng) for _ in range(many)])
    U = 0.1 * C.random_tangent(X, rng)
    x, y = (np.stack([H.random_point(rng) for _ in range(many)]) for _ in range(2))
    theirs = pymanopt.manifolds.Stiefel(n, p, k=many)
    _compare(
        session, f"exp, embedded St({n},{p})", lambda: E.exp(X, U), {"pymanopt": lambda: theirs.exp(X, U)}, _largest
    )
    ball = pymanopt.manifolds.PoincareBall(p, k=many)
    a, b = (z[:, 1:] / (1 + z[:, :1]) for z in (x, y))
    norm: Callable[[Any], float] = lambda d: float(np.linalg.norm(d))  # noqa: E731
    apart: Callable[[Any, Any], float] = lambda d, e: abs(norm(d) - norm(e))  # noqa: E731
    _compare(session, f"dist, H^{p}", lambda: H.dist(x, y), {"pymanopt": lambda: ball.dist(a, b)}, apart)
    if not util.find_spec("geoopt"):
        report.skipped.append("geoopt, which is not installed")
        return
    import geoopt
    import torch

    G = rng.standard_normal(X.shape)
    tX, tU, tG, tx, ty = (torch.from_numpy(part) for part in (X, U, G, x, y))
    frames, lorentz = geoopt.CanonicalStiefel(), geoopt.Lorentz()
    call = {"geoopt's, whose velocity is another": lambda: frames.retr(tX, tU).numpy()}
    _compare(session, f"Cayley retraction, canonical St({n},{p})", lambda: C.retract(X, U), call, _largest)
    call = {"geoopt": lambda: frames.egrad2rgrad(tX, tG).numpy()}
    _compare(session, f"gradient, canonical St({n},{p})", lambda: C.gradient(X, G), call, _largest)
    _compare(session, f"dist, H^{p}", lambda: H.dist(x, y), {"geoopt": lambda: lorentz.dist(tx, ty).numpy()}, _largest)
    _compare(session, f"log, H^{p}", lambda: H.log(x, y), {"geoopt": lambda: lorentz.logmap(tx, ty).numpy()}, _largest)
    S = SymmetricPositiveDefinite(p, "log-euclidean")
    P, R = (np.stack([S.random_point(rng) for _ in range(many)]) for _ in range(2))
    with warnings.catch_warnings(action="ignore"):  # that it is not complete
        logs = geoopt.SymmetricPositiveDefinite("LEM")
    tP, tR = torch.from_numpy(P), torch.from_numpy(R)
    call = {"geoopt": lambda: logs.dist(tP, tR).numpy()}
    _compare(session, f"dist, log-Euclidean SPD({p})", lambda: S.dist(P, R), call, _largest)


def _means(session: Session) -> None:
    rng = np.random.default_rng(2)
    n, many = (3, 5) if session.quick else (10, 50)
    session.report.title(f"means of {many} points")
    for metric, peer in (("log-euclidean", _by_logarithms), ("bures-wasserstein", _by_fixed_point)):
        M = SymmetricPositiveDefinite(n, metric)
        P = np.stack([M.random_point(rng) for _ in range(many)])
        calls = {"the formula, in numpy": lambda P=P, peer=peer: peer(P)}
        _compare(session, f"{metric} SPD({n})", lambda M=M, P=P: ms.frechet_mean(M, P), calls, _largest)
    H = Hyperbolic(n)
    x = np.stack([H.random_point(rng) for _ in range(many)])
    ball = pymanopt.manifolds.PoincareBall(n)
    a = x[:, 1:] / (1 + x[:, :1])

    def centre() -> Array:
        wrap = pymanopt.function.numpy(ball)
        cost = wrap(lambda z: 0.5 * sum(ball.dist(z, point) ** 2 for point in a))
        gradient = wrap(lambda z: -sum(ball.log(z, point) for point in a))
        problem = pymanopt.Problem(ball, cost, riemannian_gradient=gradient)
        options = {"verbosity": 0, "min_gradient_norm": 1e-8, "max_time": 20}
        return pymanopt.optimizers.SteepestDescent(**options).run(problem, initial_point=a.mean(axis=0)).point

    def off(ours: Array, theirs: Array) -> float:
        return _largest(ours[1:] / (1 + ours[0]), theirs)

    _compare(session, f"H^{n}", lambda: ms.frechet_mean(H, x), {"pymanopt steepest descent": centre}, off)


def _by_logarithms(P: Array) -> Array:
    w, V = np.linalg.eigh(P)
    w, V = np.linalg.eigh(((V * np.log(w)[:, None, :]) @ V.mT).mean(axis=0))
    return (V * np.exp(w)) @ V.T


def _by_fixed_point(P: Array) -> Array:
    """Return the barycentre by the iteration of Álvarez-Esteban, del Barrio, Cuesta-Albertos and Matrán (2016)."""
    X = P.mean(axis=0)
    for _ in range(500):
        w, V = np.linalg.eigh(X)
        root, inverse = (V * np.sqrt(w)) @ V.T, (V / np.sqrt(w)) @ V.T
        s, W = np.linalg.eigh(root @ P @ root)
        mean = ((W * np.sqrt(s)[:, None, :]) @ W.mT).mean(axis=0)
        if np.linalg.norm(mean - X) < 1e-11 * np.linalg.norm(X):
            break
        X = inverse @ mean @ mean @ inverse
    return X


def _solved(problem: ms.Problem, start: Any, solver: str) -> float:
    stop = ms.GradientNorm(1e-6, relative=True) | ms.MaxIterations(5000)
    return float(ms.minimize(problem, start, solver=solver, stop=stop).fun)


def _by_pymanopt(manifold: Any, fused: Callable[[Any], tuple[float, Any]], start: Any, tolerance: float) -> float:
    """Minimize by pymanopt's conjugate gradients, cost and gradient sharing the last evaluation."""
    wrap = pymanopt.function.numpy(manifold)
    last: list[Any] = [None, None]

    def both(*parts: Array) -> tuple[float, Any]:
        if last[0] is None or any(a is not b for a, b in zip(last[0], parts, strict=True)):
            last[:] = parts, fused(parts[0] if len(parts) == 1 else parts)
        return last[1]

    problem = pymanopt.Problem(manifold, wrap(lambda *x: both(*x)[0]), euclidean_gradient=wrap(lambda *x: both(*x)[1]))
    optimizer = pymanopt.optimizers.ConjugateGradient(verbosity=0, min_gradient_norm=tolerance, max_time=20)
    return float(optimizer.run(problem, initial_point=start).cost)


def _others(session: Session) -> None:
    """Manifolds that no other section of the benchmark times: scales, poses, open boxes."""
    rng = np.random.default_rng(4)
    n, k = (4, 2) if session.quick else (20, 20)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    H, best = (Q * np.geomspace(1, 100, n)) @ Q.T, rng.uniform(-1, 1, n)

    def logs(x: Array) -> tuple[float, Array]:
        z = np.log(x).ravel() - best
        return 1 + 0.5 * float(z @ H @ z), (H @ z).reshape(x.shape) / x

    problem = ms.Problem(Positive(n), ms.objective(value_and_gradient=logs))
    theirs = pymanopt.manifolds.Positive(n, 1)
    peers = {"pymanopt CG": lambda: _by_pymanopt(theirs, logs, np.ones((n, 1)), 1e-5)}
    _compare(session, f"scales, Positive({n}), lbfgs", lambda: _solved(problem, np.ones(n), "lbfgs"), peers, _largest)
    M = SpecialEuclidean(3) ** k
    z = rng.standard_normal((k, 30, 3))
    R, t = M.random_point(rng)
    y = z @ R.mT + t[:, None] + 0.1 * rng.standard_normal(z.shape)

    def registered(pose: Any) -> tuple[float, Any]:
        off = z @ pose[0].mT + pose[1][:, None] - y
        return 0.5 * float(np.vdot(off, off)), [off.mT @ z, off.sum(axis=1)]

    def ours(pose: Any) -> tuple[float, Any]:
        value, gradient = registered(pose)
        return value, tuple(gradient)

    start = M.retract((R, t), M.random_tangent((R, t), rng))
    problem = ms.Problem(M, ms.objective(value_and_gradient=ours))
    m = pymanopt.manifolds
    poses = m.Product([m.SpecialOrthogonalGroup(3, k=k, retraction="polar"), m.Euclidean(k, 3)])
    peers = {"pymanopt CG": lambda: _by_pymanopt(poses, registered, list(start), 1e-4)}
    _compare(session, f"{k} poses, lbfgs", lambda: _solved(problem, start, "lbfgs"), peers, _largest)
    inside = rng.uniform(-0.9, 0.9, n)

    def boxed(x: Array) -> tuple[float, Array]:
        return 1 + 0.5 * float((x - inside) @ H @ (x - inside)), H @ (x - inside)

    def squashed(u: Array) -> tuple[float, Array]:
        x = np.tanh(u / 2)
        value, gradient = boxed(x)
        return value, gradient * (1 - x * x) / 2

    problem = ms.Problem(OpenBox(n, 1.0), ms.objective(value_and_gradient=boxed))
    peers = {
        "scipy L-BFGS-B, tanh": lambda: (
            scipy.optimize.minimize(
                squashed, np.zeros(n), jac=True, method="L-BFGS-B", options={"gtol": 1e-5, "ftol": 0, "maxiter": 5000}
            ).fun
        )
    }
    _compare(session, f"OpenBox({n}), lbfgs", lambda: _solved(problem, np.zeros(n), "lbfgs"), peers, _largest)


def _problems(session: Session) -> None:
    """Whole problems: ours to a relative gradient norm of 1e-6 against the same for pymanopt, and a direct method."""
    report, rng = session.report, np.random.default_rng(3)
    case = weighted_pca(10, 2) if session.quick else weighted_pca()
    n, p = case.manifold.shape
    report.title("whole problems")
    f = ms.objective(value_and_gradient=case.fused, hessian_product=case.hessian)
    canonical = ms.Problem(Stiefel(n, p, metric="canonical"), f)
    for solver in ("lbfgs", "tr"):
        peers = {
            f"embedded {solver}": lambda solver=solver: _solved(case.problem, case.start, solver),
            "pymanopt CG, memoized": lambda: _pymanopt.memoized(case, 40.0, retraction="polar").fun,
        }
        ours = lambda solver=solver: _solved(canonical, case.start, solver)  # noqa: E731
        _compare(session, f"canonical {case.name}, {solver}", ours, peers, _largest)
    n, p = (8, 2) if session.quick else (200, 4)
    factor = rng.standard_normal((n, 2 * n))
    A, B = np.diag(np.arange(1.0, n + 1)), factor @ factor.T / n
    M = GeneralizedStiefel(B, p)
    start = M.random_point(rng)
    problem = ms.Problem(M, ms.objective(lambda X: 0.5 * float(np.vdot(X, A @ X)), lambda X: A @ X))
    L = np.linalg.cholesky(B)
    inverse = scipy.linalg.solve_triangular(L, np.eye(n), lower=True)
    flat = inverse @ A @ inverse.T  # the same on Stiefel, by hand

    def by_hand() -> float:
        def fused(Y: Array) -> tuple[float, Array]:
            G = flat @ Y
            return 0.5 * float(np.vdot(Y, G)), G

        plain = Stiefel(n, p)
        same = replace(
            case, manifold=plain, start=L.T @ start, fused=fused, cost=lambda Y: fused(Y)[0],
            gradient=lambda Y: flat @ Y, hessian=None,
        )  # fmt: skip
        return _pymanopt.memoized(same, 40.0, retraction="polar").fun

    peers = {
        "pymanopt CG, memoized, on Stiefel by hand": by_hand,
        "scipy eigh": lambda: 0.5 * scipy.linalg.eigh(A, B, subset_by_index=(0, p - 1), eigvals_only=True).sum(),
    }
    _compare(
        session,
        f"{p} of {n} generalized eigenvectors, lbfgs",
        lambda: _solved(problem, start, "lbfgs"),
        peers,
        _largest,
    )
    d = 3 if session.quick else 10
    C = np.cov(rng.standard_normal((d, 4 * d)))

    def likelihood(X: Array) -> tuple[float, Array]:
        sign, size = np.linalg.slogdet(X)
        inverse = np.linalg.inv(X)
        return (float(size + np.vdot(inverse, C)) if sign > 0 else np.inf), inverse - inverse @ C @ inverse

    affine = pymanopt.manifolds.SymmetricPositiveDefinite(d)
    for metric in ("log-euclidean", "bures-wasserstein"):
        spd = ms.Problem(SymmetricPositiveDefinite(d, metric), ms.objective(value_and_gradient=likelihood))
        ours = lambda spd=spd: _solved(spd, np.eye(d), "lbfgs")  # noqa: E731
        peer = {"pymanopt CG, affine-invariant": lambda: _by_pymanopt(affine, likelihood, np.eye(d), 1e-5)}
        _compare(session, f"covariance by likelihood, {metric} SPD({d})", ours, peer, _largest)
