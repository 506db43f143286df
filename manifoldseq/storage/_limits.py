"""Limits of all readers: regular files only, short errors, and sizes that are checked before memory is allocated."""

import errno
import os
import re
import stat
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from ._data import SequenceData
from ._real import real_dtype

FilePath = str | os.PathLike[str]
DEFLATE_RATIO = 1032
"""Maximum number of bytes that one byte of a deflate stream can represent."""
OVERHEAD = 256
"""Number of bytes of one additional array and its place in a list in Python."""
INFLATION = 2**30
"""Number of bytes that compressed values may need in addition to their file, unless `inflation_limit` changes it."""
_inflation = ContextVar("inflation", default=float(INFLATION))
_UNSUSPECTED = 2**28
"""Number of bytes that any file may need; beyond it, at most `DEFLATE_RATIO` times the size of the file."""
BLOCK = 2**24
"""Number of bytes per read if a stream can be longer than claimed."""
_OTHER_FILES = 256
"""Number of open files that a process needs besides its data: libraries, figures, outputs."""
_FRESH = 0.05
"""Seconds for which a measurement of the available memory holds: readers ask once per row."""

_measured = (-np.inf, 0)


class ReadError(ValueError):
    """A file cannot be read. The message names the file, the error, its position and the remedy."""


def available_memory() -> int:
    """Return the number of bytes that this process can still allocate without swapping or being killed.

    It is the minimum of the available memory of the machine, the limits of the control groups of the process (a
    container, a batch job), and the limits ``ulimit -v`` and ``-d``. If none of these is known, it is the memory of the
    machine, or 8 GiB.

    Returns
    -------
    int

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.storage.available_memory() > 0
    True
    """
    global _measured
    now = time.monotonic()
    if now - _measured[0] > _FRESH:
        found = [*_of_machine(), *_of_groups(), *_of_process()]
        _measured = now, max(min(found, default=0) if found else _physical(), 0)
    return _measured[1]


def require_memory(path: FilePath, needed: int, *, taken: int = 0) -> None:
    """Raise an error if a file would need too much memory; all readers use this limit.

    A reader calls it before it allocates memory according to a header, and again while it decompresses data without a
    known size. A file may use half of the memory that was available at the start (see `available_memory`). If it needs
    more than 256 MiB, it may use at most 1032 times its size, which is the largest compression ratio of deflate. Only a
    decompression bomb, or a file whose values are nearly all equal, would need more.

    Parameters
    ----------
    path : str or path-like
        The file, for the message and its size; a folder has no size to compare with.
    needed : int
        The total number of bytes that the reader needs, including copies.
    taken : int
        The number of bytes that the reader has allocated already.

    Raises
    ------
    ReadError
        A ValueError. The message names the file, the required memory and the limit.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> ms.storage.require_memory("frames.bin", 10**6)
    >>> ms.storage.require_memory("frames.bin", 10**18)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    manifoldseq.storage._limits.ReadError: frames.bin would need 9.31e+08 GiB of memory, but a reader may use ...
    """
    allowed = (available_memory() + taken) // 2
    if needed > allowed:
        raise ReadError(
            f"{path} would need {needed / 2**30:.3g} GiB of memory, but a reader may use only "
            f"{allowed / 2**30:.3g} GiB on this machine: split the file, or keep fewer channels or time steps"
        )
    if needed > _UNSUSPECTED and needed > DEFLATE_RATIO * (size := _size(path)):
        raise ReadError(
            f"{path} has {size} bytes but would need {needed / 2**30:.3g} GiB of memory, like a decompression bomb: "
            "if you trust the file, save it without compression"
        )


@contextmanager
def inflation_limit(limit: float) -> Iterator[None]:
    """Within the block, let compressed files take up to `limit` bytes more in memory than on disk.

    Parameters
    ----------
    limit : float
        The limit is 1 GiB outside of such a block. The relative limit of `require_memory` holds as well.

    Raises
    ------
    ReadError
        A ValueError, if it is not positive.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> with ms.storage.inflation_limit(8 * 2**30):
    ...     pass  # ms.storage.load_array("video.mat")
    """
    if not limit > 0:
        raise ReadError(f"inflation is {limit}: pass a positive number of bytes, such as {INFLATION}")
    token = _inflation.set(float(limit))
    try:
        yield
    finally:
        _inflation.reset(token)


def require_inflated(path: FilePath, needed: int) -> None:
    """Raise an error if the compressed content of a file would take too many bytes, see `inflation_limit`."""
    limit = _inflation.get()
    if needed - _size(path) > limit:
        raise ReadError(
            f"{path} needs {needed / 2**30:.3g} GiB of memory, but the limit is the size of the file on disk plus "
            f"{limit / 2**30:.3g} GiB: if you trust the file, pass inflation={needed:.2g} "
            f"(--read inflation={needed:.2g})"
        )


def require_open(path: FilePath, number: int) -> None:
    """Ensure that the process can keep a number of mapped files open; raise an error if the system does not allow it.

    The soft limit (``ulimit -n``, often 1024) is raised within the hard limit of the system.
    """
    try:
        import resource
    except ImportError:  # not POSIX: there is no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = number + _OTHER_FILES
    if resource.RLIM_INFINITY != hard < needed:
        raise ReadError(
            f"{path} has {number} files that must stay open, but this process may open only {hard}: raise the limit to "
            f"{needed} (ulimit -n, limits.conf), or join the files into one .npy file"
        )
    if resource.RLIM_INFINITY != soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


@contextmanager
def open_file(path: FilePath) -> Iterator[BinaryIO]:
    """Open a regular file for reading bytes; raise an error for pipes, sockets and devices.

    Parameters
    ----------
    path : str or path-like

    Yields
    ------
    binary file

    Raises
    ------
    ReadError
        A ValueError, for a named pipe (FIFO), a socket or a device.
    OSError
        The errors of `open`: FileNotFoundError, IsADirectoryError, PermissionError.

    Examples
    --------
    >>> import os, manifoldseq as ms
    >>> with ms.storage.open_file(os.devnull) as file:
    ...     file.read()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    manifoldseq.storage._limits.ReadError: /dev/null is a device, not a regular file: copy its content to a file...
    """
    with open(path, "rb", opener=_regular) as file:
        yield file


def read_bytes(path: FilePath) -> bytes:
    """Read a regular file within the memory limit; raise as `open_file` and `require_memory` do."""
    with open_file(path) as file:
        require_memory(path, size := os.fstat(file.fileno()).st_size)
        blocks, total = [], 0
        while block := file.read(BLOCK if blocks else max(BLOCK, size)):  # also of a file that grows, or has no size
            blocks.append(block)
            total += len(block)
            require_memory(path, total + len(block), taken=total)
        return b"".join(blocks)


def bounded_lines(path: FilePath, text: TextIO) -> Iterator[str]:
    """Yield the lines of a text; raise an error for a line whose values alone would fill the memory."""
    most = max(available_memory() // 128, 2**16)
    for number in count(1):
        line = text.readline(most)
        if len(line) == most and line[-1] not in "\r\n":
            raise ReadError(f"{path}, line {number} has more than {most} characters: end each line, or split the file")
        if not line:
            return
        yield line


def _regular(path: str, flags: int) -> int:
    """Open a path if it is a regular file; this is checked before (opening a device may have effects) and after."""
    _check_regular(path, os.stat(path).st_mode)
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe that took its place opens at once
    try:
        _check_regular(path, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(path: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    kind = kinds.get(stat.S_IFMT(mode), "a device")
    raise ReadError(f"{path} is {kind}, not a regular file: copy its content to a file and read that file")


def _size(path: FilePath) -> float:
    """Return the size of a regular file, or None for other paths, such as a folder."""
    try:
        found = os.stat(path)
    except OSError:
        return np.inf
    return found.st_size if stat.S_ISREG(found.st_mode) else np.inf


def _of_machine() -> Iterator[int]:
    with suppress(OSError, ValueError), open("/proc/meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                yield int(line.split()[1]) * 1024


def _of_groups() -> Iterator[int]:
    """Yield the remaining memory of each control group with a limit (version 1 or 2) and of its parents."""
    with suppress(OSError, ValueError), open("/proc/self/cgroup", encoding="utf-8") as file:
        for line in file:
            _, controllers, group = line.rstrip("\n").split(":", 2)
            if not controllers:
                root, names = Path("/sys/fs/cgroup"), ("memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                root = Path("/sys/fs/cgroup/memory")
                names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            else:
                continue
            folder = root / group.lstrip("/")
            for one in (folder, *folder.parents):
                if one == root or root in one.parents:
                    yield from _of_group(one, *names)


def _of_group(folder: Path, most: str, used: str, reclaimable: str) -> Iterator[int]:
    with suppress(OSError, ValueError):
        limit = int((folder / most).read_text())  # "max" is not a number: there is no limit
        free = limit - int((folder / used).read_text())
        with suppress(OSError, ValueError):
            for line in (folder / "memory.stat").read_text().splitlines():
                name, value = line.split()
                free += int(value) if name == reclaimable else 0
        yield free


def _of_process() -> Iterator[int]:
    try:
        import resource

        with open("/proc/self/statm", "rb") as file:
            pages = file.read().split()
    except (ImportError, OSError):
        return
    page = resource.getpagesize()
    for kind, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        limit, _ = resource.getrlimit(kind)
        if limit != resource.RLIM_INFINITY:
            yield limit - int(used) * page


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not POSIX
        return 8 * 2**30


def require(path: FilePath, values: int, arrays: int = 1, *, width: int = 8) -> None:
    """Require the memory for `values` numbers of `width` bytes in `arrays` arrays."""
    require_memory(path, width * values + OVERHEAD * arrays)


@contextmanager
def opened(path: FilePath, kind: str) -> Iterator[BinaryIO]:
    """Open a file; exceptions of decoders inside become a `ReadError`, unlike the errors of `open`."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ReadError(f"{path} is empty: expected {kind}")
        with decoding(path, kind):
            yield file


@contextmanager
def decoding(path: FilePath, kind: str) -> Iterator[None]:
    """Convert every exception to `ReadError`, and suppress the warnings of decoders."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ReadError:
        raise
    except Exception as error:
        detail = " ".join(f"{type(error).__name__}: {error}".split())
        raise ReadError(
            f"{path} cannot be read as {kind} ({detail[:150]}): it is damaged or has another format; save it again"
        ) from error


def extra(package: str, path: FilePath, kind: str) -> Any:
    """Import an optional package, or raise an error with the file that needs it and the command that installs it."""
    try:
        return import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        raise ImportError(f"{path} is {kind}, which needs {name}: run `pip install {name}`, or convert it") from None


@contextmanager
def naming(path: FilePath) -> Iterator[None]:
    """Put the name of the file before the message of a `ValueError`."""
    try:
        yield
    except ReadError:
        raise
    except ValueError as error:
        raise ReadError(f"{path}: {error}") from error


def natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``a2`` before ``a10``."""
    parts = re.split("([0-9]+)", text)
    return [(len(part.lstrip("0")), part.lstrip("0")) if i % 2 else (0, part) for i, part in enumerate(parts)]


def numbers(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return a C-contiguous, writeable array of float32 or float64, or raise ReadError unless it holds real numbers."""
    if array.dtype.kind not in "biuf":
        raise ReadError(f"{where} has dtype {array.dtype}: save real numbers")
    return np.require(array, real_dtype(array.dtype), ("C", "W"))


def as_labels(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Return labels of shape (N,), numbers or strings; whole numbers stored as floats become integers."""
    if array.dtype.kind not in "biufSU":
        raise ReadError(f"{where} has dtype {array.dtype}: save labels as numbers or strings")
    if array.ndim > 2 or array.size != max(array.shape, default=1):
        raise ReadError(f"{where} has shape {array.shape}: save one label per sequence")
    labels = array.reshape(-1)
    if labels.dtype.kind in "SU":
        texts = [text.decode() if isinstance(text, bytes) else text for text in labels.tolist()]
        return np.array(texts)
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.round(labels)).all():
        return labels.astype(np.int64) if (abs(labels) < 2**53).all() else labels.astype(np.float64)
    return np.array(labels)


def record(
    path: FilePath,
    sequences: Sequence[NDArray[Any]],
    labels: NDArray[Any] | None = None,
    *,
    name: str | None = None,
    sampling_rate: float | None = None,
    channel_names: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    clocks: Sequence[str] = (),
    order: NDArray[np.intp] | None = None,
) -> SequenceData:
    """Return the record of the sequences of a file: at least one, none empty, all with the same channels."""
    if not sequences:
        raise ReadError(f"{path} contains no sequences: save at least one (T, d) array")
    for i, x in enumerate(sequences):
        if x.ndim != 2 or x.size == 0:
            raise ReadError(f"{path}, sequence {i} has shape {x.shape}: save a (T, d) array with T, d ≥ 1, time first")
        if x.shape[1] != (d := sequences[0].shape[1]):
            raise ReadError(
                f"{path}, sequence {i} has {x.shape[1]} channels but sequence 0 has {d}: save the same channels in all "
                "sequences"
            )
    with naming(path):
        name = Path(path).stem if name is None else name
        return SequenceData(sequences, labels, name, sampling_rate, channel_names, ids, clocks, order)
