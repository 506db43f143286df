"""Steps of reproductions that no row shows alone: speech features, labels, alignments, errors of phones, machines.

What goes in are files of a corpus or of images, what comes out are errors of what was trained on them: there is no
other way to ask what a single step does.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import manifoldseq as ms
from manifoldseq_papers import deltas
from manifoldseq_papers.hope._filter_bank import frame_centres, speech_features
from manifoldseq_papers.hope._linear_svm import Machines, machines
from manifoldseq_papers.hope._phone_decoder import forced_alignment, uniform_states
from manifoldseq_papers.hope._phones import CLASSES, FOLDED, PHONES, edit_distance, fold, phone_error, read_phn

DIGITS, LABELS = load_digits(return_X_y=True)


def test_123_columns() -> None:
    signal = np.random.default_rng(0).standard_normal(8000) * 100
    features = speech_features(signal)
    assert features.shape == (48, 123)
    np.testing.assert_allclose(features[:, 41:82], deltas(features[:, :41]))
    np.testing.assert_allclose(features[:, 82:], deltas(deltas(features[:, :41])))
    assert frame_centres(3).tolist() == [200, 360, 520]


def test_alignment_is_the_best_way_through_the_transcript() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        T, phones = 10, [1, 1]
        scores, stay = rng.standard_normal((T, 6)), np.log(rng.uniform(0.2, 0.8, 6))
        leave = np.log1p(-np.exp(stay))
        best, path = -np.inf, []
        for lengths in product(range(1, T), repeat=6):
            if sum(lengths) == T:
                states = np.repeat([3, 4, 5, 3, 4, 5], lengths)
                total = sum(scores[t, s] for t, s in enumerate(states))
                chain = [3, 4, 5, 3, 4, 5]
                total += sum((k - 1) * stay[s] for k, s in zip(lengths, chain, strict=True)) + sum(leave[chain[:-1]])
                if total > best:
                    best, path = total, states.tolist()
        assert forced_alignment(scores, phones, stay, leave).tolist() == path


def test_alignment_needs_a_frame_per_state() -> None:
    with pytest.raises(ValueError, match="there are 5 frames for the 6 states"):
        forced_alignment(np.zeros((5, 6)), [0, 1], np.zeros(6), np.zeros(6))


def test_flat_start_cuts_segments_into_thirds() -> None:
    rng = np.random.default_rng(0)
    lengths, phones = rng.integers(0, 9, 20), rng.integers(0, 61, 20)
    found = uniform_states(np.repeat(np.arange(20), lengths), phones)
    naive = [3 * p + (3 * i) // k for k, p in zip(lengths, phones, strict=True) for i in range(k)]
    assert found.tolist() == naive


def test_phones_fold_to_the_39_of_lee_and_hon() -> None:
    theirs = "iy ih eh ae ah uw uh aa ey ay oy aw ow er l r w y m n ng v f dh th z s sh jh ch b p d dx t g k hh sil"
    assert sorted(CLASSES) == sorted(theirs.split()) and len(PHONES) == 61
    same = {"ao": "aa", "ax": "ah", "ix": "ih", "axr": "er", "ux": "uw", "zh": "sh", "nx": "n", "eng": "ng", "hv": "hh"}
    assert {phone: FOLDED[phone] for phone in same} == same
    assert sum(kept == "sil" for kept in FOLDED.values()) == 9 and FOLDED["q"] is None
    codes = [PHONES.index(phone) for phone in "h# q ih ix pau".split()]
    assert [CLASSES[code] for code in fold(codes)] == ["sil", "ih", "ih", "sil"]


def recursive(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return recursive(a[1:], b[1:])
    return 1 + min(recursive(a[1:], b), recursive(a, b[1:]), recursive(a[1:], b[1:]))


def test_edit_distance_is_that_of_the_recursion() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = (tuple(rng.integers(0, 3, rng.integers(0, 7)).tolist()) for _ in range(2))
        assert edit_distance(a, b) == recursive(a, b)


def test_phone_error_counts_classes_and_no_glottal_stops() -> None:
    h, q, ih, ix, s = (PHONES.index(phone) for phone in ("h#", "q", "ih", "ix", "s"))
    assert phone_error([[h, ix, s, h]], [[h, q, ih, h]]) == pytest.approx(100 / 3)
    with pytest.raises(ValueError, match="no phones"):
        phone_error([[s]], [[q]])


def test_labels_of_segments(tmp_path: Path) -> None:
    (tmp_path / "one.phn").write_text("0 10 h#\n10 30 IY\n\n30 31 q\n")
    segments = read_phn(tmp_path / "one.phn")
    assert [PHONES[code] for code in segments.phones] == ["h#", "iy", "q"]
    assert segments.places([0, 9, 10, 29, 30, 31, 99]).tolist() == [0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no segments"),
        ("0 10 h#\n10 20\n", "line 2: '10 20'"),
        ("0 10 h#\n10 x iy\n", "line 2"),
        ("0 10 h#\n10 20 iyy\n", "line 2: 'iyy' is not a phone of TIMIT"),
        ("0 10 h#\n20 20 iy\n", "empty"),
        ("0 10 h#\n3 8 iy\n", "empty or out of order"),
        ("0 99999999999999999999 h#\n", "line 1"),
        ("0 " + 5000 * "9" + " h#\n", "line 1"),
    ],
)
def test_bad_labels_raise_an_error(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "bad.phn").write_text(content)
    with pytest.raises(ms.storage.ReadError) as caught:
        read_phn(tmp_path / "bad.phn")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def objective(w, X, y, C):
    ones = np.column_stack([X, np.ones(len(X))])
    margin = np.maximum(1 - y * (ones @ w), 0)
    return 0.5 * w @ w + C * np.sum(margin**2), w - 2 * C * ones.T @ (y * margin)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("C", [1e-4, 0.02, 2.0])
def test_machines_reach_the_minimum_and_their_gap_is_the_duality_gap(dtype, C):
    X = ((DIGITS[:400] - 5) / 6).astype(dtype)
    y = LABELS[:400]
    found = machines(X, y, C, gap=1e-6)
    assert 0 <= found.gap <= 1e-6
    for k in (0, 3, 9):
        sign = np.where(y == k, 1.0, -1.0)
        value = objective(found.weight[k], X.astype(float), sign, C)[0]
        best = minimize(objective, np.zeros(65), (X.astype(float), sign, C), jac=True, method="L-BFGS-B",
                        options={"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-9}).fun  # fmt: skip
        assert value == pytest.approx(best, rel=3e-6)
        ones = np.column_stack([X, np.ones(len(X))]).astype(float)
        alpha = 2 * C * np.maximum(1 - sign * (ones @ found.weight[k]), 0)
        dual = alpha.sum() - alpha @ alpha / (4 * C) - 0.5 * np.sum(((alpha * sign) @ ones) ** 2)
        assert dual <= best * (1 + 1e-9) and (value - dual) / value <= 2e-6


def test_machines_are_those_of_liblinear_and_start_where_they_are_told():
    from sklearn.svm import LinearSVC

    X, y = (DIGITS[:500] - 5) / 6, LABELS[:500]
    found = machines(X, y, 0.1, gap=1e-8)
    peer = LinearSVC(C=0.1, dual=False, tol=1e-8, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(found.weight, np.column_stack([peer.coef_, peer.intercept_]), atol=2e-4)
    warm = machines(X, y, 0.12, gap=1e-8, start=found)
    np.testing.assert_allclose(warm.weight, machines(X, y, 0.12, gap=1e-8).weight, atol=2e-4)
    assert isinstance(warm, Machines) and warm.scores(X).shape == (500, 10)
