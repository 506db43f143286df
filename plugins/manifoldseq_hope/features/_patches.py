"""Windows of images: positions, cells of pooling, and normalized pixels."""

from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..families._family import Array

_PIXELS = 1 << 19
"""Number of pixels of the patches that are processed together."""
CONSTANT = 1e-5
"""A patch is constant if its pixels differ by at most this fraction of the largest, about the rounding error."""
_ROOM = 1e3
"""Squares of pixels stay below the largest number by this factor, so that they can be summed over a patch."""
_IMAGES, _ROUNDS, _MORE = 1024, 20, 1.5
"""Images per read, rounds of draws, and draws per requested patch (some patches are constant)."""


@dataclass(frozen=True)
class Patches:
    """The P patches of an image of one size, in the order of the cells that they are pooled in.

    Attributes
    ----------
    image_shape : (int, int) or (int, int, int)
        Height, width and, if there are several, channels.
    patch_shape : (int, int)
    corners : ndarray of int of shape (P,)
        First pixel of every patch, in images that are stored row by row with adjacent channels.
    cells : ndarray of int of shape (P,)
        The cell of every patch, in ascending order.
    offsets : ndarray of int of shape (D,)
        Offsets from the first pixel of a patch to each of its D values.
    shares : ndarray of shape (P, cells)
        Weight of a patch in every cell: one or zero, or bilinear weights if cells overlap.
    """

    image_shape: tuple[int, ...]
    patch_shape: tuple[int, int]
    corners: NDArray[np.intp]
    cells: NDArray[np.intp]
    offsets: NDArray[np.intp]
    shares: Array

    @classmethod
    def of(
        cls,
        image_shape: tuple[int, ...],
        patch_shape: tuple[int, int],
        stride: tuple[int, int],
        grid: tuple[int, int],
        overlap: bool = False,
    ) -> "Patches":
        """Divide the positions of patches into cells; if there is a remainder, the first cells have one more."""
        (H, W, channels), (h, w) = sizes_of(image_shape), patch_shape
        places = np.arange(0, H - h + 1, stride[0]), np.arange(0, W - w + 1, stride[1])
        down, right = (
            np.repeat(np.arange(n), [len(part) for part in np.array_split(place, n)])
            for n, place in zip(grid, places, strict=True)
        )
        cells = (down[:, None] * grid[1] + right).ravel()
        order = np.argsort(cells, kind="stable")
        corners = channels * (places[0][:, None] * W + places[1]).ravel()
        offsets = (channels * (np.arange(h)[:, None] * W + np.arange(w))[..., None] + np.arange(channels)).ravel()
        if overlap:
            shares = np.kron(*(_tents(len(place), n) for place, n in zip(places, grid, strict=True)))
        else:
            shares = np.eye(grid[0] * grid[1])[cells]
        return cls(image_shape, patch_shape, corners[order], cells[order], offsets, shares[order])

    def varied(self, pixels: Array) -> NDArray[np.bool_]:
        """Return, for every pixel of consecutive images, whether the patch that begins there is not constant.

        The values of pixels where no patch begins are meaningless.
        """
        # the largest and the least value of the window that begins at each: over channels, along rows, along columns
        _, W, channels = sizes_of(self.image_shape)
        (h, w), ends = self.patch_shape, []
        for of in (np.maximum, np.minimum):
            along = _sliding(_sliding(pixels, channels, 1, of), w, channels, of)
            ends.append(_sliding(along, h, W * channels, of))
        high, low = ends
        largest = np.maximum(np.abs(high), np.abs(low))
        largest *= pixels.dtype.type(CONSTANT)
        limits = np.finfo(pixels.dtype)
        np.maximum(largest, np.sqrt(limits.tiny / limits.eps), out=largest)  # else the squares underflow
        high -= low
        return high > largest

    def cut(self, pixels: Array, at: NDArray[np.intp]) -> Array:
        """Return patches, (D, n), of consecutive images; `at` contains their first pixels."""
        x = np.empty((len(self.offsets), len(at)), pixels.dtype)
        # pixel by pixel of the patch: `pixels[offsets[:, None] + at]` makes `ConvolutionalFeatures.transform` take 1.06
        # to 1.18 times as long (`python -m benchmarks.tricks cut`); mode="raise" copies, "clip" takes longer
        for row, offset in zip(x, self.offsets, strict=True):
            pixels[offset:].take(at, out=row, mode="wrap")
        return x

    def groups(self) -> tuple[int, list[slice]]:
        """Return the number of images and the slices of their patches that are processed together."""
        P, most = len(self.corners), max(64, _PIXELS // len(self.offsets))
        if most >= P:
            return most // P, [slice(0, P)]
        return 1, [slice(start, min(start + most, P)) for start in range(0, P, most)]

    def drawn(self, images: Any, n: int, dtype: Any, rng: np.random.Generator) -> Array:
        """Return n normalized patches at random positions, (n, D), or all if there are fewer; none of them is constant.

        Images are read in order, in blocks.
        """
        total = len(images) * len(self.corners)
        if total <= n:
            return self._normalized(images, np.arange(total), dtype)
        found: list[Array] = []
        missing = n
        for _ in range(_ROUNDS):
            which = np.sort(rng.integers(total, size=int(_MORE * missing) + 10))
            found.append(self._normalized(images, which, dtype))
            missing -= len(found[-1])
            if missing <= 0:
                break
        rows = np.concatenate(found)
        return rows[rng.permutation(len(rows))[:n]]

    def _normalized(self, images: Any, which: NDArray[np.intp], dtype: Any) -> Array:
        """Return the patches of these numbers, image by image, without constant ones."""
        P, size = len(self.corners), prod(self.image_shape)
        found = [np.empty((0, len(self.offsets)), dtype)]
        for first in range(0, len(images), _IMAGES):
            part = which[np.searchsorted(which, first * P) : np.searchsorted(which, (first + _IMAGES) * P)] - first * P
            if len(part):
                pixels = read(images, slice(first, first + _IMAGES), dtype)
                at = part // P * size + self.corners[part % P]
                x = self.cut(pixels, at[self.varied(pixels)[at]])
                x /= centred(x)
                found.append(x.T)
        return np.concatenate(found)


def centred(x: Array) -> Array:
    """Subtract the means of patches, (D, n), in place, and return their standard deviations, (n,)."""
    mean = np.add.reduce(x, axis=0)
    mean /= len(x)
    x -= mean
    variance = np.einsum("dn,dn->n", x, x)
    variance /= len(x)
    return np.sqrt(variance)


def sizes_of(image_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return height, width and channels."""
    H, W, channels = (*image_shape, 1)[:3]
    return H, W, channels


def _tents(places: int, cells: int) -> Array:
    """Return weights, (places, cells), that decrease linearly from one at the centre of a cell to zero at the next."""
    width = places / cells
    centres = (np.arange(cells) + 0.5) * width - 0.5
    return np.maximum(0.0, 1 - np.abs(np.arange(places)[:, None] - centres) / width)


def _sliding(pixels: Array, width: int, step: int, of: np.ufunc) -> Array:
    """Return the maximum (minimum) of every `width` pixels at a distance of `step`."""
    last = len(pixels) - (width - 1) * step
    return reduce(of, (pixels[k * step : k * step + last] for k in range(width)))


def read(images: Any, some: slice, dtype: Any, first: int = 0) -> Array:
    """Return the pixels of consecutive images; raise ValueError for NaN, infinity and overflow.

    `first` is the number of the first image, for messages.
    """
    part = np.asarray(images[some])
    pixels = np.ascontiguousarray(part, dtype=dtype).reshape(-1)
    if part.dtype.kind == "f" and not np.abs(pixels).max() <= _largest(dtype):  # also if it is NaN
        rows = np.abs(pixels.reshape(len(part), -1))
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            raise ValueError(f"image {first + some.start + bad[0]} of X has NaN or infinity: fill or remove it")
        k = np.flatnonzero((rows > _largest(dtype)).any(axis=1))[0]
        raise ValueError(
            f"image {first + some.start + k} of X has pixels as large as {rows[k].max():.0e}, too large to be squared "
            f"in {np.dtype(dtype)}: divide X by its largest entry"
        )
    return pixels


def _largest(dtype: Any) -> float:
    return float(np.sqrt(np.finfo(dtype).max)) / _ROOM
