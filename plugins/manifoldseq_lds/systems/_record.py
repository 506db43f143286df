"""The record of many linear dynamical systems, and the functions of the domain `lds`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms
from manifoldseq.estimators import check_real

Array = NDArray[np.floating[Any]]
Item = tuple[Any, ...]

_ORTHONORMALITY = 1e-6


class System(tuple[Any, ...]):
    """One system, an item of the domain ``"lds"``: a named tuple ``(A, C)`` up to ``(A, C, x1, noise_factor, mean)``.

    Shapes are A (n, n), C (m, n), x1 (n,), noise_factor (n, v) and mean (m,); absent fields are None.

    Examples
    --------
    >>> first = Systems(A=[[[0.5]]], C=[[[1.0], [0.0]]])[0]
    >>> first.A, first.x1, len(first)
    (array([[0.5]]), None, 2)
    """

    __slots__ = ()

    @property
    def A(self) -> Any:
        """The transition matrix, (n, n)."""
        return self[0]

    @property
    def C(self) -> Any:
        """The output matrix, (m, n)."""
        return self[1]

    @property
    def x1(self) -> Any:
        """The first state, (n,), or None."""
        return self[2] if len(self) > 2 else None

    @property
    def noise_factor(self) -> Any:
        """The factor F of the covariance ``F F'`` of the state noise, (n, v), or None."""
        return self[3] if len(self) > 3 else None

    @property
    def mean(self) -> Any:
        """The mean of the outputs, (m,), or None."""
        return self[4] if len(self) > 4 else None


@dataclass(frozen=True, eq=False, init=False)
class Systems:
    """N linear dynamical systems of equal size, as arrays.

    System i is the model (1) of Huang et al.: ``y(t) = mean + C x(t) + w(t)``, ``x(t+1) = A x(t) + F v(t)``, with the
    feasible set (2): ``C.T @ C = I`` and a spectral radius of A below one. With fewer outputs than states, C is any
    matrix. Known inputs u add ``B u(t)`` to the next state and ``D u(t)`` to the output. Arrays are copied and
    read-only.

    Parameters
    ----------
    A : array-like of shape (N, n, n)
        Transition matrices.
    C : array-like of shape (N, m, n)
        Output matrices, with orthonormal columns unless there are fewer outputs m than states n.
    x1 : array-like of shape (N, n), optional
        First states.
    noise_factor : array-like of shape (N, n, n), optional
        The factors F of the model, which the paper calls B: ``F @ F.T`` is the covariance of the state noise.
    mean : array-like of shape (N, m), optional
        Output means.
    Omega : array-like of shape (N, m) or (N, m, m), optional
        Variances of the output noise w if it is independent between outputs, or covariance matrices of w.
    P1 : array-like of shape (N, n, n), optional
        Covariances of the first states. By default they equal the covariance of the state noise.
    B : array-like of shape (N, n, p), optional
        Input matrices: inputs u add ``B u`` to the next state.
    D : array-like of shape (N, m, p), optional
        Feedthrough matrices: inputs u add ``D u`` to the output. B and D are given together.
    moments : array-like of shape (N, 2 d), optional
        Moments of each sequence: the mean of each of its d channels and the logarithm of its standard
        deviation, in units of the scale of the channel. `MomentKernel` compares them.
    A_estimate : array-like of shape (N, n, n), optional
        The estimated transition matrices before stabilization. They may be unstable.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is not finite, C is not orthonormal within 1e-6, a system is unstable, or Omega or
        P1 is not a covariance; the message names the system.

    Notes
    -----
    An integer index gives one item, the tuple of arrays ``(A, C, x1, noise_factor, mean)`` of one system without the
    trailing fields that are None (kernels use no other fields). Slices, integer arrays and boolean masks return
    `Systems`.

    Examples
    --------
    >>> systems = Systems(A=[[[0.5]], [[-0.9]]], C=[[[1.0], [0.0]], [[0.0], [1.0]]])
    >>> systems
    Systems(N=2, m=2, n=1)
    >>> A, C = systems[1]
    >>> A, len(systems[systems.A[:, 0, 0] > 0])
    (array([[-0.9]]), 1)
    """

    A: Array
    C: Array
    x1: Array | None = None
    noise_factor: Array | None = None
    mean: Array | None = None
    Omega: Array | None = None
    P1: Array | None = None
    B: Array | None = None
    D: Array | None = None
    moments: Array | None = None
    A_estimate: Array | None = None

    def __init__(
        self,
        A: ArrayLike,
        C: ArrayLike,
        x1: ArrayLike | None = None,
        noise_factor: ArrayLike | None = None,
        mean: ArrayLike | None = None,
        Omega: ArrayLike | None = None,
        P1: ArrayLike | None = None,
        B: ArrayLike | None = None,
        D: ArrayLike | None = None,
        moments: ArrayLike | None = None,
        A_estimate: ArrayLike | None = None,
    ) -> None:
        given = {"x1": x1, "noise_factor": noise_factor, "mean": mean, "Omega": Omega, "P1": P1}
        given |= {"B": B, "D": D, "moments": moments, "A_estimate": A_estimate}
        arrays = {name: None if value is None else real_array(name, value) for name, value in given.items()}
        self._set({"A": real_array("A", A), "C": real_array("C", C), **arrays})
        self._check_shapes()
        for one in fields(self):
            _check_finite(one.name, getattr(self, one.name))
        _check_orthonormal(self.C)
        check_stable(self.A)
        if self.Omega is not None and self.Omega.ndim == 2 and self.Omega.min() < 0:
            i = int(np.argwhere(self.Omega < 0)[0, 0])
            raise ValueError(f"system {i} has a negative variance in Omega: pass variances of the output noise")
        for name in ("Omega", "P1"):
            _check_covariances(name, getattr(self, name))

    def __len__(self) -> int:
        return len(self.A)

    @property
    def shape(self) -> tuple[int]:
        """The number of systems as a shape, for the splitters of scikit-learn."""
        return (len(self),)

    @property
    def n_states(self) -> int:
        """The state dimension n."""
        return self.A.shape[2]

    @property
    def n_outputs(self) -> int:
        """The output dimension m: channels times delay."""
        return self.C.shape[1]

    @property
    def n_inputs(self) -> int:
        """The number p of inputs, 0 without B and D."""
        return 0 if self.B is None else self.B.shape[2]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple):  # how scikit-learn takes rows: (rows, ...)
            if len(index) != 2 or index[1] is not Ellipsis:
                raise IndexError("systems have only one axis: pass a single index, systems[rows]")
            index = index[0]
        if isinstance(index, (int, np.integer)):
            parts = (self.A, self.C, self.x1, self.noise_factor, self.mean)
            item = [None if part is None else part[index] for part in parts]
            while item[-1] is None:
                item.pop()
            return System(item)
        rows = index if isinstance(index, slice) else np.asarray(index)
        if isinstance(rows, np.ndarray) and rows.size == 0:
            rows = rows.astype(np.intp)
        return self.trusted({one.name: _rows(getattr(self, one.name), rows) for one in fields(self)})

    def __iter__(self) -> Iterator[System]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        more = "".join(f", {one.name}" for one in fields(self)[2:] if getattr(self, one.name) is not None)
        return f"Systems(N={len(self)}, m={self.n_outputs}, n={self.n_states}{more})"

    @classmethod
    def from_items(cls, items: Iterable[Sequence[ArrayLike | None]]) -> Self:
        """Stack items, tuples ``(A, C)`` up to ``(A, C, x1, noise_factor, mean)``, into one record.

        Raises
        ------
        ValueError
            If there are no items, if fields or shapes differ, or if a system is not valid.

        Examples
        --------
        >>> Systems.from_items([([[0.5]], [[1.0], [0.0]])])
        Systems(N=1, m=2, n=1)
        """
        rows = item_rows(items)
        for i, row in enumerate(rows):
            shapes, first = _shapes(row), _shapes(rows[0])
            if shapes != first:
                raise ValueError(
                    f"item {i} has parts of shapes {shapes} but item 0 has {first}: pass items of the same shapes"
                )
        A, C, *rest = (None if column[0] is None else np.stack(column) for column in zip(*rows, strict=True))
        return cls(A, C, *rest)  # pyright: ignore[reportArgumentType]  neither A nor C is None

    @classmethod
    def concatenate(cls, parts: Iterable[Self]) -> Self:
        """Join records along the first axis; all records must have the same fields and sizes.

        Examples
        --------
        >>> one = Systems(A=[[[0.5]]], C=[[[1.0], [0.0]]])
        >>> Systems.concatenate([one, one])
        Systems(N=2, m=2, n=1)
        """
        records = list(parts)
        if not records:
            raise ValueError("there are no systems: pass at least one Systems record")
        joined: dict[str, Array | None] = {}
        for one in fields(cls):
            values = [getattr(record, one.name) for record in records]
            present = [value for value in values if value is not None]
            if present and len(present) < len(values):
                raise ValueError(f"some records have {one.name} and others do not: set it for all records or for none")
            if len({value.shape[1:] for value in present}) > 1:
                shapes = ", ".join(str(value.shape[1:]) for value in present)
                raise ValueError(f"records differ in the shape of {one.name} ({shapes}): pass records of equal size")
            joined[one.name] = np.concatenate(present) if present else None
        return cls.trusted(joined)

    @classmethod
    def trusted(cls, values: dict[str, Array | None]) -> Self:
        """Return a record of valid float64 arrays without checks; the arrays are not copied and become read-only."""
        made = object.__new__(cls)
        made._set(values)
        return made

    def __setstate__(self, state: dict[str, Array | None]) -> None:
        self._set(state)  # copies are read-only too

    def _set(self, values: dict[str, Array | None]) -> None:
        for name, value in values.items():
            if value is not None:
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    def _check_shapes(self) -> None:
        if self.A.ndim != 3 or self.A.shape[1] != self.A.shape[2] or 0 in self.A.shape:
            raise ValueError(f"A has shape {self.A.shape}: pass (N, n, n) with at least one system")
        if self.C.ndim != 3 or self.C.shape[2] != self.A.shape[2] or len(self.C) != len(self.A):
            raise ValueError(f"C has shape {self.C.shape}: pass (N, m, n) with N, n = {len(self.A)}, {self.n_states}")
        N, m, n = self.C.shape
        if (self.B is None) != (self.D is None):
            raise ValueError("only one of B and D is given: pass both (a matrix of zeros has no effect) or neither")
        p = self.B.shape[-1] if self.B is not None else 0
        omega = (N, m, m) if self.Omega is not None and self.Omega.ndim == 3 else (N, m)
        for name, shape in (
            ("x1", (N, n)),
            ("noise_factor", (N, n, n)),
            ("mean", (N, m)),
            ("Omega", omega),
            ("P1", (N, n, n)),
            ("B", (N, n, p)),
            ("D", (N, m, p)),
            ("A_estimate", (N, n, n)),
        ):
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise ValueError(f"{name} has shape {value.shape}: pass {shape}, which fits A and C")
        if self.moments is not None and (self.moments.ndim != 2 or len(self.moments) != N):
            raise ValueError(f"moments have shape {self.moments.shape}: pass one row for each of the {N} systems")


def replaced(systems: Systems, **parts: Array | None) -> Systems:
    """Return systems with some parts replaced by arrays that are known to be valid."""
    return Systems.trusted({one.name: getattr(systems, one.name) for one in fields(Systems)} | parts)


def chosen(first: NDArray[np.bool_], one: Systems, other: Systems) -> Systems:
    """Return the systems of `one` where `first` is true and those of `other` elsewhere; both have the same parts."""
    made: dict[str, Array | None] = {}
    for name in (field.name for field in fields(Systems)):
        a, b = getattr(one, name), getattr(other, name)
        made[name] = None if a is None else np.where(first.reshape(-1, *(1,) * (a.ndim - 1)), a, b)
    return Systems.trusted(made)


def to_item(point: Any) -> System:
    """Map a point ``(lam, V, U)`` of the canonical manifold to the item ``(A, C) = (diag(lam) V, U)``.

    Broadcasts over leading axes and can be differentiated by autograd. Further factors of the point are appended
    without change: a first state becomes the third part. The map is that of Theorem 1 of Huang et al.

    Examples
    --------
    >>> import numpy as np
    >>> to_item((np.array([0.5]), np.eye(1), np.eye(2, 1)))[0]
    array([[0.5]])
    """
    lam, V, U, *rest = point
    return System((lam[..., :, None] * V, U, *rest))


def example(rng: np.random.Generator) -> Systems:
    """Return five random stable systems with three states and six outputs, as example data for checks."""
    A = rng.standard_normal((5, 3, 3))
    A *= (rng.uniform(0.3, 0.95, 5) / np.abs(np.linalg.eigvals(A)).max(axis=-1))[:, None, None]
    return Systems(A, np.linalg.qr(rng.standard_normal((5, 6, 3)))[0], x1=rng.standard_normal((5, 3)))


def change_state_basis(item: Item) -> Item:
    """Return a P-equivalent item (3), ``(P.T A P, C P)`` with ``P.T x1``, for a fixed random orthogonal P."""
    n = len(item[0])
    return _in_basis(item, ms.linalg.polar(np.random.default_rng(n).standard_normal((n, n))))


def flip_state_signs(item: Item) -> Item:
    """Return a P-equivalent item (3) where P flips the sign of every other state."""
    return _in_basis(item, np.diag((-1.0) ** np.arange(len(item[0]))))


def permute_states(item: Item) -> Item:
    """Return a P-equivalent item (3) where P reverses the order of the states."""
    return _in_basis(item, np.eye(len(item[0]))[::-1])


def _in_basis(item: Item, P: NDArray) -> Item:
    A, C, *rest = item
    more = (P.T @ part if i < 2 and part is not None else part for i, part in enumerate(rest))
    return System((P.T @ A @ P, C @ P, *more))


def item_rows(items: Any) -> list[Item]:
    """Return items as a list of tuples; raise an error if it is empty."""
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise ValueError(f"systems are given as {type(items).__name__}: pass Systems or a list of items (A, C)")
    rows = list(items)
    for i, row in enumerate(rows):
        if not isinstance(row, (tuple, list)):
            raise ValueError(
                f"item {i} is of type {type(row).__name__}: pass a tuple (A, C), to which x1, noise_factor and mean "
                "can be appended"
            )
        if not 2 <= len(row) <= 5 or row[0] is None or row[1] is None:
            raise ValueError(
                f"item {i} has {len(row)} parts: pass a tuple (A, C), to which x1, noise_factor and mean can be "
                "appended"
            )
    if not rows:
        raise ValueError("there are no systems: pass at least one item (A, C)")
    return [tuple(row) for row in rows]


def real_array(name: str, value: ArrayLike) -> Array:
    """Return a float64 copy of real numbers."""
    value = check_real(value, name)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} has parts of different shapes: all systems must have the same size") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}: pass real numbers")
    return np.array(array, dtype=np.float64, order="C")


def _rows(value: Array | None, rows: Any) -> Array | None:
    return None if value is None else np.array(value[rows], order="C")


def _shapes(row: tuple[Any, ...]) -> list[tuple[int, ...] | None]:
    return [None if part is None else np.shape(part) for part in row]


def _check_finite(name: str, value: Array | None) -> None:
    if value is not None and not np.isfinite(value).all():
        i = int(np.argwhere(~np.isfinite(value))[0, 0])
        raise ValueError(f"system {i} has a value in {name} that is not finite: remove the system or repair it")


def _check_orthonormal(C: Array) -> None:
    if C.shape[1] < C.shape[2]:
        return  # such columns cannot be orthonormal
    error = np.abs(C.swapaxes(1, 2) @ C - np.eye(C.shape[2])).max(axis=(1, 2))
    if error.max() > _ORTHONORMALITY:
        i = int(np.argmax(error > _ORTHONORMALITY))
        raise ValueError(
            f"system {i} has a C whose columns are not orthonormal (C'C differs from I by {error[i]:.1g}): "
            f"identify it with LDSIdentifier, or move R of C = QR into A and keep Q"
        )


def _check_covariances(name: str, value: Array | None) -> None:
    if value is None or value.ndim == 2:
        return
    w = np.linalg.eigvalsh(0.5 * (value + value.swapaxes(1, 2)))
    skew = np.abs(value - value.swapaxes(1, 2)).max(axis=(1, 2))
    for i in np.flatnonzero((skew > 1e-8 * w[:, -1]) | (w[:, 0] < -1e-8 * w[:, -1]) | (w[:, -1] < 0)):
        raise ValueError(
            f"system {i} has a {name} that is not a covariance: pass symmetric positive semidefinite matrices"
        )


def check_stable(A: Array) -> None:
    """Raise ValueError for a spectral radius of one or more; the message names the first such matrix."""
    suspects = np.flatnonzero(np.linalg.norm(A, axis=(1, 2)) >= 1)  # the spectral radius is at most the Frobenius norm
    if len(suspects):
        radius = np.abs(np.linalg.eigvals(A[suspects])).max(axis=1)
        if radius.max() >= 1:
            worst = int(np.argmax(radius >= 1))
            raise ValueError(
                f"system {suspects[worst]} is unstable: A has spectral radius {radius[worst]:.4g}, which must be below "
                "1; stabilize the system, for example with LDSIdentifier(stabilizer='SN')"
            )
