"""Pose graphs: derivatives by differences, logarithms by matrices, recorded values of gtsam, and files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy.spatial.transform import Rotation

import manifoldseq as ms
from manifoldseq.manifolds import Power, SpecialEuclidean, SpecialOrthogonal


def graph(d: int, n: int, extra: int, outliers: int = 0, seed: int = 0) -> tuple[ms.poses.PoseGraph, Any]:
    """Return a chain of poses with more edges, of which some are wrong, and the true poses."""
    rng = np.random.default_rng(seed)
    M = Power(SpecialEuclidean(d), n)
    R, t = M.random_point(rng)
    i = np.r_[np.arange(n - 1), rng.integers(0, n - 2, extra)]
    j = np.r_[np.arange(1, n), rng.integers(i[n - 1 :] + 1, n)]
    turn = Rotation.from_rotvec(0.02 * rng.standard_normal((len(i), 3))).as_matrix()
    if d == 2:
        a = 0.02 * rng.standard_normal(len(i))
        turn = np.stack([np.stack([np.cos(a), -np.sin(a)], -1), np.stack([np.sin(a), np.cos(a)], -1)], -2)
    Z = R[i].mT @ R[j] @ turn
    p = np.einsum("kba,kb->ka", R[i], t[j] - t[i]) + 0.05 * rng.standard_normal((len(i), d))
    Z[len(i) - outliers :] = Power(SpecialOrthogonal(d), max(outliers, 1)).random_point(rng)[:outliers]
    m = 3 * (d - 1)
    half = rng.standard_normal((len(i), m, m)) + 5 * np.eye(m)
    start = M.retract((R, t), ms.linalg.tree_map(lambda u: 0.1 * u, M.random_tangent((R, t), rng)))
    return ms.poses.PoseGraph(start, i, j, Z, p, half @ half.mT), (R, t)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("loss", [None, "cauchy"])
def test_gradients_are_those_of_differences(d: int, loss: Any) -> None:
    made, truth = graph(d, 6, 8)
    for x in (made.start, truth):
        ms.testing.check_gradient(made.problem(loss), x).raise_for_failure()


@pytest.mark.parametrize("d", [2, 3])
def test_jacobians_are_those_of_differences(d: int) -> None:
    """Also where the residual is nothing, small, and next to half a turn."""
    rng = np.random.default_rng(0)
    M = Power(SpecialEuclidean(d), 4)
    first, second = M.random_point(rng), M.random_point(rng)
    Z, p = first[0].mT @ second[0], rng.standard_normal((4, d))
    for k, angle in enumerate((0.0, 1e-5, 0.3, np.pi - 1e-3)):
        c, s = np.cos(angle), np.sin(angle)
        Z[k, :, :2] = Z[k, :, :2] @ np.array([[c, -s], [s, c]])
    block = ms.poses.between(Z, p, (np.arange(4), np.arange(4, 8)))
    r, derivatives = block.linearize([first, second], 4)
    assert r.shape == (4, 3 * (d - 1))
    h, basis = 1e-6, M.manifold.basis
    for slot, x in enumerate((first, second)):
        B = basis(x)
        for c in range(M.manifold.dim):
            u = B[..., c]
            step = u[:, : d * d].reshape(4, d, d), u[:, d * d :]
            ends = []
            for sign in (h, -h):
                moved = M.retract(x, (sign * step[0], sign * step[1]))
                ends.append(block.value([moved, second] if slot == 0 else [first, moved], 4))
            np.testing.assert_allclose(derivatives[slot][..., c], (ends[0] - ends[1]) / (2 * h), atol=2e-6)


@pytest.mark.parametrize("d", [2, 3])
def test_residuals_are_logarithms_of_matrices(d: int) -> None:
    made, (R, t) = graph(d, 5, 6)
    r = made.residuals()
    poses = np.zeros((5, d + 1, d + 1))
    poses[:, :d, :d], poses[:, :d, d], poses[:, d, d] = R, t, 1.0
    for k, (i, j) in enumerate(zip(made.i, made.j, strict=True)):
        Z = np.eye(d + 1)
        Z[:d, :d], Z[:d, d] = made.rotations[k], made.translations[k]
        L: Any = np.real(scipy.linalg.logm(np.linalg.solve(Z, np.linalg.solve(poses[i], poses[j]))))
        turn = [L[1, 0]] if d == 2 else [L[2, 1], L[0, 2], L[1, 0]]
        expected = np.linalg.cholesky(made.information[k]).T @ np.r_[turn, L[:d, d]]
        value = r.value([(R[made.i], t[made.i]), (R[made.j], t[made.j])], len(made.i))[k]
        np.testing.assert_allclose(value, expected, atol=1e-9)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("loss", [None, "huber", ms.losses.GemanMcClure(3.0)])
def test_graphs_end_where_lbfgs_does(d: int, loss: Any) -> None:
    made, truth = graph(d, 15, 30, outliers=3)
    problem = made.problem(loss)
    ours, judge = (ms.minimize(problem, truth, solver=name, tol=1e-13, max_iter=20_000) for name in ("lm", "lbfgs"))
    assert ours.success and ours.nit < 60
    np.testing.assert_allclose(ours.fun, judge.fun, rtol=1e-6)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(ours.x, truth, strict=True))


@pytest.mark.parametrize("d", [2, 3])
def test_files_keep_a_graph(d: int, tmp_path: Path) -> None:
    made, truth = graph(d, 8, 10)
    ms.poses.write_g2o(tmp_path / "a.g2o", made)
    again = ms.poses.read_g2o(tmp_path / "a.g2o")
    for name in ("i", "j", "rotations", "translations", "information"):
        np.testing.assert_allclose(getattr(again, name), getattr(made, name), atol=1e-12)
    np.testing.assert_allclose(
        again.problem("cauchy").objective.value(truth), made.problem("cauchy").objective.value(truth), rtol=1e-12
    )
    assert again.manifold == made.manifold and repr(again).startswith(f"PoseGraph(SE({d}), 8 poses, 17 meas")
    ms.poses.write_g2o(tmp_path / "b.g2o", again, truth)
    np.testing.assert_allclose(ms.poses.read_g2o(tmp_path / "b.g2o").start[1], truth[1], atol=1e-14)


SPACE = """# three poses, numbered 10, 20, 30
VERTEX_SE3:QUAT 10 0 0 0 0 0 0 1
VERTEX_SE3:QUAT 20 1 0.1 -0.2 0.1 0.2 0.3 0.9273618495495704
VERTEX_SE3:QUAT 30 1.9 0.8 0.1 -0.2 0.1 0.4 0.8888194417315588
FIX 20
EDGE_SE3:QUAT 10 20 1.05 0.1 -0.1 0.05 0.2 0.35 0.9137833441248533 10 1 0 0 0 0 10 0 0 0 0 10 0 0 0 40 2 0 40 0 40
EDGE_SE3:QUAT 20 30 1 0.6 0.2 -0.25 -0.05 0.05 0.9656603957913983 20 0 0 0 0 1 20 0 0 0 0 20 0 0 0 50 0 0 60 0 70
EDGE_SE3:QUAT 10 30 2 0.7 0.2 -0.2 0.15 0.4 0.8817596044274199 10 0 0 2 0 0 10 0 0 0 0 10 0 0 0 40 0 0 40 0 40
"""
PLANE = """VERTEX_SE2 0 0 0 0
VERTEX_SE2 1 1.1 0.1 0.5
VERTEX_SE2 2 2.0 1.2 1.7
EDGE_SE2 0 1 1 0 0.4 50 3 0 50 0 100
EDGE_SE2 1 2 1.2 0.6 1.3 50 0 1 50 0 100
EDGE_SE2 0 2 2.2 1.0 1.6 20 0 0 20 2 80
"""


@pytest.mark.parametrize(("text", "value"), [(SPACE, 5.361942863376113), (PLANE, 3.2121538817632005)])
def test_the_value_of_a_file_is_that_of_gtsam(text: str, value: float, tmp_path: Path) -> None:
    """Recorded from gtsam 4.3 (readG2o, graph.error): full information matrices, both dimensions."""
    (tmp_path / "graph.g2o").write_text(text)
    made = ms.poses.read_g2o(tmp_path / "graph.g2o")
    assert made.problem().objective.value(made.start) == pytest.approx(value, rel=1e-11)


def test_fixed_poses_of_a_file_and_numbers_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "graph.g2o").write_text(SPACE)
    made = ms.poses.read_g2o(tmp_path / "graph.g2o")
    assert made.ids.tolist() == [10, 20, 30] and made.fixed == (1,) and made.manifold.fixed == (1,)
    result = ms.minimize(made.problem(), "file")
    assert result.success and np.array_equal(result.x[1][1], made.start[1][1])


def test_numbers_of_poses_have_64_bits(tmp_path: Path) -> None:
    """The keys x0, x1 and x2 of gtsam, which are equal as floats; the file begins with a byte-order mark."""
    keys = [ord("x") << 56 | k for k in range(3)]
    words = [line.split() for line in PLANE.splitlines()]
    for line in words:
        for k in range(1, 3 if line[0] == "EDGE_SE2" else 2):
            line[k] = str(keys[int(line[k])])
    text = "\n".join([*map(" ".join, words), f"FIX {keys[1]}"])
    (tmp_path / "graph.g2o").write_text(text, encoding="utf-8-sig")
    made = ms.poses.read_g2o(tmp_path / "graph.g2o")
    assert made.ids.tolist() == keys and made.fixed == (1,)
    assert (made.i.tolist(), made.j.tolist()) == ([0, 1, 0], [1, 2, 2])
    ms.poses.write_g2o(tmp_path / "again.g2o", made)
    assert ms.poses.read_g2o(tmp_path / "again.g2o").ids.tolist() == keys


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("VERTEX_XY 0 1 2\n", "line 1 begins with VERTEX_XY"),
        ("VERTEX_SE2 0 1 2\n", r"line 1 \(VERTEX_SE2\) has 3 numbers"),
        (
            "VERTEX_SE2 0 0 0 0\nVERTEX_SE3:QUAT 1 0 0 0 0 0 0 1\n",
            r"line 2 has a pose of SE\(3\), but the earlier lines",
        ),
        ("VERTEX_SE2 0 0 0 0\nEDGE_SE2 0 7 0 0 0 1 0 0 1 0 1\n", "pose 7 is used, but no vertex has this number"),
        ("# nothing\n", "has no vertices"),
        ("VERTEX_SE2 0 0 0 zero\n", "line 1: could not convert"),
        ("VERTEX_SE2 0 0 0 0\nVERTEX_SE2 0 1 0 0\n", "line 2 defines pose 0 a second time"),
        ("VERTEX_SE2 0 0 nan 0\n", r"line 1 \(VERTEX_SE2\) has a number that is not finite"),
        ("VERTEX_SE3:QUAT 0 0 0 0 0 0 0 0\n", "line 1 .* has a quaternion of length zero"),
        ("VERTEX_SE2 0 0 0 0\nFIX zero\n", "line 2: could not convert"),
        ("VERTEX_SE2 0 0 0 0\nVERTEX_SE2 1.5 0 0 0\n", "line 2: the number of a pose is 1.5: it must be an integer"),
        ("VERTEX_SE2 0 0 0 0\nFIX 0.5\n", "line 2: the number of a pose is 0.5"),
        ("VERTEX_SE2 9223372036854775808 0 0 0\n", "line 1: .* at most 64 bits"),
        (PLANE + "EDGE_SE2 1 1 1 0 0 1 0 0 1 0 1\n", r"line 7 \(EDGE_SE2\) measures pose 1 from itself"),
        ("VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1e-320\n", "line 1 .* has a quaternion of length zero"),
    ],
)
def test_files_that_cannot_be_read(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "graph.g2o").write_text(text)
    with pytest.raises(ValueError, match=words):
        ms.poses.read_g2o(tmp_path / "graph.g2o")


def test_an_information_matrix_that_is_not_positive_definite_is_named() -> None:
    made, _ = graph(2, 5, 8, outliers=0)
    information = np.array(made.information)
    information[6, 0, 0] = -1.0
    names = f"from pose {made.ids[made.i[6]]} to pose {made.ids[made.j[6]]} is not positive definite"
    with pytest.raises(ValueError, match=names):
        dataclasses.replace(made, information=information).problem()


def test_outliers_of_a_graph_have_small_weights() -> None:
    made, _ = graph(3, 20, 60, outliers=6)
    result = ms.minimize(made.problem(ms.losses.Cauchy(3.0)), made.start)
    i, j = made.i, made.j
    (R, t), rows = result.x, len(made.i)
    r = made.residuals().value([(R[i], t[i]), (R[j], t[j])], rows)
    _, weight = ms.losses.Cauchy(3.0)(np.sum(r**2, axis=1))
    assert set(np.flatnonzero(weight < 0.3)) == set(range(rows - 6, rows))
