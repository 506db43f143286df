"""Identification of linear dynamical systems from sequences (Doretto et al. 2003), with stabilization."""

import dataclasses
import time
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import manifoldseq as ms
from manifoldseq.estimators import (
    SequencesLike,
    check_channel_names,
    check_choice,
    check_parameters,
    check_sequences,
    check_switch,
    check_whole,
    keep_channel_names,
    quoted,
    random_generator,
)
from manifoldseq.models import Choice, Stages, Step

from ..systems._kalman import compress, kalman_filter, output_variances, outputs_of, smooth
from ..systems._modes import Modes, modes_of
from ..systems._prediction import check_steps, check_systems, embed, predicted, simulated
from ..systems._record import Systems, check_stable
from ..systems._state_estimates import StateEstimates
from ._em import COVARIANCE_TYPES
from ._estimation import Estimation, checked, stabilized
from ._forecast_error import Ends
from ._inputs import check_inputs, future_of, standardization
from ._missing import OR_NAN, check_holed, interpolated, latest, smoothed, unembed
from ._order import check_delay, check_order, choose_order, default_sizes, order_under_noise
from ._output_noise import most_rows
from ._parameter_error import LONG, REPLICATES, SHARE, inflation
from ._recording import grown, least_steps, mean_of, scale_of, systems_of
from ._resumed import stages_of
from ._short_delay import warn_of_short_delay
from ._stabilizers import SEMIDEFINITE, STABILIZERS, load_clarabel, stabilizer_of_forecasts
from ._stored_sequences import channel_scale, is_large

Array = NDArray[np.floating[Any]]


def check_bound(name: str, value: Any) -> None:
    """Raise ValueError unless a bound of singular values is between 0 and 1."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"{name}={quoted(value)} is not valid: pass a number between 0 and 1, such as 0.99")


def check_coverage(name: str, value: Any) -> None:
    """Raise ValueError unless a probability of intervals is between 0 and 1."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"{name}={quoted(value)} is not valid: pass a probability between 0 and 1, such as 0.9")


def check_center(name: str, value: Any) -> None:
    """Raise ValueError unless centring is True, False or "auto"."""
    if not isinstance(value, bool | np.bool_) and not (isinstance(value, str) and value == "auto"):
        raise ValueError(f"{name}={quoted(value)} is not valid: pass True, False or 'auto'")


def check_stabilizer(name: str, value: Any) -> None:
    """Raise an error unless a stabilizer is known and its requirements are installed."""
    check_choice(name, value, ("auto", *STABILIZERS, None))
    if value in SEMIDEFINITE:
        load_clarabel(value)


RULES = {
    "n_states": lambda _, value: check_order(value),
    "delay": check_delay,
    "center": check_center,
    "scale": check_switch,
    "stabilizer": check_stabilizer,
    "bound": check_bound,
    "missing": (check_choice, ("error", "smooth")),
    "method": (check_choice, ("pca", "n4sid", "em")),
    "covariance_type": (check_choice, COVARIANCE_TYPES),
    "max_iter": (check_whole, 0),
}


class LDSIdentifier(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Identify one linear dynamical system per sequence, and predict with it.

    For each sequence with the (m, T) outputs ``Y``, the thin SVD is ``Y = U S V'``. The system has ``C = U_n`` and the
    states ``X = S_n V_n'``. ``A`` is the least-squares map from each state to the next, after stabilization.

    Parameters
    ----------
    n_states : int, str or None
        State dimension n. ``method="pca"`` allows at most channels × delay states, the other methods any number. With
        ``"auto"``, `fit` chooses the number. For ``"pca"``, it chooses the number with the least squared error of
        one-step predictions in the last fifth of each sequence, by systems identified from the first four fifths (at
        most 50 numbers are tried). For ``"n4sid"`` and ``"em"``, whose prediction errors hardly depend on the number of
        states, it chooses the number with the least singular value criterion of Bauer (2001) on the canonical
        correlations of past and future (at most 16 numbers are tried). ``"energy:0.95"`` uses the fewest states that
        explain this share of the sum of squares of all sequences in `fit`. For ``"pca"`` and in `partial_fit`, None
        uses 5 states, or fewer if channels × delay or the shortest sequence of `fit` allows fewer. For ``"n4sid"`` and
        ``"em"``, None is the same as ``"auto"``. If the identifier of an estimator with ``n_states="auto"`` has None or
        ``"auto"``, the estimator chooses the number by its own criterion.
    center : bool or "auto"
        Subtract the mean of each output of each sequence, and store it in `Systems.mean`. Set it to False if the means
        distinguish the sequences. ``"auto"`` means True, except in estimators that choose settings
        (``n_states="auto"``): they choose `center`, too.
    scale : bool
        Divide each channel by its standard deviation over all time steps of `fit`, so that channels in different
        units have equal weight. The systems then describe the scaled sequences.
    delay : int or "auto"
        Stack this many consecutive time steps into one output of channels × delay values. ``"auto"`` means 1. For one
        channel with ``method="pca"`` it means 2, so that two states are possible, unless `n_states` is a number.
    stabilizer : str or None
        The method that makes A stable. ``"auto"`` is ``"SN"`` for ``method="pca"``, whose systems are compared by
        kernels, and ``"CG"`` for ``"n4sid"`` and ``"em"``, because it does not change stable systems.

        * ``"SN"`` (soft normalization) maps each singular value s to tanh(2.5 s / 2), at most 1 - 1e-9.
        * ``"clip"`` maps each singular value s to min(s, bound).
        * ``"CG"`` is least squares with generated constraints (cuts). ``"WLS"`` and ``"DWLS"`` generate cuts in units
          of the singular values of Y, with free and with diagonal weights.
        * ``"LB1"`` is least squares with singular values of at most 1, and ``"LB2"`` is a semidefinite program with a
          Lyapunov matrix. Both need the extra ``[sdp]``.
        * ``"HZP"``, ``"MN"`` and ``"UN"`` are closed forms.
        * None or ``"NONE"`` keeps the least-squares solution, and an unstable A raises an error.

        ``"CG"``, ``"WLS"``, ``"DWLS"``, ``"MN"`` and ``"HZP"`` do not change stable systems. For unstable systems,
        their result is compared with the largest stable multiple of A, and with A whose unstable eigenvalues are scaled
        to the bound 1 - 1e-9. The candidate that changes A least is used, in the norm ``|(A' - A) X1|``, where X1 has
        all states but the last. The square of this norm is the increase of the squared error of one-step predictions.
        Undamped oscillations therefore stay undamped. ``"SN"`` and ``"UN"`` damp every system. ``"clip"`` and
        ``"LB1"`` damp systems with a singular value above the bound, including stable systems. For ``"SN"``,
        ``"clip"``, ``"UN"``, ``"LB1"`` and ``"LB2"``, the methods `forecast` and `forecast_interval`, and
        `interpolate` with inputs, use ``"CG"`` instead. `modes` returns the modes before stabilization. All other
        methods use the systems that `transform` returns.
    bound : float
        The largest singular value of A for ``stabilizer="clip"``.
    missing : {"error", "smooth"}
        ``"error"`` raises an error for NaN, and ``"smooth"`` fills missing values before the identification. For this
        purpose, a system is identified from the linearly interpolated sequence. Expectation maximization on the
        recorded values then improves this system until the log-likelihood per recorded value rises by less than 0.01 in
        a sweep. The means of the Kalman smoother of this system replace the missing values. Each channel needs at least
        one value in each sequence. The filled values have no noise, so the noise of the systems is underestimated if
        many values are missing.
    method : {"pca", "n4sid", "em"}
        ``"pca"`` uses principal components of the outputs as states (Doretto et al.); it is biased, because output
        noise shrinks the eigenvalues of A toward zero. ``"n4sid"`` uses correlations of the past with the future, to
        which output noise does not contribute, with five block rows (more if there are more states than outputs, fewer
        for short sequences). Ten sweeps of expectation maximization with fixed A and C then estimate the covariances.
        ``"em"`` continues with `max_iter` sweeps that estimate all parameters from the recorded values alone. A
        sequence that spans fewer than n dimensions has the system of ``"pca"``. An estimate of ``"n4sid"`` is rejected
        if its log-likelihood per recorded value is lower by more than 1 than the log-likelihood of ``"pca"``. In this
        case, ten sweeps that estimate all parameters start from ``"pca"``.
    covariance_type : {"diag", "full", "spherical"}
        The covariance of the output noise for ``"n4sid"`` and ``"em"``: one variance for each output, a full matrix, or
        one variance for all outputs. A full matrix for m outputs needs far more than m time steps.
    max_iter : int
        The number of sweeps of ``"em"``.

    Attributes
    ----------
    n_features_in_ : int
        The number of channels in `fit`.
    feature_names_in_ : ndarray of str of shape (d,)
        Names of the channels, if every sequence of `fit` is a data frame.
    n_states_ : int
        The number of states.
    delay_ : int
        The number of stacked steps.
    scale_ : ndarray of shape (d,)
        The divisor of each channel: 1 if `scale` is False, or if the channel is constant up to rounding errors.
    stabilizer_ : str or None
        The stabilizer that is used.
    n_inputs_ : int
        The number of inputs in `fit`.
    choice_ : manifoldseq.models.Choice
        The compared numbers of states; it exists only if `fit` chose the number.
    input_mean_, input_scale_ : ndarray of shape (p,)
        The mean that is subtracted from the inputs and the standard deviation that divides them, over all time steps
        of `fit`. The means are 0 if `center` is False, and the divisors are 1 if `scale` is False.

    Raises
    ------
    ValueError
        In `fit` and `transform`, if a parameter is invalid, if `check_sequences` rejects the sequences, or if a
        sequence has fewer than ``n_states + delay`` time steps.

    Warns
    -----
    UserWarning
        `fit` warns if ``n_states=None`` uses fewer states than the longest sequence allows, because another
        sequence is shorter.

    Notes
    -----
    Signs are canonical: the entry of largest modulus in each column of C is positive. C has orthonormal columns, unless
    there are more states than outputs. `Systems.noise_factor`, F, is symmetric, and ``F @ F.T`` is the covariance of
    the residuals ``x(t+1) - A x(t)`` of the states. With ``method="pca"``, Omega is one variance for all outputs of a
    system: the variance in the directions orthogonal to C. If a sequence spans fewer than n dimensions, such as a
    constant sequence, the remaining states are zero.

    Sequences may stay on disk as memory-mapped files, such as an (N, T, d) array or a list of (T, d) arrays from
    ``numpy.load(path, mmap_mode="r")``. They are read one after the other. A sequence of more than 2**22 numbers is
    read in blocks of channels and identified from its T × T Gram matrix, which does not resolve directions below 1e-6
    of the largest.

    References
    ----------
    Huang et al., Efficient optimization for linear dynamical systems, NIPS 2017, equations (1) and (2). Doretto,
    Chiuso, Wu, Soatto: Dynamic textures, IJCV 2003. Stabilizers: SN, Huang et al. 2016 (LDSST); CG, Siddiqi, Boots and
    Gordon 2007; LB1, LB2, Lacy and Bernstein 2002, 2003; WLS, DWLS, Huang et al. 2016. Bauer, Order estimation for
    subspace methods, Automatica 2001.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(50)[:, None]
    >>> X = [0.9**t * np.cos(t * w + [0, 1, 2]) for w in (0.3, 0.8)]
    >>> identifier = LDSIdentifier(n_states=2, center=False, stabilizer=None).fit(X)
    >>> systems = identifier.transform(X)
    >>> systems
    Systems(N=2, m=3, n=2, x1, noise_factor, Omega, A_estimate)
    >>> np.round(np.abs(np.linalg.eigvals(systems.A)), 6)
    array([[0.9, 0.9],
           [0.9, 0.9]])
    >>> identifier.forecast([x[:40] for x in X], 10)[0].round(3)[-1], X[0].round(3)[-1]
    (array([-0.003, -0.006, -0.003]), array([-0.003, -0.006, -0.003]))
    """

    n_features_in_: int
    n_states_: int
    delay_: int
    scale_: Array
    n_inputs_: int
    input_mean_: Array
    input_scale_: Array
    recording_: dict[str, Any]
    systems_: Systems
    stored_types: ClassVar[tuple[type, ...]] = (Systems, Choice, Step)

    def __init__(
        self,
        n_states: int | str | None = None,
        *,
        center: bool | str = "auto",
        scale: bool = True,
        delay: int | str = "auto",
        stabilizer: str | None = "auto",
        bound: float = 0.99,
        missing: str = "error",
        method: str = "pca",
        covariance_type: str = "diag",
        max_iter: int = 30,
    ) -> None:
        self.n_states = n_states
        self.center = center
        self.scale = scale
        self.delay = delay
        self.stabilizer = stabilizer
        self.bound = bound
        self.missing = missing
        self.method = method
        self.covariance_type = covariance_type
        self.max_iter = max_iter

    @property
    def stabilizer_(self) -> str | None:
        """The stabilizer that is used: the parameter, or the choice of ``"auto"``."""
        if self.stabilizer == "auto":
            return "SN" if self.method == "pca" else "CG"
        return self.stabilizer

    def fit(
        self,
        X: SequencesLike,
        y: object = None,
        *,
        inputs: SequencesLike | None = None,
        observers: Sequence[Any] = (),
        checkpoint: ms.storage.Checkpoint | str | Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Validate the sequences, compute the scale of each channel, and choose the number of states if required.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
        y : ignored
        inputs : list of array-like of shape (T_i, p), optional
            The known inputs of each sequence at each step: ``x(t+1) = A x(t) + B u(t) + F v(t)``,
            ``y(t) = mean + C x(t) + D u(t) + w(t)``, with F the `Systems.noise_factor`. ``method="n4sid"`` and ``"em"``
            estimate B and D as parts of `Systems`, for the inputs ``(u - input_mean_) / input_scale_``. All other
            methods of the estimator then require the inputs of their sequences.
        observers, checkpoint, resume
            As in `manifoldseq.models.Stages`, for the choice of the number of states: an iteration compares the numbers
            on one batch of sequences.
        """
        loop: dict[str, Any] = {"observers": observers, "checkpoint": checkpoint, "resume": resume}
        self._learn(self._check(X), inputs, stages_of(self, self, X, inputs, **loop))
        keep_channel_names(self, X)
        for name in ("recording_", "systems_"):
            self.__dict__.pop(name, None)
        return self

    def partial_fit(self, X: SequencesLike, y: object = None, *, inputs: SequencesLike | None = None) -> Self:
        """Update the system of a growing recording from its next piece, in constant memory.

        The method requires ``method="n4sid"``. After each piece, `systems_` has the system of all pieces so far, and
        `scale_` has the scale. A, C and the mean agree with a fit to the whole recording up to 1e-6 if the number of
        windows of the recording is at least twice the number of values of a window (with inputs, the mean is less
        exact). B, D and the covariances maximize the likelihood of the windows of ten steps, whereas a fit to the whole
        recording uses all steps at once. ``systems_.x1`` is zero, and ``P1`` is the covariance of the states. Therefore
        `filter`, `smooth`, `forecast` and `log_likelihood` accept any part of the recording with ``systems=systems_``.

        Parameters
        ----------
        X : list of one array-like of shape (T, d)
            The first piece must be long enough for an identification. NaN is allowed with ``missing="smooth"`` and
            without inputs: the first piece is filled as in `fit`, and later pieces are filled by the smoother of the
            system so far.
        y : ignored
        inputs : list of one array-like of shape (T, p), optional
            The inputs of these steps, as in `fit`. Pass them with all pieces or with no piece.

        Returns
        -------
        LDSIdentifier
            The estimator, with ``systems_`` and ``recording_`` (the sums that the next piece updates).

        Examples
        --------
        >>> import numpy as np
        >>> t = np.arange(400)[:, None]
        >>> x = np.cos(0.3 * t + [0, 1, 2]) + 0.1 * np.random.default_rng(0).standard_normal((400, 3))
        >>> identifier = LDSIdentifier(n_states=2, method="n4sid")
        >>> for piece in np.array_split(x, 4):
        ...     identifier = identifier.partial_fit([piece])
        >>> np.angle(np.linalg.eigvals(identifier.systems_.A[0])).round(2)
        array([ 0.3, -0.3])
        >>> identifier.forecast([x[-50:]], 5, identifier.systems_).shape
        (1, 5, 3)
        """
        check_parameters(self, RULES)
        sums, begun = getattr(self, "recording_", None), hasattr(self, "recording_")
        (x,) = self._one(X, begun)
        check_channel_names(self, X)
        if self.method != "n4sid":
            raise ValueError(
                f"partial_fit supports method='n4sid' only, but method={quoted(self.method)}: set method='n4sid', or "
                "use fit"
            )
        if begun and x.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {x.shape[1]} channels but the earlier pieces had {self.n_features_in_}: pass the same channels"
            )
        u = self._piece_inputs(x, inputs, begun)
        d, p = x.shape[1], u.shape[1]
        n, delay = self._sizes() if begun else default_sizes(self.n_states, self.delay, d, len(x), self.method)
        order = check_order(n)
        if not isinstance(order, int):
            raise ValueError(
                f"n_states={quoted(self.n_states)} requires the whole recording: pass a number to partial_fit"
            )
        if not begun and len(x) < (least := least_steps(d, order, delay, p)):
            raise ValueError(
                f"the first piece has {len(x)} time steps, but partial_fit needs {least}: pass a longer first piece"
            )
        if np.isnan(x).any():
            x = self._filled_piece(x, sums, order, delay)
        sums = grown(sums, np.concatenate([x, u], axis=1), delay, most_rows(order, d * delay))
        unit = scale_of(sums)
        scale = unit[:d] if self.scale else np.ones(d)
        input_mean = mean_of(sums)[d:] if self._removes_mean else np.zeros(p)
        input_scale = unit[d:] if self.scale else np.ones(p)
        systems = systems_of(sums, np.concatenate([scale, input_scale]), order, self._removes_mean, delay, p)
        recent = max(np.concatenate([x, u], axis=1), sums["tail"] + sums["shift"], key=len)
        U = embed((recent[None, :, d:] - input_mean) / input_scale, delay) if p else None
        outputs = compress(systems, embed(recent[None, :, :d] / scale, delay), U)
        states = smooth(systems, kalman_filter(systems, outputs))[0].swapaxes(1, 2)
        systems = stabilized(systems, self.stabilizer_ or "NONE", states, float(self.bound))
        if self.stabilizer_ in (None, "NONE"):
            check_stable(systems.A)
        self.n_features_in_, self.n_states_, self.delay_, self.scale_ = d, order, delay, scale
        self.input_mean_, self.input_scale_ = input_mean, input_scale
        self.n_inputs_, self.recording_, self.systems_ = p, sums, systems
        if not begun:
            keep_channel_names(self, X)
        return self

    def _one(self, X: SequencesLike, begun: bool) -> list[Any]:
        if self.missing == "smooth":
            sequences = check_holed(X, 1, "", empty=begun)
        else:
            sequences = check_sequences(X, or_nan=OR_NAN)
        if len(sequences) != 1 or is_large(sequences[0]):
            found = "a sequence that is read in blocks" if len(sequences) == 1 else f"{len(sequences)} sequences"
            raise ValueError(f"X contains {found}: pass one piece of one recording, as an array in memory")
        return sequences

    def _piece_inputs(self, x: Array, inputs: SequencesLike | None, begun: bool) -> Array:
        """Return the inputs (T, p) of a piece, without columns if there are none."""
        u = np.zeros((len(x), 0))
        if inputs is not None:
            if np.isnan(x).any():
                raise ValueError(
                    "the piece has missing values: fill them, because partial_fit with inputs does not accept NaN"
                )
            (u,) = check_inputs(inputs, [x], self.method)
        if begun and u.shape[1] != self.n_inputs_:
            raise ValueError(
                f"the earlier pieces had {self.n_inputs_} inputs, but this piece has {u.shape[1]}: pass the same inputs"
            )
        return u

    def _filled_piece(self, x: Array, sums: dict[str, Any] | None, order: int, delay: int) -> Array:
        """Fill the missing values of a piece: of the first piece as in `fit`, of later pieces by the current system."""
        if sums is None:
            scale = channel_scale([x]) if self.scale else np.ones(x.shape[1])
            return self._estimation(scale, (order, delay)).filled(x[None] / scale, np.zeros(1, np.intp))[0] * scale
        before = sums["tail"] + sums["shift"]
        joined = np.concatenate([before, x])[None] / self.scale_
        expected = smoothed(self.systems_, joined, delay)[0, len(before) :] * self.scale_
        return np.where(np.isnan(x), expected, x)

    def transform(self, X: SequencesLike, *, inputs: SequencesLike | None = None) -> Systems:
        """Identify the systems of sequences.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
        inputs : list of array-like of shape (T_i, p), optional

        Returns
        -------
        Systems
            Systems with ``m = d * delay`` outputs, first states, noise factors, output noise, and means if `center`.
            They also have the covariances of first states unless ``method="pca"``, and B and D if there are inputs.
            `A_estimate` is A before stabilization.
        """
        return self._identified(X, inputs)

    def fit_transform(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: SequencesLike, y: object = None, *, inputs: SequencesLike | None = None
    ) -> Systems:
        """Equivalent to ``fit(X, inputs=inputs).transform(X, inputs=inputs)``."""
        sequences = self._check(X)
        before = dict(self.__dict__)
        try:
            estimation = self._learn(sequences, inputs)
            keep_channel_names(self, X)
            return estimation.identify(sequences, self._inputs_of(sequences, inputs))
        except BaseException:
            self.__dict__ = before  # what was fitted stays
            raise

    def modes(
        self, X: SequencesLike, *, sampling_rate: float | None = None, inputs: SequencesLike | None = None
    ) -> Modes:
        """Return the frequency, damping and shape of each mode of sequences, before stabilization.

        The modes belong to the estimate of `method` before stabilization. ``center=True`` subtracts the mean of the
        record. If the record ends within a period of an oscillation, this mean is not the mean of the oscillation, and
        the modes are slightly biased. ``center=False`` with one more state for a nonzero mean has no such bias.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
        sampling_rate : float, optional
            Time steps per second.
        inputs : list of array-like of shape (T_i, p), optional

        Returns
        -------
        Modes
            The modes, in descending order of frequency. Growing modes have negative damping ratios and decay times.
            Shapes have the channels × delay outputs of `Systems`.

        Warns
        -----
        UserWarning
            If `delay` is too short. Two conditions must hold with 4 or 16 times the delay (if a sequence has at least
            four times as many steps as the longer delay). First, the frequency of a mode with 5 % of the squared
            outputs differs by more than 5 %. Second, forecasts over a quarter of the period of the slowest of these
            modes have at most half the squared error. The message names a sufficient delay. Sequences with inputs are
            not compared.

        Examples
        --------
        Tones of 1 Hz and 2 Hz in three channels at 100 Hz:

        >>> import numpy as np
        >>> t = np.arange(1000)[:, None] / 100
        >>> x = np.cos(2 * np.pi * t + [0, 1, 2]) + np.cos(4 * np.pi * t + [1, 0, 2])
        >>> found = LDSIdentifier(n_states=4, delay=16).fit([x]).modes([x], sampling_rate=100)
        >>> np.round(found.frequencies, 3)
        array([[2., 2., 1., 1.]])
        """
        sequences = self._check_fitted(X)
        estimation = dataclasses.replace(self._estimation(), stabilizer="NONE")
        systems = estimation.estimated(sequences, self._inputs_of(sequences, inputs))
        found = modes_of(systems.A, systems.C, sampling_rate)
        if inputs is None:
            warn_of_short_delay(estimation, sequences, systems, sampling_rate)
        return found

    def simulate(
        self,
        systems: Systems,
        n_steps: int,
        *,
        noise: bool = True,
        random_state: Any = None,
        inputs: SequencesLike | None = None,
    ) -> NDArray[np.float64]:
        """Generate sequences from systems by model (1), which starts at their first states.

        Parameters
        ----------
        systems : Systems
            Systems with first states. `noise_factor` and Omega, if present, determine the noise.
        n_steps : int
        noise : bool
            Without noise the result is the expected sequence.
        random_state : int, numpy.random.Generator, numpy.random.RandomState or None
            Seed of the random choices.
        inputs : array-like of shape (N, n_steps + delay - 1, p), optional
            For systems with B and D.

        Returns
        -------
        ndarray of shape (N, n_steps, d)
            In the units of the sequences that were identified.
        """
        check_is_fitted(self, "scale_")
        check_steps(n_steps)
        check_systems(systems, None, len(self.scale_) * self._sizes()[1])
        if systems.x1 is None:
            raise ValueError(
                "systems have no first states x1: pass systems that were identified from sequences, or set x1"
            )
        U = future_of(self, inputs, len(systems), n_steps + self._sizes()[1] - 1, "inputs")
        U = None if U is None else embed(U, self._sizes()[1])
        Y = simulated(systems, n_steps, random_generator(random_state) if noise else None, U)
        return Y[:, :, : len(self.scale_)] * self.scale_

    @overload
    def forecast(
        self,
        X: SequencesLike,
        n_steps: int,
        systems: Systems | None = None,
        *,
        return_std: Literal[False] = False,
        inputs: SequencesLike | None = None,
        future_inputs: SequencesLike | None = None,
        n_bootstrap: int | str = "auto",
        random_state: Any = 0,
    ) -> NDArray[np.float64]: ...

    @overload
    def forecast(
        self,
        X: SequencesLike,
        n_steps: int,
        systems: Systems | None = None,
        *,
        return_std: Literal[True],
        inputs: SequencesLike | None = None,
        future_inputs: SequencesLike | None = None,
        n_bootstrap: int | str = "auto",
        random_state: Any = 0,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

    def forecast(
        self,
        X: SequencesLike,
        n_steps: int,
        systems: Systems | None = None,
        *,
        return_std: bool = False,
        inputs: SequencesLike | None = None,
        future_inputs: SequencesLike | None = None,
        n_bootstrap: int | str = "auto",
        random_state: Any = 0,
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predict the steps after the end of sequences.

        The Kalman filter estimates the state at the end of a sequence, and equation (1) predicts the later states. The
        stabilizers ``"SN"``, ``"clip"``, ``"UN"``, ``"LB1"`` and ``"LB2"`` damp stable systems, so their forecasts
        would decay. In their place, the method uses ``"CG"``, which keeps a stable least-squares solution and changes
        an unstable solution little. With
        ``center=True``, an oscillation whose record ends within a period is forecast around the mean of the record,
        which is not the mean of the oscillation. ``center=False`` with one more state for the mean has no such offset.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
            NaN is allowed with ``missing="smooth"``.
        n_steps : int
        systems : Systems, optional
            One system per sequence, used unchanged. By default they are identified from `X` and stabilized as above.
        return_std : bool
            Return standard deviations, too. They include the uncertainty of the last state, of the later state noise,
            of the output noise, and of the parameters. ``mean ± 1.645 * std`` has a coverage of 90 % if the model is
            correct, and `forecast_interval` computes bounds for other probabilities. Only ``method="em"`` and
            ``"n4sid"`` distinguish state noise from output noise.
        inputs : list of array-like of shape (T_i, p), optional
        future_inputs : array-like of shape (N, n_steps, p), optional
            The inputs of the steps that are predicted; needed with inputs.
        n_bootstrap : int or "auto"
            The number of sequences that are simulated from each system to estimate the error of the identification
            (parametric bootstrap), which is added to the standard deviations. ``"auto"``: 20 for sequences of fewer
            than 500 steps, unless systems are given; otherwise 0, which omits the error of the parameters.
        random_state : int, numpy.random.Generator, numpy.random.RandomState or None
            The random numbers of these simulations.

        Returns
        -------
        ndarray of shape (N, n_steps, d), or a pair of them
            The expected steps, and their standard deviations if `return_std`, in the units of the sequences.
        """
        check_switch("return_std", return_std)
        share = SHARE if return_std else None
        mean, std = self._forecast(X, n_steps, systems, inputs, future_inputs, share, n_bootstrap, random_state)
        return (mean, std) if return_std else mean

    def forecast_interval(
        self,
        X: SequencesLike,
        n_steps: int,
        systems: Systems | None = None,
        *,
        coverage: float = SHARE,
        inputs: SequencesLike | None = None,
        future_inputs: SequencesLike | None = None,
        n_bootstrap: int | str = "auto",
        random_state: Any = 0,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return bounds between which each of the steps after the end of sequences lies with a given probability.

        The bounds are normal intervals around `forecast` with the standard deviations of `forecast`, widened until they
        contain the continuations of simulated sequences with the given coverage. The coverage refers to each single
        step and channel, and assumes that the model is correct. The bounds for 0.9 are ``mean ± 1.645 * std`` of
        ``forecast(return_std=True)``.

        Parameters
        ----------
        X, n_steps, systems, inputs, future_inputs, n_bootstrap, random_state
            As in `forecast`.
        coverage : float
            The probability, between 0 and 1.

        Returns
        -------
        lower, upper : ndarray of shape (N, n_steps, d)
            In the units of the sequences.

        Examples
        --------
        >>> import numpy as np
        >>> rng, t = np.random.default_rng(0), np.arange(110)[:, None]
        >>> x = np.sin(0.2 * t + [0, 1, 2]) + 0.1 * rng.standard_normal((110, 3))
        >>> identifier = LDSIdentifier(n_states=2, method="em").fit([x[:100]])
        >>> lower, upper = identifier.forecast_interval([x[:100]], 10, coverage=0.95)
        >>> lower.shape, bool(np.mean((lower[0] < x[100:]) & (x[100:] < upper[0])) > 0.8)
        ((1, 10, 3), True)
        """
        check_coverage("coverage", coverage)
        share = float(coverage)
        mean, std = self._forecast(X, n_steps, systems, inputs, future_inputs, share, n_bootstrap, random_state)
        half = ndtri(0.5 + 0.5 * share) * std
        return mean - half, mean + half

    def _forecast(
        self,
        X: SequencesLike,
        n_steps: int,
        systems: Systems | None,
        inputs: SequencesLike | None,
        future_inputs: SequencesLike | None,
        share: float | None,
        n_bootstrap: int | str,
        random_state: Any,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return means of future steps, and deviations for normal intervals of a given coverage; zeros for None."""
        sequences = self._check_fitted(X)
        check_steps(n_steps)
        if n_bootstrap != "auto":
            check_whole("n_bootstrap", n_bootstrap, 0)
        replicates = 0 if systems is not None else REPLICATES
        undamped = stabilizer_of_forecasts(self.stabilizer_)
        U = self._inputs_of(sequences, inputs)
        ahead = future_of(self, future_inputs, len(sequences), n_steps, "future_inputs")
        systems = self._systems_for(sequences, systems, undamped, U)
        made, std = np.zeros((2, len(sequences), n_steps, len(self.scale_)))
        delay, rng = self._sizes()[1], random_generator(random_state)
        estimation = dataclasses.replace(self._estimation(), stabilizer="CG" if undamped == "NONE" else undamped)
        for rows, Y in estimation.batches(sequences):
            chosen = systems[rows]
            known = None if U is None else np.stack([U[i] for i in rows])
            if known is not None and ahead is not None:
                known = np.concatenate([known, ahead[rows]], axis=1)
            mean, variance = predicted(chosen, Y, known, delay, n_steps)
            made[rows] = mean * self.scale_
            if share is None:
                continue
            count = (replicates if Y.shape[1] < LONG else 0) if n_bootstrap == "auto" else int(n_bootstrap)
            if count:
                variance = variance * inflation(estimation, chosen, Y, known, n_steps, count, share, rng)
            std[rows] = np.sqrt(variance) * self.scale_
        return made, std

    def score(self, X: SequencesLike, y: object = None, *, inputs: SequencesLike | None = None) -> float:
        """Return R² of forecasts of the ends of sequences, by systems of the preceding steps; higher is better.

        A fifth of the number of steps of the shortest sequence, at most ten steps, is held out at the end of each
        sequence. The preceding steps are identified with the settings of `fit`. R² is 1 - e / e₀ with the squared error
        e of the forecasts and the squared error e₀ of the mean of the preceding steps, summed over sequences, steps and
        channels. `GridSearchCV` and `cross_val_score` therefore compare settings by this R².

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
            Sequences of at least ten time steps. NaN is allowed with ``missing="smooth"``.
        y : ignored
        inputs : list of array-like of shape (T_i, p), optional

        Raises
        ------
        ValueError
            If a sequence is too short, or all ends are equal to the mean of the preceding steps.
        """
        sequences = self._check_fitted(X)
        ends = Ends(sequences)
        before, after = (None, None) if inputs is None else ends.split(check_inputs(inputs, sequences, self.method))
        return ends.r2(self.forecast(ends.before, ends.n_steps, inputs=before, future_inputs=after))

    def filter(
        self, X: SequencesLike, systems: Systems | None = None, *, inputs: SequencesLike | None = None
    ) -> StateEstimates:
        """Estimate each state from the outputs up to its time step, by the Kalman filter.

        With a delay, a state refers to `delay` consecutive outputs, so the estimates of the first ``delay - 1`` outputs
        also use later outputs.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
            NaN marks missing values, for any value of `missing`.
        systems : Systems, optional
            One system per sequence; by default, the systems are identified from the sequences.
        inputs : list of array-like of shape (T_i, p), optional

        Returns
        -------
        StateEstimates
            States in the basis of `Systems`, outputs in the units of the sequences.

        Examples
        --------
        >>> import numpy as np
        >>> x = np.cos(0.3 * np.arange(60))[:, None] + [0.0, 1.0]
        >>> x[20:24] = np.nan
        >>> identifier = LDSIdentifier(n_states=2, delay=2, stabilizer="CG", missing="smooth").fit([x])
        >>> found = identifier.filter([x])
        >>> found.means[0].shape, found.outputs[0].shape
        ((59, 2), (60, 2))
        >>> bool(np.abs(found.outputs[0][23, 0] - np.cos(0.3 * 23)) < 0.1)
        True
        """
        return self._estimates(X, systems, inputs, smoothing=False)

    def smooth(
        self, X: SequencesLike, systems: Systems | None = None, *, inputs: SequencesLike | None = None
    ) -> StateEstimates:
        """Estimate each state from all outputs, by the Kalman smoother.

        The parameters and the result are the same as for `filter`. With a delay, an expected output and its variance
        are averages over the states to which the output belongs.
        """
        return self._estimates(X, systems, inputs, smoothing=True)

    def _estimates(
        self, X: SequencesLike, systems: Systems | None, inputs: SequencesLike | None, *, smoothing: bool
    ) -> StateEstimates:
        sequences = self._check_fitted(X, missing="smooth")
        U = self._inputs_of(sequences, inputs)
        systems = self._systems_for(sequences, systems, self.stabilizer_, U)
        count, delay = len(sequences), self._sizes()[1]
        lists: dict[str, list[Any]] = {
            name: [None] * count for name in ("means", "covariances", "outputs", "output_std")
        }
        likelihood = np.empty(count)
        estimation = self._estimation()
        for rows, Y in estimation.batches(sequences):
            chosen, stacked = systems[rows], estimation.stacked_inputs(U, rows)
            filtered = kalman_filter(chosen, compress(chosen, embed(Y, delay), stacked))
            if smoothing:
                x, P, _ = smooth(chosen, filtered)
            else:
                x, P = filtered.x, filtered.P[:, np.arange(filtered.x.shape[1]).clip(0, filtered.P.shape[1] - 1)]
            back = unembed if smoothing else latest
            outputs = back(outputs_of(chosen, x, stacked), delay) * self.scale_
            std = np.sqrt(back(output_variances(chosen, P), delay)) * self.scale_
            likelihood[rows] = filtered.log_likelihood
            for name, values in zip(lists, (x, P, outputs, std), strict=True):
                for i, value in zip(rows, values, strict=True):
                    lists[name][i] = value
        return StateEstimates(**lists, log_likelihood=likelihood)

    def interpolate(
        self, X: SequencesLike, systems: Systems | None = None, *, inputs: SequencesLike | None = None
    ) -> list[NDArray[np.float64]]:
        """Fill in missing values, which are marked by NaN, for any value of `missing`; recorded values are kept.

        With `systems` or inputs, the filled values are the means of the Kalman smoother of these systems. Otherwise
        they are the values that ``missing="smooth"`` computes. `smooth` also returns their standard deviations.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
        systems : Systems, optional
            One system per sequence.
        inputs : list of array-like of shape (T_i, p), optional

        Returns
        -------
        list of ndarray of shape (T_i, d)
        """
        return self._interpolated(X, systems, inputs)

    def _interpolated(
        self,
        X: SequencesLike,
        systems: Systems | None = None,
        inputs: SequencesLike | None = None,
        stages: Stages | None = None,
    ) -> list[NDArray[np.float64]]:
        """Fill in missing values; the batches are tasks of the stages of a fit."""
        sequences = self._check_fitted(X, missing="smooth")
        U = self._inputs_of(sequences, inputs)
        if systems is not None or U is not None:
            systems = self._systems_for(sequences, systems, stabilizer_of_forecasts(self.stabilizer_), U)
        made: list[Any] = [None] * len(sequences)
        estimation = self._estimation()

        def filled(task: tuple[NDArray[np.intp], list[Any], Systems | None, Array | None]) -> Array:
            rows, batch, of_batch, stacked = task
            Y = estimation.scaled(batch, rows)
            whole = estimation.filled(Y, rows) if of_batch is None else smoothed(of_batch, Y, estimation.delay, stacked)
            return whole * estimation.scale

        batches = list(estimation.rows(sequences))
        tasks = [
            (
                rows,
                [sequences[i] for i in rows],
                None if systems is None else systems[rows],
                None if systems is None else estimation.stacked_inputs(U, rows),
            )
            for rows in batches
        ]
        for rows, found in zip(batches, (stages or Stages()).map(filled, tasks), strict=True):
            for i, x in zip(rows, found, strict=True):
                made[i] = np.where(np.isnan(sequences[i]), x, sequences[i])
        return made

    def log_likelihood(
        self, X: SequencesLike, systems: Systems | None = None, *, inputs: SequencesLike | None = None
    ) -> NDArray[np.float64]:
        """Return the log-likelihood of each sequence under its system, by the Kalman filter.

        Outputs are in the units of `Systems`, ``x(1) ~ N(x1, P1)``, and NaN is left out. With a delay, the stacked
        outputs count as if they were independent given the states.

        Parameters
        ----------
        X : list of array-like of shape (T_i, d)
        systems : Systems, optional
            One system per sequence; by default, the systems are identified from the sequences.
        inputs : list of array-like of shape (T_i, p), optional

        Returns
        -------
        ndarray of shape (N,)
        """
        sequences = self._check_fitted(X)
        U = self._inputs_of(sequences, inputs)
        systems = self._systems_for(sequences, systems, self.stabilizer_, U)
        made = np.empty(len(sequences))
        estimation = self._estimation()
        for rows, Y in estimation.batches(sequences):
            outputs = compress(systems[rows], embed(Y, estimation.delay), estimation.stacked_inputs(U, rows))
            made[rows] = kalman_filter(systems[rows], outputs).log_likelihood
        return made

    def _learn(
        self, sequences: list[Any], inputs: SequencesLike | None = None, stages: Stages | None = None
    ) -> Estimation:
        """Set the fitted attributes."""
        U = None if inputs is None else check_inputs(inputs, sequences, self.method)
        d = sequences[0].shape[1]
        scale = channel_scale(sequences) if self.scale else np.ones(d)
        for channel in np.flatnonzero(scale < np.finfo(float).tiny):
            raise ValueError(f"channel {channel} has a standard deviation near {scale[channel]:.1g}: scale the data up")
        lengths = [len(x) for x in sequences]
        n, delay = default_sizes(self.n_states, self.delay, d, min(lengths), self.method)
        if self.method != "pca" and self.n_states is None:
            n = "auto"
        elif self.n_states is None and n < (most := default_sizes(None, self.delay, d, max(lengths))[0]):
            warnings.warn(
                f"sequence {int(np.argmin(lengths))} has {min(lengths)} time steps, so all systems have "
                f"n_states={n} instead of {most}: remove short sequences, or set n_states",
                stacklevel=3,
            )
        self.input_mean_, self.input_scale_ = standardization(U, self._removes_mean, bool(self.scale))
        self.__dict__.pop("choice_", None)
        order = check_order(n)
        if not isinstance(order, int):
            began = time.perf_counter()
            step = self._chosen_order(order, sequences, scale, delay, U, stages or Stages())
            order = step.chosen[0] + 1
            self.choice_ = Choice([step], {"n_states": order}, [], time.perf_counter() - began)
        self.n_features_in_, self.n_states_, self.delay_, self.scale_ = d, order, delay, scale
        self.n_inputs_ = len(self.input_mean_)
        return self._estimation()

    def _identified(
        self, X: SequencesLike, inputs: SequencesLike | None = None, stages: Stages | None = None
    ) -> Systems:
        """Return the systems of sequences; the batches are tasks of the stages of a fit."""
        sequences = self._check_fitted(X)
        return self._estimation().identify(sequences, self._inputs_of(sequences, inputs), stages)

    def _inputs_of(self, sequences: list[Any], inputs: SequencesLike | None) -> list[Array] | None:
        """Return standardized inputs of sequences, or None."""
        count = getattr(self, "n_inputs_", 0)  # without: set by estimators that identify with a scale of their own
        name = type(self).__name__
        if inputs is None:
            if count:
                raise ValueError(
                    f"this {name} was fitted with {count} inputs: pass inputs, one (T, {count}) array per sequence"
                )
            return None
        U = check_inputs(inputs, sequences, self.method)
        if U[0].shape[1] != count:
            raise ValueError(
                f"inputs have {U[0].shape[1]} columns but this {name} was fitted with {count}: pass the same inputs as "
                "in fit"
            )
        return self._standardized(U)

    def _standardized(self, inputs: Sequence[Array] | None) -> list[Array] | None:
        return None if inputs is None else [(u - self.input_mean_) / self.input_scale_ for u in inputs]

    def _chosen_order(
        self,
        rule: Any,
        sequences: list[Any],
        scale: Array,
        delay: int,
        inputs: Sequence[Array] | None,
        stages: Stages,
    ) -> Step:
        if any(map(is_large, sequences)):
            raise ValueError(
                f"n_states={quoted(self.n_states)} does not support sequences that are read in blocks: pass a number"
            )
        estimation = self._estimation(scale, (1, delay))
        if rule == "auto" and self.method != "pca":
            whole = [interpolated(np.asarray(x)[None])[0] for x in sequences]
            return order_under_noise([x / scale for x in whole], self._standardized(inputs), delay, stages)
        batches = [estimation.stacked(interpolated(Y)) for _, Y in estimation.batches(sequences)]
        return choose_order(rule, batches, self._removes_mean, stages)

    @property
    def _removes_mean(self) -> bool:
        return self.center == "auto" or bool(self.center)

    def _sizes(self) -> tuple[int, int]:
        """Return the number of states and the delay: the settings, or what `fit` chose."""
        n = self.n_states if isinstance(self.n_states, Integral) else self.n_states_
        delay = self.delay if isinstance(self.delay, Integral) else self.delay_
        return int(n), int(delay)

    def _estimation(self, scale: Array | None = None, sizes: tuple[int, int] | None = None) -> Estimation:
        n, delay = self._sizes() if sizes is None else sizes
        return Estimation(
            self.scale_ if scale is None else scale,
            n,
            self._removes_mean,
            delay,
            self.stabilizer_ or "NONE",
            float(self.bound),
            self.method,
            self.covariance_type,
            int(self.max_iter),
        )

    def _check(self, X: SequencesLike) -> list[Any]:
        """Validate sequences for `fit`; settings that `fit` chooses count with their smallest values."""
        check_parameters(self, RULES)
        order = check_order(self.n_states)
        return self._checked(X, order if isinstance(order, int) else 1, 1 if self.delay == "auto" else self.delay)

    def _checked(self, X: SequencesLike, n: int, delay: Any, missing: str | None = None) -> list[Any]:
        setting = f"n_states={n if self.n_states in (None, 'auto') else self.n_states}"
        setting += f" with delay={delay}" * (delay > 1)
        return checked(X, n, delay, setting, missing or self.missing, self.method)

    def _check_fitted(self, X: SequencesLike, missing: str | None = None) -> list[Any]:
        chosen = {"n_states_": self.n_states, "delay_": self.delay}
        check_is_fitted(self, ["scale_", *(name for name, value in chosen.items() if not isinstance(value, Integral))])
        check_parameters(self, RULES)
        check_channel_names(self, X)
        sequences = self._checked(X, *self._sizes(), missing)
        if sequences[0].shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {sequences[0].shape[1]} channels but this {type(self).__name__} was fitted on "
                f"{self.n_features_in_}: pass the same channels as in fit"
            )
        return sequences

    def _systems_for(
        self, sequences: list[Any], systems: Systems | None, stabilizer: str | None, inputs: list[Array] | None
    ) -> Systems:
        """Return the systems that predict sequences: the given systems, or the identified systems."""
        if any(map(is_large, sequences)):
            raise ValueError(
                "predictions do not support sequences that are read in blocks: pass shorter sequences, or fewer "
                "channels"
            )
        if systems is None:
            return dataclasses.replace(self._estimation(), stabilizer=stabilizer or "NONE").identify(sequences, inputs)
        delay = self._sizes()[1]
        check_systems(systems, len(sequences), len(self.scale_) * delay)
        if (
            systems.Omega is None
            or not (systems.Omega if systems.Omega.ndim == 2 else np.linalg.eigvalsh(systems.Omega)).min() > 0
        ):
            raise ValueError(
                "systems lack Omega, the variances of the output noise, or Omega is not positive: pass Systems with "
                "a positive Omega"
            )
        expected = 0 if inputs is None else inputs[0].shape[1] * delay
        if systems.n_inputs != expected:
            raise ValueError(f"systems have {systems.n_inputs} inputs: pass systems with {expected} (inputs × delay)")
        return systems
