"""Location of consecutive queries: along straight lines through distances, or by a filter over place and speed."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from manifoldseq.execution import cached_property

Distances = NDArray[np.float64]
States = NDArray[np.float32]

_LINE_SPEEDS = 7
_SPEEDS = 7, 41
"""Minimum and maximum number of speeds of the filter; wide ranges use more speeds."""
_KEEP = 0.9
"""Probability that the speed does not change between queries; otherwise it changes to a neighbouring speed."""
_SLIP, _SLIP_EVERY = 1e-4, 8
"""Probability of a cell more, and of one less, than the speed says: a tenth would let every speed through. It comes at
once for so many queries: 1.16 times as fast (1,000 smoothed queries of `python -m benchmarks.hierarchical match`)."""
_JUMP = 1e-12
"""Probability that a traveller is moved to any place and any speed between two queries."""
_TEMPER = 0.85
"""Weight of a squared distance, because errors at neighbouring places are correlated by the codes."""
_LEAST_LOG = -40.0
"""Lower bound of the log-likelihood of a cell relative to the best cell, for single precision and for outliers."""
_LOST, _FOUND = 5e-4, 2e-2
"""Probabilities that a traveller leaves the range of speeds between two queries, and that it returns."""
_STEPS = 0, 1, 4, 16, 64
"""Maximum steps, in cells per query, of a traveller outside the range; the maximum changes like a speed."""
_AGAIN = 0.05
"""Share that a query counts at least, of one that is like the query before it. Queries that differ by less than this
share of their squared residuals are equal."""
SAMPLED = 512
"""Maximum number of queries for the estimate of the size of errors."""
_SAYS = 1.0
"""Maximum evidence of one query for or against the range, in nats: outliers in real data often reach ten."""


def along_lines(squared: Distances, speed: tuple[float, float], window: int) -> NDArray[np.intp]:
    """Return the point of the path where each query ends the best line of constant speed through the last queries.

    It is the search of SeqSLAM (Milford and Wyeth, 2012) over the distances of queries to points.

    Parameters
    ----------
    squared : ndarray of shape (Q, n)
        Squared distances, in units of the row's own deviation from its mean (see `contrast`).
    speed : (float, float)
        The least and the largest number of points per query.
    window : int
        The number of queries per line; the first lines are shorter.

    Returns
    -------
    ndarray of shape (Q,), int
    """
    n_queries, n = squared.shape
    best = np.full(n_queries, np.inf)
    found = np.zeros(n_queries, np.intp)
    speeds = np.unique(np.linspace(*speed, _LINE_SPEEDS))
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


def contrast(squared: Distances) -> Distances:
    """Standardize each row, so that queries that resemble all points have no larger weight than others."""
    centred = squared - squared.mean(axis=1, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=1, keepdims=True))
    return centred / np.where(deviation > 0, deviation, 1.0)


@dataclass(frozen=True)
class Motion:
    """The motion of a traveller from query to query along a path of cells: a Markov chain over (speed, cell).

    The speed is kept or changes to a neighbouring speed. It then shifts the cell by a whole number of cells, so that
    rounding transfers no probability between speeds. Beyond an end of the path the traveller stays at that end. With a
    small probability the cell changes by one, and with a very small probability the traveller is moved to any cell.

    Parameters
    ----------
    speeds : ndarray of shape (S,), float64
        Speeds in cells per query, evenly spaced in ascending order.
    n_cells : int
    """

    speeds: NDArray[np.float64]
    n_cells: int

    @classmethod
    def between(cls, slow: float, fast: float, n_cells: int) -> "Motion":
        """Return the motion with speeds in a range of cells per query."""
        # a speed lasts about ten queries, in which half the gap to the next one should not make up half a cell
        least, most = _SPEEDS
        number = int(np.clip(np.ceil(10 * (fast - slow)) + 1, least, most)) if fast > slow else 1
        return cls(np.linspace(slow, fast, number), n_cells)

    def shifts(self, t: int) -> NDArray[np.intp]:
        """Return the shift in cells from query t - 1 to t at each speed, shape (S,), from rounded positions t·v."""
        after, before = np.floor(t * self.speeds + 0.5), np.floor((t - 1) * self.speeds + 0.5)
        return np.clip(after - before, -self.n_cells, self.n_cells).astype(np.intp)

    @cached_property
    def switch(self) -> NDArray[np.float32]:
        """Probabilities of the speeds, given the last one: tridiagonal, symmetric, shape (S, S)."""
        number = len(self.speeds)
        steps = np.eye(number, k=1) + np.eye(number, k=-1)
        steps *= (1 - _KEEP) / 2
        return (steps + np.diag(1 - steps.sum(axis=1))).astype(np.float32)

    def ahead(self, state: States, t: int) -> States:
        """Return the prediction for query t from the probabilities at query t - 1, shape (S, cells)."""
        before = self.switch @ state
        after = np.empty_like(before)
        for to, row, shift in zip(after, before, self.shifts(t), strict=True):
            _shift(to, row, int(shift))
        return self._leak(after, t)

    def back(self, state: States, t: int) -> States:
        """Return the transpose of `ahead` times values at query t."""
        before = self._leak(state, t)
        after = np.empty_like(before)
        for to, row, shift in zip(after, before, self.shifts(t), strict=True):
            _gather(to, row, int(shift))
        return self.switch @ after

    def _leak(self, state: States, t: int) -> States:
        """Spread values over cells that no speed reaches and over all states, in place; the operation is symmetric."""
        gap = float(self.speeds[1] - self.speeds[0]) if len(self.speeds) > 1 else 0.0
        if gap > 1:  # speeds further apart than a cell: all the cells between them
            width = min(2 * int(np.ceil(gap / 2)) + 1, 2 * self.n_cells - 1)
            state = np.maximum(uniform_filter1d(state, width, axis=1, mode="constant"), 0)
        elif t % _SLIP_EVERY == 0:
            flow = np.float32(_SLIP * _SLIP_EVERY) * (state[:, 1:] - state[:, :-1])
            state[:, :-1] += flow
            state[:, 1:] -= flow
        state += np.float32(_JUMP * _mean(state))
        return state


class _Free:
    """A traveller who moves by arbitrary steps: a Markov chain over (size, cell) with uniform steps up to the size.

    Parameters
    ----------
    n_cells : int
    """

    def __init__(self, n_cells: int) -> None:
        self._state = np.ones((len(_STEPS), n_cells), np.float32)
        self._mean = 1.0

    def seen(self, t: int, likelihood: NDArray[np.float32]) -> float:
        """Process query t, and return its log-likelihood given the previous queries."""
        state = self._state
        if t:
            state *= np.float32(_KEEP / self._mean)  # of mean 1, as all that follows, but for what stays
            state += state.mean(axis=0) * np.float32((1 - _KEEP) / _KEEP) + np.float32(_JUMP)
            for row, size in zip(state, _STEPS, strict=True):
                if size:
                    uniform_filter1d(row, 2 * size + 1, output=row, mode="reflect")
        state *= likelihood
        self._mean = _mean(state)
        return math.log(self._mean)


class Doubt:
    """The probability, at each query, that the traveller has left the range of speeds.

    Two models give the likelihood of each query given the previous queries: a `Motion`, and a traveller who moves by
    arbitrary steps. A Markov chain with two states determines which of them applies.

    Parameters
    ----------
    n_queries, n_cells : int
    """

    def __init__(self, n_queries: int, n_cells: int) -> None:
        self._free = _Free(n_cells)
        self._odds = np.zeros(n_queries)  # logarithm of the likelihood without the range over that with it
        self.filtered = np.zeros(n_queries)
        """Probabilities given the queries so far, shape (Q,)."""

    def seen(self, t: int, likelihood: NDArray[np.float32], within: float) -> None:
        """Process query t: likelihoods of the cells, and its log-likelihood in the range given earlier queries."""
        self._odds[t] = np.clip(self._free.seen(t, likelihood) - within, -_SAYS, _SAYS)
        before = self.filtered[t - 1] * (1 - _FOUND - _LOST) + _LOST if t else _LOST / (_LOST + _FOUND)
        self.filtered[t] = 1 / (1 + (1 / before - 1) * np.exp(-self._odds[t]))

    @property
    def smoothed(self) -> NDArray[np.float64]:
        """Return the probabilities given all queries, shape (Q,)."""
        lost = np.empty_like(self.filtered)
        transition = np.array([[1 - _LOST, _LOST], [_FOUND, 1 - _FOUND]])
        worth = np.ones(2)  # of being in the range, and lost, by the queries after it
        for t in reversed(range(len(lost))):
            both = np.array([1 - self.filtered[t], self.filtered[t]]) * worth
            lost[t] = both[1] / both.sum()
            worth = transition @ (worth * np.exp([0, self._odds[t]]))
            worth /= worth.sum()
        return lost


def _shift(to: NDArray, row: NDArray, by: int) -> None:
    """Move probabilities by a number of cells; probabilities that would pass an end are summed there."""
    n = len(row)
    if by == 0:
        to[:] = row
    elif by > 0:
        to[:by], to[by:] = 0, row[: n - by]
        to[-1] += row[n - by :].sum()
    else:
        to[by:], to[:by] = 0, row[-by:]
        to[0] += row[:-by].sum()


def _gather(to: NDArray, row: NDArray, by: int) -> None:
    """Return values at cells shifted by a number of cells, limited by the ends: the transpose of `_shift`."""
    n = len(row)
    if by == 0:
        to[:] = row
    elif by > 0:
        to[: n - by], to[n - by :] = row[by:], row[-1]
    else:
        to[-by:], to[:-by] = row[:by], row[0]


Likelihoods = Callable[[slice], NDArray[np.float32]]


def marginals(
    likelihoods: Likelihoods, n_queries: int, motion: Motion, smooth: bool, doubt: Doubt
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield the probabilities of the cells at each query, given the queries so far, or all of them, block by block.

    The forward algorithm, and with `smooth` the forward-backward algorithm of hidden Markov models (Rabiner, 1989,
    equations 18-27). Smoothing stores every √Q-th forward state and computes the states between again in the backward
    pass (checkpoints): 2 √Q states of single precision are in memory, instead of Q.

    Parameters
    ----------
    likelihoods : function of a slice of queries
        Returns the likelihoods of the cells, up to a factor for each query, shape (rows, cells), float32.
    n_queries : int
    motion : Motion
    smooth : bool
    doubt : Doubt
        It receives the queries one by one, and all of them with the last block.

    Yields
    ------
    rows : slice
        The queries of the block; with `smooth` the last block comes first.
    probabilities : ndarray of shape (rows, cells), float64
        They sum to 1.
    """
    step = isqrt(n_queries - 1) + 1
    blocks = [slice(start, min(start + step, n_queries)) for start in range(0, n_queries, step)]
    state = np.ones((len(motion.speeds), motion.n_cells), np.float32)
    starts = []
    for rows in blocks:
        if smooth:
            starts.append(state)
            if rows is blocks[-1]:
                break  # computed on the way back
        summed = np.empty((rows.stop - rows.start, motion.n_cells), np.float32)
        for t, likelihood in enumerate(likelihoods(rows), rows.start):
            state, log = _seen(motion, state, t, likelihood)
            doubt.seen(t, likelihood, log)
            if not smooth:
                state.sum(axis=0, out=summed[t - rows.start])
        if not smooth:
            yield rows, _normalized(summed)
    if not smooth:
        return
    worth = np.ones_like(state)  # of each state at a query, by the queries after it
    for rows in reversed(blocks):
        seen, state, states = likelihoods(rows), starts.pop(), []
        for t, likelihood in enumerate(seen, rows.start):
            state, log = _seen(motion, state, t, likelihood)
            if rows is blocks[-1]:
                doubt.seen(t, likelihood, log)
            states.append(state)
        summed = np.empty((len(states), motion.n_cells), np.float32)
        for t in reversed(range(rows.start, rows.stop)):
            np.einsum("sp,sp->p", states.pop(), worth, out=summed[t - rows.start])
            worth = _scaled(motion.back(worth * seen[t - rows.start], t))
        yield rows, _normalized(summed)


def _seen(motion: Motion, state: States, t: int, likelihood: NDArray[np.float32]) -> tuple[States, float]:
    """Return the state at query t from the state at query t - 1, both of mean 1, and the query's log-likelihood."""
    state = motion.ahead(state, t) if t else state.copy()
    state *= likelihood
    mean = _mean(state)
    state *= np.float32(1 / mean)
    return state, math.log(mean)


def _scaled(state: States) -> States:
    """Scale values to a mean of 1, in place: their products stay within the range of single precision."""
    state *= np.float32(1 / _mean(state))
    return state


def _mean(state: States) -> float:
    """Return the mean of all values in half of the time of `ndarray.mean` for a few thousand values."""
    return float(np.add.reduce(state, axis=None)) / state.size


def _normalized(summed: NDArray[np.float32]) -> NDArray[np.float64]:
    values = summed.astype(np.float64)
    return values / values.sum(axis=1, keepdims=True)


def likelihood(scores: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return exp(-D / scale) divided by the maximum of each row, with a floor; D may have an offset per row."""
    log = (scores.min(axis=1, keepdims=True) - scores) / scales[:, None]
    return np.exp(np.maximum(log, np.float32(_LEAST_LOG)))


def news(Z: NDArray[np.float32], residuals: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the weight of each query, given the previous query, shape (Q,).

    Independent errors of two queries differ by twice their own square, or more. Queries that differ by less have common
    errors, like photographs from one place, and repeated queries carry little information.

    Parameters
    ----------
    Z : ndarray of shape (Q, m)
    residuals : ndarray of shape (k, m)
        As in `scale_of`.
    """
    own = max(float(np.median(np.vecdot(residuals, residuals))), float(np.finfo(np.float32).tiny))
    step = np.diff(Z, axis=0)
    shares = np.ones(len(Z))
    np.clip(np.vecdot(step, step) / np.float64(own), _AGAIN, 1, out=shares[1:])
    return shares.astype(np.float32)


def scale_of(
    Z: NDArray[np.float32],
    residuals: NDArray[np.float32],
    places: NDArray[np.float64],
    segment_length: int,
    least: float,
) -> float:
    """Return the difference of squared distances that counts as one nat.

    With independent normal errors of variance s² in m coordinates that is 2 s². Errors of real frames are not
    independent: m becomes their participation ratio (tr C)² / tr C², C their second moments, estimated without bias
    from products of different residuals; s² is the median squared residual over m.

    Residuals of places on the same line share the error of its points: their products measure how near they are, not
    which coordinates have errors, and `news` accounts for that. They are excluded, except for equal queries.

    Parameters
    ----------
    Z : ndarray of shape (k, m)
        Queries.
    residuals : ndarray of shape (k, m)
        Queries minus the nearest places of the path.
    places : ndarray of shape (k,)
        These places, in frames.
    segment_length : int
        The number of frames between points; with 1 no points are shared.
    least : float
        The lower bound of the median squared residual.
    """
    m = residuals.shape[1]
    gram = (residuals @ residuals.T).astype(np.float64)
    energy = np.diagonal(gram)
    middle = max(float(np.median(energy)), least)
    mean = max(float(energy.mean()), least)
    gram /= mean
    counted = np.abs(places[:, None] - places) >= segment_length - 1
    counted |= _squared_differences(Z) < _AGAIN * middle
    np.fill_diagonal(counted, False)
    pairs = float(np.square(gram[counted]).sum())
    # one more pair says that all coordinates are alike: few residuals tell nothing else
    ratio = (int(counted.sum()) + 1) / (pairs + 1 / m)
    return 2 * middle / (_TEMPER * min(max(ratio, 1.0), m))


def _squared_differences(Z: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the squared distances of all pairs of rows, shape (k, k)."""
    Z = Z - Z.mean(axis=0)
    products = (Z @ Z.T).astype(np.float64)
    energy = np.diagonal(products)
    return energy[:, None] + energy - 2 * products


def windows(probabilities: NDArray[np.float64], reach: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean place within the most probable window, and the probability of that window.

    Parameters
    ----------
    probabilities : ndarray of shape (Q, cells)
    reach : float
        The number of cells from the middle of a window to its ends; cells at the ends count in part.

    Returns
    -------
    places, shares : ndarrays of shape (Q,)
        Places in cells.
    """
    n = probabilities.shape[1]
    whole = min(int(np.ceil(reach)), n)
    padded = np.pad(probabilities, ((0, 0), (whole + 1, whole + 2)))
    total = np.pad(np.cumsum(padded, axis=1), ((0, 0), (1, 0)))

    def up_to(edge: float) -> NDArray[np.float64]:
        """Return the probability below the edge this far from the middle of each cell, linear within a cell."""
        first = edge + whole + 1.5
        cell = min(max(int(first), 0), padded.shape[1] - n)
        return total[:, cell : cell + n] + min(first - cell, 1.0) * padded[:, cell : cell + n]

    inside = up_to(reach) - up_to(-reach) if reach < n else np.ones_like(probabilities)
    best = inside.argmax(axis=1)[:, None]
    # the mean inside: cells by the part of them that the window holds
    offsets = np.arange(-whole, whole + 1)
    weights = np.clip(reach + 0.5 - np.abs(offsets), 0, 1)
    weights[whole] = 1 if reach >= 0.5 else weights[whole]
    held = np.take_along_axis(padded, best + whole + 1 + offsets, axis=1) * weights
    places = best[:, 0] + held @ offsets / held.sum(axis=1)
    return places, np.clip(np.take_along_axis(inside, best, axis=1)[:, 0], 0, 1)
