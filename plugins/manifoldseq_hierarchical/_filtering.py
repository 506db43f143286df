"""Consecutive queries placed together: along straight lines through distances, or by a Bayes filter over moves."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Distances = NDArray[np.float64]

_SPEEDS = 7
_EVIDENCE = 10.0
_JUMP = 1e-4
"""Probability that a traveller is put anywhere else between two queries."""


def along_lines(squared: Distances, speed: tuple[float, float], window: int) -> NDArray[np.intp]:
    """Return the point of the path where each query ends the best line of constant speed through the last queries.

    The search of SeqSLAM (Milford and Wyeth, 2012) over the distances of queries to points.

    Parameters
    ----------
    squared : ndarray of shape (Q, n)
        Squared distances, in units of the row's own deviation from its mean (see `contrast`).
    speed : (float, float)
        The least and the largest number of points per query.
    window : int
        Queries per line; the first lines are shorter.

    Returns
    -------
    ndarray of shape (Q,), int
    """
    n_queries, n = squared.shape
    best = np.full(n_queries, np.inf)
    found = np.zeros(n_queries, np.intp)
    speeds = np.unique(np.linspace(*speed, _SPEEDS))
    for step in speeds:
        total = squared.copy()
        for back in range(1, window):
            shift = round(back * step)
            if back >= n_queries:
                break
            before = squared[: n_queries - back]
            columns = np.clip(np.arange(n) - shift, 0, n - 1)
            total[back:] += before[:, columns]
        total /= np.minimum(np.arange(n_queries) + 1, window)[:, None]
        column = total.argmin(axis=1)
        value = total[np.arange(n_queries), column]
        better = value < best
        best[better], found[better] = value[better], column[better]
    return found


def bayes(squared: Distances, speed: tuple[float, float], smooth: bool) -> NDArray[np.intp]:
    """Return the most probable point of the path at each query, given the queries so far, or all of them.

    A hidden Markov model: between queries a traveller moves by any number of points in the range of `speed`, seldom
    anywhere else. The noise of coordinates is correlated, so that squared distances overstate what they tell: they are
    scaled until the nearest point is `_EVIDENCE` nats likelier than the average one.

    Parameters
    ----------
    squared : ndarray of shape (Q, n)
    speed : (float, float)
        The least and the largest number of points per query.
    smooth : bool
        Use later queries too (forward and backward).

    Returns
    -------
    ndarray of shape (Q,), int
    """
    nearest = squared.min(axis=1, keepdims=True)
    spread = float(np.median(squared.mean(axis=1, keepdims=True) - nearest))
    evidence = (nearest - squared) * (_EVIDENCE / max(spread, np.finfo(np.float64).tiny))
    kernel = _kernel(speed)
    forward = _filtered(evidence, kernel)
    if smooth:
        reverse = {-move: share for move, share in kernel.items()}
        # both passes count the evidence of the query itself
        forward = forward + _filtered(evidence[::-1], reverse)[::-1] - evidence
    return forward.argmax(axis=1)


def contrast(squared: Distances) -> Distances:
    """Return each row less its mean, over its deviation: queries that resemble everything count no more than others."""
    centred = squared - squared.mean(axis=1, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=1, keepdims=True))
    return centred / np.where(deviation > 0, deviation, 1.0)


def _kernel(speed: tuple[float, float]) -> dict[int, float]:
    """Return the probability of each whole number of points between two queries."""
    low, high = speed
    moves = np.linspace(low, high, 101)
    floor = np.floor(moves).astype(int)
    share = moves - floor
    kernel: dict[int, float] = {}
    # moves between whole numbers share their probability among both neighbours
    for a, w in zip(floor, share, strict=True):
        kernel[int(a)] = kernel.get(int(a), 0.0) + (1 - w) / len(moves)
        kernel[int(a) + 1] = kernel.get(int(a) + 1, 0.0) + w / len(moves)
    return {move: p for move, p in kernel.items() if p > 0}


def _filtered(evidence: Distances, kernel: dict[int, float]) -> Distances:
    """Return the logarithm of the filtered probabilities of each point, shape (Q, n)."""
    n = evidence.shape[1]
    made = np.empty_like(evidence)
    made[0] = evidence[0] - logsumexp(evidence[0])
    for t in range(1, len(evidence)):
        before = np.exp(made[t - 1])
        moved = np.zeros(n)
        for move, p in kernel.items():
            if move >= n or move <= -n:
                continue
            if move >= 0:
                moved[move:] += p * before[: n - move]
            else:
                moved[:move] += p * before[-move:]
        # prediction (a convolution with the moves, and jumps anywhere), then the likelihood of query t
        log = np.log((1 - _JUMP) * moved + _JUMP / n) + evidence[t]
        made[t] = log - logsumexp(log)
    return made
