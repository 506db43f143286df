"""Hidden Markov models of phones with three states each: alignment to a transcript, and decoding of phones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]
Codes = NDArray[np.int64]

STATES = 3
"""Number of states of a phone, from left to right; state s of phone p has the code 3 p + s."""


def uniform_states(segments: ArrayLike, phones: ArrayLike) -> Codes:
    """Return the states (T,) of frames when every segment is divided into three parts of equal length.

    Parameters
    ----------
    segments : array-like of int of shape (T,)
        The number of the segment of each frame, in ascending order.
    phones : array-like of int of shape (n,)
        The phone of each segment.

    Returns
    -------
    ndarray of int64 of shape (T,)
        The states, as the initial alignment ("flat start").

    Examples
    --------
    >>> from manifoldseq_papers.hope._phone_decoder import uniform_states
    >>> uniform_states([0, 0, 0, 0, 1, 1, 1], [5, 2]).tolist()
    [15, 15, 16, 17, 6, 7, 8]
    """
    segments, phones = np.asarray(segments, np.int64), np.asarray(phones, np.int64)
    lengths = np.bincount(segments, minlength=len(phones))
    place = np.arange(len(segments)) - (np.cumsum(lengths) - lengths)[segments]
    return STATES * phones[segments] + STATES * place // lengths[segments]


def forced_alignment(scores: ArrayLike, phones: ArrayLike, log_stay: ArrayLike, log_leave: ArrayLike) -> Codes:
    """Return the most likely states (T,) of frames that pass through the states of given phones in order.

    Parameters
    ----------
    scores : array-like of shape (T, 3 n_phones)
        Log-likelihoods of frames by state, up to a constant per frame.
    phones : array-like of int of shape (n,)
        The transcript.
    log_stay, log_leave : array-like of shape (3 n_phones,)
        Log-probabilities that a state is followed by itself, and by another state.

    Returns
    -------
    ndarray of int64 of shape (T,)

    Raises
    ------
    ValueError
        If there are fewer frames than states, T < 3 n.
    """
    scores, log_stay, log_leave = (np.asarray(part, np.float64) for part in (scores, log_stay, log_leave))
    chain = (STATES * np.asarray(phones, np.int64)[:, None] + np.arange(STATES)).ravel()
    T, L = len(scores), len(chain)
    if T < L or not L:
        raise ValueError(
            f"there are {T} frames for the {L} states of the transcript: pass a nonempty transcript with at most one "
            "state per frame"
        )
    stay, leave, local = log_stay[chain], log_leave[chain], scores[:, chain]
    best = np.full(L, -np.inf)
    best[0] = local[0, 0]
    moved = np.zeros((T, L), bool)
    come = np.full(L, -np.inf)
    for t in range(1, T):
        come[1:] = best[:-1] + leave[:-1]
        kept = best + stay
        np.greater(come, kept, out=moved[t])
        best = np.maximum(come, kept) + local[t]
    path = np.empty(T, np.int64)
    place = L - 1
    for t in range(T - 1, -1, -1):
        path[t] = place
        place -= moved[t, place]
    return chain[path]


@dataclass(frozen=True)
class PhoneDecoder:
    """Recognize phones with a bigram model; each phone is a chain of three states that may repeat.

    Attributes
    ----------
    log_start, log_end : ndarray of shape (n,)
        Log-probabilities that a phone is the first, and that a phone is the last.
    log_next : ndarray of shape (n, n)
        Log-probabilities of the second phone (column) given the first (row).
    log_stay, log_leave : ndarray of shape (3 n,)
        Log-probabilities that a state is followed by itself, and by another state.
    scale : float
        Weight of the bigram model.
    insertion : float
        A score that is added for every phone: values below 0 reduce the number of recognized phones.

    References
    ----------
    Zhang, Jiang, section 6.2; Viterbi, 1967.

    Examples
    --------
    There are two phones, and the second always follows the first:

    >>> import numpy as np
    >>> from manifoldseq_papers import PhoneDecoder
    >>> decoder = PhoneDecoder.estimate([[0, 1], [0, 1]], [np.repeat(np.arange(6), 2)], n_phones=2)
    >>> scores = np.log(0.9 * np.repeat(np.eye(6), 2, axis=0) + 0.01)
    >>> decoder.decode(scores).tolist()
    [0, 1]
    """

    log_start: Float
    log_next: Float
    log_end: Float
    log_stay: Float
    log_leave: Float
    scale: float = 1.0
    insertion: float = 0.0

    @classmethod
    def estimate(
        cls, transcripts: Iterable[ArrayLike], states: Sequence[ArrayLike], n_phones: int = 61
    ) -> "PhoneDecoder":
        """Return the model of transcripts and aligned states.

        Parameters
        ----------
        transcripts : iterable of array-like of int
            Phones of each training utterance.
        states : sequence of array-like of int
            States of the frames of each utterance.
        n_phones : int

        Raises
        ------
        ValueError
            If there are no transcripts, or a number is not the code of a phone or state.

        Notes
        -----
        Bigrams are smoothed as by Witten and Bell: a phone (or the start) with c successors of k kinds gives k shares
        of c + k to the unigram probabilities, which are smoothed by one count each. A state with f frames in v visits
        is left with probability (v + 1) / (f + 2).
        """
        log_start, log_next, log_end = bigram(transcripts, n_phones)
        met = np.zeros(STATES * n_phones)
        visits = np.zeros(STATES * n_phones)
        for place, one in enumerate(states):
            codes = _numbers(f"states[{place}]", one, len(met))
            met += np.bincount(codes, minlength=len(met))
            visits += np.bincount(codes[np.diff(codes, prepend=-1) != 0], minlength=len(met))
        leave = (visits + 1) / (met + 2)
        return cls(log_start, log_next, log_end, np.log1p(-leave), np.log(leave))

    def decode(self, scores: ArrayLike) -> Codes:
        """Return the most likely phones by the Viterbi algorithm.

        Parameters
        ----------
        scores : array-like of shape (T, 3 n)
            Log-likelihoods of frames by state, up to a constant per frame.

        Returns
        -------
        ndarray of int64 of shape (n_found,)

        Raises
        ------
        ValueError
            If there are fewer frames than a phone has states, or a score is NaN.
        """
        n = len(self.log_start)
        scores = np.asarray(scores, np.float64)
        if scores.ndim != 2 or scores.shape[1] != STATES * n or len(scores) < STATES:
            raise ValueError(
                f"scores have shape {scores.shape}: pass an array of shape (T, {STATES * n}) with at least {STATES} "
                "rows"
            )
        if np.isnan(scores).any():
            raise ValueError("scores contain NaN: pass log-likelihoods")
        T, columns = len(scores), np.arange(n)
        local = scores.reshape(T, n, STATES)
        stay, leave = self.log_stay.reshape(n, STATES), self.log_leave.reshape(n, STATES)
        # rows are the second phone: the maximum then runs along memory
        enter = np.ascontiguousarray((self.scale * self.log_next + leave[:, -1:]).T + self.insertion)
        best = np.full((n, STATES), -np.inf)
        best[:, 0] = self.scale * self.log_start + self.insertion + local[0, :, 0]
        moved = np.zeros((T, n, STATES), bool)
        before = np.zeros((T, n), np.int64)
        come = np.empty((n, STATES))
        for t in range(1, T):
            entering = enter + best[:, -1]
            np.argmax(entering, axis=1, out=before[t])
            come[:, 0] = entering[columns, before[t]]
            np.add(best[:, :-1], leave[:, :-1], out=come[:, 1:])
            kept = best + stay
            np.greater(come, kept, out=moved[t])
            best = np.maximum(come, kept) + local[t]
        phone, state = int(np.argmax(best[:, -1] + leave[:, -1] + self.scale * self.log_end)), STATES - 1
        found = [phone]
        for t in range(T - 1, 0, -1):
            if moved[t, phone, state]:
                if state:
                    state -= 1
                else:
                    phone, state = int(before[t, phone]), STATES - 1
                    found.append(phone)
        return np.array(found[::-1], np.int64)


def _numbers(name: str, values: ArrayLike, n: int) -> Codes:
    """Validate numbers of phones or states."""
    found = np.asarray(values)
    if found.ndim != 1 or (found.size and (found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= n)):
        raise ValueError(f"{name}={found.tolist()!r:.60} is not valid: pass whole numbers from 0 to {n - 1}")
    return found.astype(np.int64)


def bigram(transcripts: Iterable[ArrayLike], n: int) -> tuple[Float, Float, Float]:
    """Return log-probabilities of first phones (n,), successors (n, n) and last phones (n,), see `PhoneDecoder`."""
    counts = np.zeros((n + 1, n + 1))  # the last row is the start, the last column the end
    for place, one in enumerate(transcripts):
        codes = np.concatenate([[n], _numbers(f"transcripts[{place}]", one, n), [n]])
        np.add.at(counts, (codes[:-1], codes[1:]), 1)
    if not counts.any():
        raise ValueError("there are no transcripts: pass at least one")
    unigram = (counts.sum(axis=0) + 1) / (counts.sum() + n + 1)
    kinds, total = (counts > 0).sum(axis=1, keepdims=True), counts.sum(axis=1, keepdims=True)
    kinds = np.maximum(kinds, 1)  # after a phone that was never met: the unigram model
    table = np.log((counts + kinds * unigram) / (total + kinds))
    return table[n, :n], table[:n, :n], table[:n, n]
