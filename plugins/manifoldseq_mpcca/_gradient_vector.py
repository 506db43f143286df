"""Gradient vectors of a mixture of probabilistic CCAs, (42)-(45), for many sets of descriptors at once.

All values follow from means over a set under the responsibilities, ``E_k[xt]``, ``E_k[(xt - mu)(xt - mu)']`` and
``E_k[zhat]``, where ``xt = x - W zhat`` is the private part (4), (9), (10). Without loadings (d = 0), the result is the
Fisher vector of a Gaussian mixture, (1)-(3).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manifoldseq.estimators import BagsLike, ViewsLike, check_choice

from ._bags import Bags, Group
from ._expectation import Block, Expectation
from ._parameters import Array, Mixture, mixture_of
from ._views import check_sizes, check_views

SCALES = ("paper", "model", "likelihood", "fisher")

_SUMS = 2**22
"""Number of values in the sums of one group of bags."""
_CROSS = 2**20
"""Number of values in the products of descriptors and latent means of some bags of a group."""
_ROWS = 2**14


@dataclass(frozen=True, eq=False)
class Encoding:
    """Statistics of B sets, for each of K components.

    Attributes
    ----------
    means : tuple of ndarray of shape (B, K, d_v)
        Gradient with respect to the mean of each view, (42), (44).
    noise : tuple of ndarray of shape (B, K, d_v), or (B, K, d_v, d_v) for full noise
        Gradient with respect to the noise of each view, (43), (45).
    latent : ndarray of shape (B, K, d)
        ``E_k[zhat]``, the mean of the latent means (18) under the responsibilities.
    """

    means: tuple[Array, ...]
    noise: tuple[Array, ...]
    latent: Array


class Encoder:
    """Encode sets of descriptors under a mixture.

    Parameters
    ----------
    mixture : Mixture
    gradient_scale : {"paper", "model", "likelihood", "fisher"}
        With N rows in the set, ``N_k`` their responsibilities for component k and L the log-likelihood (12) of the set:

        * ``"paper"``: as printed, with ``w_k = N_k / N`` (37): exactly ``-(2/N)`` times the gradient of L;
        * ``"model"``: as printed, with the mixture's weight for ``w_k``: ``-2 w_k / N_k`` times the gradient of L;
        * ``"likelihood"``: the gradient of L itself;
        * ``"fisher"``: the gradient of ``L / N``, divided by the root of the diagonal of its Fisher information at W =
          0 (Perronnin, Sánchez, Mensink 2010), so that entries are comparable for any units.

        The gradient for the noise is with respect to the variances, or to the full covariance matrix.
    """

    def __init__(self, mixture: Mixture, gradient_scale: str = "paper") -> None:
        check_choice("gradient_scale", gradient_scale, SCALES)
        self.mixture, self.gradient_scale = mixture, gradient_scale
        self.expectation = Expectation(mixture)
        covariance = self.expectation.latent_covariance
        self._private: list[Array] = []  # Psi~ = Psi - W Sz W', of each view
        self._factors: list[Array] = []  # Psi^-1, or R^-1 with Psi = R R' for "fisher"
        for v, noise in enumerate(mixture.noise):
            W = mixture.loadings[:, mixture.columns(v)]
            if mixture.full:
                self._private.append(noise - W @ covariance @ W.mT)
                self._factors.append(np.linalg.inv(np.linalg.cholesky(noise) if gradient_scale == "fisher" else noise))
            else:
                self._private.append(noise - np.einsum("knd,kde,kne->kn", W, covariance, W))
                self._factors.append(1 / (np.sqrt(noise) if gradient_scale == "fisher" else noise))

    def encode(self, bags: Bags) -> Iterator[Encoding]:
        """Yield the encodings of groups of bags."""
        for group in bags.groups(*self.group_size):
            yield self.encode_group(group)

    @property
    def group_size(self) -> tuple[int, int]:
        """The numbers of rows and bags of a group, such that its sums fit into a bounded memory."""
        K, D = self.mixture.means.shape
        each = K * (sum(n * n for n in self.mixture.views) if self.mixture.full else D)
        return _ROWS, max(1, _SUMS // each)

    def encode_group(self, group: Group) -> Encoding:
        """Return the encoding of the bags of a group; components without responsibilities in a bag give zeros."""
        sums = _Sums(self.expectation, len(group.lengths))
        offsets = np.concatenate([[0], np.cumsum(group.lengths)])
        for block in self.expectation.blocks(group.views):
            sums.add(block, offsets)
        counts = sums.counts[..., None]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            inverse = np.where(counts > np.finfo(float).tiny, 1 / counts, 0.0)
        on_mean, on_noise = self._coefficients(sums.counts, group.lengths)
        # of each bag and component E_k[xt] - mu, (B, K, D), and E_k[(xt - mu)(xt - mu)'] - Psi~ with
        # Psi~ = Psi - W M^-1 W': (42), (44) are Psi^-1 times the first, (43), (45) Psi^-1 (second) Psi^-1
        shift = self.expectation.means
        private = sums.first * inverse  # E_k[xt]
        residual = np.where(inverse > 0, private - shift, 0.0)
        means, noise = [], []
        for v, (factor, own) in enumerate(zip(self._factors, self._private, strict=True)):
            columns = self.mixture.columns(v)
            r, x, mu = residual[..., columns], private[..., columns], shift[:, columns]
            second = sums.second[v] * (inverse[..., None] if self.mixture.full else inverse)
            if self.mixture.full:
                spread = second - x[..., :, None] * mu[:, None, :] - mu[:, :, None] * x[..., None, :]
                spread += mu[:, :, None] * mu[:, None, :] - own
                means.append(on_mean * (factor @ r[..., None])[..., 0])
                noise.append(on_noise[..., None] * (factor @ spread @ factor.mT))
            else:
                spread = second - 2 * x * mu + mu**2 - own
                means.append(on_mean * factor * r)
                noise.append(on_noise * factor**2 * spread)
        return Encoding(tuple(means), tuple(noise), sums.latent * inverse)

    def _coefficients(self, counts: Array, lengths: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return the factors of the residual mean and the residual covariance, (B, K, 1) each; 0 for N_k = 0."""
        weights = self.mixture.weights
        share = counts / np.maximum(lengths, 1)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            on_mean, on_noise = {
                "paper": (-2 * share, -share),
                "model": (np.broadcast_to(-2 * weights, share.shape), np.broadcast_to(-weights, share.shape)),
                "likelihood": (counts, counts / 2),
                "fisher": (share / np.sqrt(weights), share / np.sqrt(2 * weights)),
            }[self.gradient_scale]
        alive = counts > np.finfo(float).tiny
        return np.where(alive, on_mean, 0.0)[..., None], np.where(alive, on_noise, 0.0)[..., None]


class _Sums:
    """Sums over the rows of each of B bags: of g, g zhat, g xt and g xt xt', with xt = v - W zhat."""

    def __init__(self, expectation: Expectation, n_bags: int) -> None:
        mixture = expectation.mixture
        K, D = mixture.means.shape
        self.expectation = expectation
        self.counts = np.zeros((n_bags, K))
        self.latent = np.zeros((n_bags, K, mixture.n_latent))
        self.first = np.zeros((n_bags, K, D))
        self.second = [np.zeros((n_bags, *noise.shape)) for noise in mixture.noise]

    def add(self, block: Block, offsets: NDArray[np.int64]) -> None:
        """Add the rows of a block; bag b has the rows from ``offsets[b]`` to ``offsets[b + 1]``."""
        Z = self.expectation.latent(block)
        K, d, _ = Z.shape
        D = self.first.shape[2]
        most = max(1, _CROSS // (K * max(d, 1) * D))
        for bags, rows, length in _runs(offsets, block.rows, most):
            shape = (bags.stop - bags.start, length)
            V = block.V[rows, :D].reshape(*shape, D)
            g = block.g[:, rows].reshape(K, *shape).swapaxes(0, 1)  # (B, K, T)
            self._add(bags, V, g, Z[:, :, rows].reshape(K, d, *shape).transpose(2, 0, 1, 3))

    def _add(self, bags: slice, V: Array, g: Array, Z: Array) -> None:
        """Add bags with the same number of rows: V (B, T, D), g (B, K, T), Z (B, K, d, T)."""
        mixture = self.expectation.mixture
        W = mixture.loadings
        B, T, D = V.shape
        K, d = W.shape[0], W.shape[2]
        # xt = v - W zhat: sum g xt xt' = sum g v v' - W (sum g zhat v') - its transpose + W (sum g zhat zhat') W'
        GZ = Z * g[:, :, None, :]
        latent = GZ.sum(axis=3)
        shared = (W @ latent[..., None])[..., 0]  # sum g W zhat
        self.counts[bags] += g.sum(axis=2)
        self.latent[bags] += latent
        self.first[bags] += g @ V - shared
        moment = GZ @ Z.mT
        crossed = mixture.full or T > 1
        cross = (GZ.reshape(B, K * d, T) @ V).reshape(B, K, d, D) if crossed else None  # sum g zhat v'
        for v, second in enumerate(self.second):
            columns = mixture.columns(v)
            x, A = V[..., columns], W[:, columns]
            if mixture.full:
                product = A @ cross[..., columns]  # pyright: ignore[reportOptionalSubscript]
                weighted = g[..., None] * x[:, None]
                second[bags] += weighted.mT @ x[:, None] - product - product.mT + A @ moment @ A.mT
                continue
            second[bags] += g @ x**2
            if d:
                mixed = (
                    x * shared[..., columns] if cross is None else np.einsum("knd,bkdn->bkn", A, cross[..., columns])
                )
                second[bags] += ((A @ moment) * A).sum(axis=3) - 2 * mixed


def _runs(offsets: NDArray[np.int64], rows: slice, most: int) -> Iterator[tuple[slice, slice, int]]:
    """Split rows of a block into runs of at most `most` neighbouring bags with the same number of rows.

    Yield the bags, their rows in the block, and the number of rows of each bag.
    """
    cuts = np.clip(offsets, rows.start, rows.stop) - rows.start
    lengths = np.diff(cuts)
    changes = np.flatnonzero(np.diff(lengths)) + 1
    for first, last in zip([0, *changes], [*changes, len(lengths)], strict=True):
        if length := int(lengths[first]):
            for start in range(first, last, most):
                stop = min(start + most, last)
                yield slice(start, stop), slice(int(cuts[start]), int(cuts[stop])), length


def gradient_vectors(
    mixture: Any, X: BagsLike, Y: BagsLike | None = None, *, gradient_scale: str = "paper"
) -> Encoding:
    """Return the gradient vectors of sets of descriptors, (5), (6), (42)-(45), and their latent vectors.

    Parameters
    ----------
    mixture : Mixture or fitted MixturePCCA
        With d = 0 (no loadings) the gradient vector is the Fisher vector of a Gaussian mixture, (1)-(3).
    X, Y
        Sets of descriptors: X is the first view and Y the second, or X is a list of all views. A view is a list of
        arrays (T_i, d_v), or an array (N, T, d_v), or (N, d_v) for sets of one descriptor.
    gradient_scale : {"paper", "model", "likelihood", "fisher"}
        ``"paper"`` is the printed formula, whose sign is opposite to the sign of a gradient. With ``w_k = N_k / N``
        (37), it is ``-(2/N)`` times the gradient of the log-likelihood of the N rows of the set. ``"likelihood"`` is
        this gradient itself. ``"model"`` is the printed formula with the weights ``w_k`` of the mixture. ``"fisher"``
        is the gradient of the mean log-likelihood divided by the root of the diagonal Fisher information of the
        component (Perronnin, Sánchez, Mensink, ECCV 2010).

    Returns
    -------
    Encoding
        ``means``, ``noise`` (one array per view each) and ``latent``.

    Raises
    ------
    ValueError
        If a bag or `gradient_scale` is not valid. The message names the argument, the position and the remedy.

    Examples
    --------
    >>> import numpy as np
    >>> mixture = Mixture([1.0], [[0.0, 0.0, 1.0]], [[[1.0], [0.5], [2.0]]], noise=[[[1.0, 1.0]], [[0.1]]])
    >>> bags = [np.ones((4, 2)), np.zeros((7, 2))], [np.ones((4, 1)), np.ones((7, 1))]
    >>> found = gradient_vectors(mixture, *bags)
    >>> found.means[0].shape, found.noise[1].shape, found.latent.shape
    ((2, 1, 2), (2, 1, 1), (2, 1, 1))
    """
    mixture = mixture_of(mixture)
    if mixture.private:
        raise ValueError(
            "gradient vectors require a mixture without private latent dimensions: fit with covariance_type='diag'"
        )
    bags = Bags(X, Y, mixture.views)
    parts = list(Encoder(mixture, gradient_scale).encode(bags))
    return Encoding(
        tuple(np.concatenate(view) for view in zip(*(part.means for part in parts), strict=True)),
        tuple(np.concatenate(view) for view in zip(*(part.noise for part in parts), strict=True)),
        np.concatenate([part.latent for part in parts]),
    )


def private_parts(mixture: Any, X: ViewsLike, Y: ArrayLike | None = None) -> list[Array]:
    """Return the part of each view that the other views do not explain, ``x - W_x zhat``, by row and component.

    The equations are (4), (9), (10), (24) and (25), with the posterior mean (18) for z.

    Parameters
    ----------
    mixture : Mixture or fitted MixturePCCA
    X, Y : array-like of shape (N, d_v)
        X is the first view and Y the second, or X is a list of all views.

    Returns
    -------
    list of ndarray of shape (N, K, d_v)

    Examples
    --------
    >>> mixture = Mixture([1.0], [[0.0, 0.0]], [[[1.0], [1.0]]], noise=[[[0.5]], [[0.5]]])
    >>> x, y = private_parts(mixture, [[1.0], [1.0]], [[1.0], [-1.0]])
    >>> x[:, 0, 0].round(3).tolist(), y[:, 0, 0].round(3).tolist()
    ([0.2, 1.0], [0.2, -1.0])
    """
    mixture = mixture_of(mixture)
    views = check_views(X, Y)
    check_sizes(views, mixture.views, "mixture")
    Z = Expectation(mixture).latent_means(views)[:, :, : mixture.n_latent]
    return [
        view[:, None, :] - np.einsum("knd,bkd->bkn", mixture.shared[:, mixture.columns(v)], Z)
        for v, view in enumerate(views)
    ]
