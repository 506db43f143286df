"""Identification of linear dynamical systems from sequences (Doretto et al. 2003), with stabilization."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from manifoldseq.estimators import check_sequences, validate_sequences

from ._settings import check_bound, check_switches, check_whole
from ._systems import Systems

Array = NDArray[np.float64]

STABILIZERS = ("SN", "clip", None)


class LDSIdentifier(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Identify one linear dynamical system per sequence.

    For each sequence, with ``Y`` its (m, T) outputs: thin SVD ``Y = U S V'``, then ``C = U_n``, states
    ``X = S_n V_n'``, ``A`` by least squares from one state to the next, and a stabilizer on the singular values of A.

    Parameters
    ----------
    n_states : int
        State dimension n, at most channels × delay.
    center : bool
        Remove the mean of each output of each sequence, and keep it in `Systems.mean`. Set it to False where the mean
        tells the sequences apart.
    scale : bool
        Divide each channel by its standard deviation over all time steps seen in `fit`, so that channels in different
        units count alike; the systems then describe the scaled sequences.
    delay : int
        Stack this many consecutive time steps into one output of channels × delay values.
    stabilizer : {"SN", "clip", None}
        ``"SN"`` maps each singular value s of A to tanh(2.5 s / 2), at most 1 - 1e-9 (soft normalization), ``"clip"``
        to min(s, bound); None keeps least squares, and an unstable result is refused.
    bound : float
        Bound of ``"clip"``.

    Attributes
    ----------
    n_features_in_ : int
        Channels seen in `fit`.
    scale_ : ndarray of shape (d,)
        What each channel is divided by; ones if not `scale`, and for a channel that is constant up to rounding.

    Raises
    ------
    ValueError
        In `fit` and `transform`: for an invalid parameter, and for what `check_sequences` refuses; a sequence needs at
        least ``n_states + delay`` time steps.

    Notes
    -----
    Signs are canonical: the entry of largest modulus in each column of C is positive. The noise factor B is symmetric,
    ``B @ B.T`` is the covariance of the residuals of least squares. Where a sequence spans fewer than n
    dimensions, such as a constant one, the remaining states are zero.

    Equations (1) and (2) of Huang et al.; soft normalization: Huang et al. 2016, LDSST.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(50)[:, None]
    >>> X = [0.9**t * np.cos(t * w + [0, 1, 2]) for w in (0.3, 0.8)]
    >>> systems = LDSIdentifier(n_states=2, center=False, stabilizer=None).fit_transform(X)
    >>> systems
    Systems(N=2, m=3, n=2, x1, B)
    >>> np.round(np.abs(np.linalg.eigvals(systems.A)), 6)
    array([[0.9, 0.9],
           [0.9, 0.9]])
    """

    n_features_in_: int
    scale_: Array

    def __init__(
        self,
        n_states: int = 5,
        *,
        center: bool = True,
        scale: bool = True,
        delay: int = 1,
        stabilizer: str | None = "SN",
        bound: float = 0.99,
    ) -> None:
        self.n_states = n_states
        self.center = center
        self.scale = scale
        self.delay = delay
        self.stabilizer = stabilizer
        self.bound = bound

    def fit(self, X: Any, y: object = None) -> Self:
        """Check the sequences and learn the scale of each channel.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
        y : ignored
        """
        sequences = self._check(X)
        self.scale_ = self._scale(sequences)
        self.n_features_in_ = sequences[0].shape[1]
        return self

    def transform(self, X: Any) -> Systems:
        """Identify the systems of sequences.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)

        Returns
        -------
        Systems
            With ``m = d * delay`` outputs, first states, noise factors, and means if `center`.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "scale_")
        self.check_settings()
        validate_sequences(self, X, reset=False)
        return self._identify(self._check(X), self.scale_)

    def fit_transform(self, X: Any, y: object = None) -> Systems:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Equivalent to ``fit(X).transform(X)``."""
        sequences = self._check(X)
        scale = self._scale(sequences)
        systems = self._identify(sequences, scale)
        self.n_features_in_, self.scale_ = sequences[0].shape[1], scale  # only once nothing can fail any more
        return systems

    def check_settings(self) -> None:
        """Refuse an invalid parameter."""
        check_whole(self, "n_states", "delay")
        check_switches(self, "center", "scale")
        if self.stabilizer not in STABILIZERS:
            raise ValueError(f"stabilizer={self.stabilizer!r} is not known: choose 'SN', 'clip' or None")
        check_bound(self.bound)

    def _scale(self, sequences: list[Array]) -> Array:
        """Return what each channel is divided by."""
        values = np.concatenate(sequences)
        scale = np.ones(values.shape[1])
        if not self.scale:
            return scale
        exponent = np.frexp(np.abs(values).max(axis=0))[1]
        values = np.ldexp(values, -exponent)  # exactly, to magnitudes below one: squares neither over- nor underflow
        deviation = values.std(axis=0)
        varies = (np.ptp(values, axis=0) > 0) & (deviation > np.finfo(float).eps * len(values))
        scale[varies] = np.ldexp(deviation, exponent)[varies]
        for channel in np.flatnonzero(scale < np.finfo(float).tiny):
            raise ValueError(f"channel {channel} has a standard deviation near {scale[channel]:.1g}: scale the data up")
        return scale

    def _check(self, X: Any) -> list[Array]:
        self.check_settings()
        setting = f"n_states={self.n_states}" + f" with delay={self.delay}" * (self.delay > 1)
        need = self.n_states + self.delay
        sequences = check_sequences(X, min_length=need, needed_by=setting)
        outputs = sequences[0].shape[1] * self.delay
        if self.n_states > outputs:
            raise ValueError(
                f"n_states={self.n_states} exceeds channels × delay = {outputs}: lower n_states or raise delay"
            )
        return sequences

    def _identify(self, sequences: list[Array], scale: Array) -> Systems:
        for i, x in enumerate(sequences):
            if not np.abs(x / scale).max() < 1e150:
                raise ValueError(f"sequence {i} has values beyond 1e150 in units of scale_: scale it down")
        lengths = np.array([len(x) for x in sequences])
        parts, order = [], []
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            parts.append(self._identify_batch(np.stack([sequences[i] for i in rows]) / scale))
            order.append(rows)
        back = np.argsort(np.concatenate(order))
        A, C, x1, B, mean = (
            None if column[0] is None else np.concatenate(column)[back] for column in zip(*parts, strict=True)
        )
        return Systems(A, C, x1, B, mean)  # pyright: ignore[reportArgumentType]  only the mean can be None

    def _identify_batch(self, Y: Array) -> tuple[Array, Array, Array, Array, Array | None]:
        """Identify systems from a batch (N, T, d) of sequences of one length."""
        n, steps = self.n_states, Y.shape[1] - self.delay + 1
        Y = np.concatenate([Y[:, lag : lag + steps] for lag in range(self.delay)], axis=2).swapaxes(1, 2)
        mean, peak = None, np.abs(Y).max(axis=(1, 2))[:, None]
        if self.center:
            mean = Y.mean(axis=2)
            Y = Y - mean[:, :, None]
        U, s, Vt = np.linalg.svd(Y, full_matrices=False)
        C = U[:, :, :n]
        largest = np.take_along_axis(C, np.abs(C).argmax(axis=1, keepdims=True), axis=1)
        signs = np.where(largest < 0, -1.0, 1.0)
        # a direction at the rounding level of the sequence is no direction: its states are exactly zero
        noise = s[:, :n] <= np.maximum(s[:, :1], peak) * max(Y.shape[1:]) * np.finfo(np.float64).eps
        scale = np.where(noise, 0.0, s[:, :n])
        C, X = C * signs, (signs.swapaxes(1, 2) * scale[:, :, None]) * Vt[:, :n]
        A = X[:, :, 1:] @ np.linalg.pinv(X[:, :, :-1], rtol=1e-12)
        residual = X[:, :, 1:] - A @ X[:, :, :-1]
        w, W = np.linalg.eigh(residual @ residual.swapaxes(1, 2) / residual.shape[2])
        B = (W * np.sqrt(np.maximum(w, 0))[:, None, :]) @ W.swapaxes(1, 2)
        return self._stabilized(A), C, X[:, :, 0], B, mean

    def _stabilized(self, A: Array) -> Array:
        if self.stabilizer is None:
            return A
        U, s, Vt = np.linalg.svd(A)
        s = np.minimum(np.tanh(1.25 * s), 1 - 1e-9) if self.stabilizer == "SN" else np.minimum(s, self.bound)
        return (U * s[:, None, :]) @ Vt
