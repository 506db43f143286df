"""Alignments and recognized phones against all paths there are, and against a loop."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from helpers import parametrize

from manifoldseq_papers import PhoneDecoder


def thirds(lengths: list[int], phones: np.ndarray) -> list[int]:
    """Return the states of segments that are cut into thirds."""
    return [3 * int(p) + (3 * i) // k for k, p in zip(lengths, phones, strict=True) for i in range(k)]


def random_decoder(rng: np.random.Generator, n: int, **settings: float) -> PhoneDecoder:
    transcripts = [rng.integers(0, n, rng.integers(1, 6)) for _ in range(8)]
    states = [thirds([int(rng.integers(3, 7))] * len(t), t) for t in transcripts]
    decoder = PhoneDecoder.estimate(transcripts, states, n)
    return PhoneDecoder(
        decoder.log_start, decoder.log_next, decoder.log_end, decoder.log_stay, decoder.log_leave, **settings
    )


def score_of(path: tuple[int, ...], scores: np.ndarray, d: PhoneDecoder) -> tuple[float, list[int]]:
    """Return the score of states one after another, -inf if they cannot follow each other, and their phones."""
    if path[0] % 3 or path[-1] % 3 != 2:
        return -np.inf, []
    phones = [path[0] // 3]
    total = d.scale * d.log_start[path[0] // 3] + d.insertion + scores[0, path[0]]
    for t in range(1, len(path)):
        a, b = path[t - 1], path[t]
        if a == b:
            total += d.log_stay[a]
        elif a % 3 < 2 and b == a + 1:
            total += d.log_leave[a]
        elif a % 3 == 2 and b % 3 == 0:
            total += d.log_leave[a] + d.scale * d.log_next[a // 3, b // 3] + d.insertion
            phones.append(b // 3)
        else:
            return -np.inf, []
        total += scores[t, b]
    return total + d.log_leave[path[-1]] + d.scale * d.log_end[path[-1] // 3], phones


@parametrize("seed", range(4), fast=1)
def test_decoder_finds_the_best_of_all_paths(seed: int) -> None:
    rng = np.random.default_rng(seed)
    decoder = random_decoder(rng, 2, scale=1.5, insertion=0.3 * seed - 0.5)
    scores = 2 * rng.standard_normal((7, 6))
    scored = (score_of(path, scores, decoder) for path in product(range(6), repeat=7))
    best, phones = max(scored, key=lambda pair: pair[0])
    assert np.isfinite(best) and decoder.decode(scores).tolist() == phones


@pytest.mark.parametrize("seed", range(3))
def test_decoder_is_a_loop_over_pairs_of_states(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, T = 5, 60
    d = random_decoder(rng, n, scale=0.7, insertion=-1.0)
    scores = 2 * rng.standard_normal((T, 3 * n))
    best = [[-np.inf] * (3 * n) for _ in range(T)]
    back = [[(0, False)] * (3 * n) for _ in range(T)]
    for p in range(n):
        best[0][3 * p] = d.scale * d.log_start[p] + d.insertion + scores[0, 3 * p]
    for t in range(1, T):
        for b in range(3 * n):
            options = [(best[t - 1][b] + d.log_stay[b], (b, False))]
            if b % 3:
                options.append((best[t - 1][b - 1] + d.log_leave[b - 1], (b - 1, False)))
            else:
                for p in range(n):
                    bonus = d.log_leave[3 * p + 2] + d.scale * d.log_next[p, b // 3] + d.insertion
                    options.append((best[t - 1][3 * p + 2] + bonus, (3 * p + 2, True)))
            top, back[t][b] = max(options)
            best[t][b] = top + scores[t, b]
    last = max(range(n), key=lambda p: best[-1][3 * p + 2] + d.log_leave[3 * p + 2] + d.scale * d.log_end[p])
    state, phones = 3 * last + 2, [last]
    for t in range(T - 1, 0, -1):
        state, new = back[t][state]
        if new:
            phones.append(state // 3)
    assert d.decode(scores).tolist() == phones[::-1] and len(phones) > 3


def test_bad_scores_transcripts_and_states_raise_an_error() -> None:
    with pytest.raises(ValueError, match="shape"):
        random_decoder(np.random.default_rng(0), 2).decode(np.zeros((2, 6)))
    with pytest.raises(ValueError, match="scores contain NaN"):
        random_decoder(np.random.default_rng(0), 2).decode(np.full((4, 6), np.nan))
    for transcript in ([0, 3], [-1], [0.5], ["a"], [[0]]):
        with pytest.raises(ValueError, match=r"transcripts\[1\]=.* is not valid: pass whole numbers from 0 to 2"):
            PhoneDecoder.estimate([[0, 1], transcript], [[0, 1, 2]], n_phones=3)
    with pytest.raises(ValueError, match=r"states\[0\]=\[9\] is not valid: pass whole numbers from 0 to 8"):
        PhoneDecoder.estimate([[0, 1]], [[9]], n_phones=3)
    with pytest.raises(ValueError, match="no transcripts"):
        PhoneDecoder.estimate([], [], 3)


def test_bigrams_are_those_of_witten_and_bell() -> None:
    transcripts = [np.array([0, 1, 1]), np.array([0, 1])]
    decoder = PhoneDecoder.estimate(transcripts, [thirds([3] * len(t), t) for t in transcripts], 3)
    start, following, end = decoder.log_start, decoder.log_next, decoder.log_end
    unigram = {0: 3 / 11, 1: 4 / 11, 2: 1 / 11, "end": 3 / 11}  # counts 2, 3, 0, 2 and one more each
    assert np.exp(following[0, 1]) == pytest.approx((2 + 1 * unigram[1]) / 3)  # two successors of one kind
    assert np.exp(following[1, 1]) == pytest.approx((1 + 2 * unigram[1]) / 5)  # three of two kinds
    assert np.exp(end[1]) == pytest.approx((2 + 2 * unigram["end"]) / 5)
    assert np.exp(following[2, 0]) == pytest.approx(unigram[0])  # never met
    assert np.exp(start[0]) == pytest.approx((2 + 1 * unigram[0]) / 3)
    np.testing.assert_allclose(np.exp(following).sum(axis=1) + np.exp(end), 1)
    # the start is followed by a phone or, by the smoothing, the end at once
    assert np.exp(start).sum() == pytest.approx(1 - unigram["end"] / 3)


def test_states_are_left_as_often_as_they_were() -> None:
    decoder = PhoneDecoder.estimate([[0, 0]], [[0, 0, 0, 1, 2, 0, 1, 1, 2]], 1)
    np.testing.assert_allclose(np.exp(decoder.log_leave), [(2 + 1) / (4 + 2), (2 + 1) / (3 + 2), (2 + 1) / (2 + 2)])
    np.testing.assert_allclose(np.exp(decoder.log_leave) + np.exp(decoder.log_stay), 1)
