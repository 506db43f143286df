"""Recorded speech: NIST SPHERE files, as on the discs of TIMIT, and RIFF ``.wav`` files, both of 16-bit samples."""

import os
import warnings
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

import manifoldseq as ms

Samples = NDArray[np.int16]

_MAGIC = b"NIST_1A\n"
_HEADER = 1024
_LONGEST = 2**20
"""Maximum number of bytes of a header."""
_DIGITS = 15
"""Maximum value of a number in a header."""
_FORMATS = {"01": "<i2", "10": ">i2"}
"""Values of `sample_byte_format`: least significant byte first, most significant byte first."""


def read_sphere(path: str | os.PathLike[str]) -> tuple[Samples, int]:
    """Read a NIST SPHERE file of 16-bit samples.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    samples : ndarray of int16 of shape (T, channels)
    rate : int
        Samples per second.

    Raises
    ------
    manifoldseq.storage.ReadError
        If the file is not a SPHERE file, is truncated or damaged, or contains compressed samples or samples that do not
        have 16 bits. The message names the file and a remedy.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> from manifoldseq_papers import read_sphere, write_sphere
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sphere(Path(folder) / "tone.wav", np.arange(5, dtype=np.int16), 16000)
    ...     samples, rate = read_sphere(Path(folder) / "tone.wav")
    >>> samples.shape, rate
    ((5, 1), 16000)
    """
    path = Path(path)
    raw = ms.storage.read_bytes(path)
    fields = _fields(path, raw)
    coding = str(fields.get("sample_coding", "pcm"))
    if coding != "pcm":
        how = (
            "decompress it with `w_decode -o pcm` of NIST, or `sph2pipe -f sph`"
            if "shorten" in coding or "wavpack" in coding or "shortpack" in coding
            else "convert it to pcm"
        )
        raise ms.storage.ReadError(f"{path} has samples of the coding {coding!r}, but only pcm can be read: {how}")
    rate, channels = _number(path, fields, "sample_rate"), _number(path, fields, "channel_count", 1)
    width, order = _number(path, fields, "sample_n_bytes"), str(fields.get("sample_byte_format", ""))
    if width != 2 or order not in _FORMATS:
        raise ms.storage.ReadError(
            f"{path} has samples of {width} bytes in the byte order {order!r}: convert them to 16 bits in the byte "
            "order '01' or '10'"
        )
    ms.storage.require_memory(path, 3 * len(raw), taken=len(raw))
    data = raw[_length(path, raw) :]
    count = _number(path, fields, "sample_count", len(data) // (2 * channels))
    if len(data) < 2 * channels * count:
        raise ms.storage.ReadError(
            f"{path} is truncated, because its header declares {count} samples, but it contains "
            f"{len(data) // (2 * channels)}: copy the file again"
        )
    samples = np.frombuffer(data, _FORMATS[order], count * channels).reshape(count, channels).astype(np.int16)
    if "sample_checksum" in fields:
        said, found = _number(path, fields, "sample_checksum", least=0), int(samples.sum(dtype=np.int64)) % 2**16
        if said != found:
            raise ms.storage.ReadError(
                f"{path} is damaged, because its samples sum to {found} modulo 65536, but its header says {said}: copy "
                "the file again"
            )
    return samples, rate


def write_sphere(path: str | os.PathLike[str], samples: ArrayLike, rate: int) -> None:
    """Write a NIST SPHERE file of 16-bit samples, the least significant byte first, with a checksum.

    Parameters
    ----------
    path : path-like
    samples : array-like of int16 of shape (T,) or (T, channels)
    rate : int
        Samples per second.

    Raises
    ------
    ValueError
        If the samples do not have the dtype int16.
    """
    samples = np.asarray(samples)
    if samples.dtype != np.int16 or samples.ndim not in (1, 2):
        raise ValueError(f"samples have shape {samples.shape} and dtype {samples.dtype}: pass int16, (T,) or (T, c)")
    fields = {
        "channel_count": 1 if samples.ndim == 1 else samples.shape[1],
        "sample_count": len(samples),
        "sample_rate": int(rate),
        "sample_min": int(samples.min(initial=0)),
        "sample_max": int(samples.max(initial=0)),
        "sample_n_bytes": 2,
        "sample_byte_format": "01",
        "sample_sig_bits": 16,
        "sample_checksum": int(samples.sum(dtype=np.int64)) % 2**16,
    }
    lines = [f"{k} -i {v}" if isinstance(v, int) else f"{k} -s{len(v)} {v}" for k, v in fields.items()]
    head = "\n".join([_MAGIC.decode() + f"{_HEADER:7d}", *lines, "end_head", ""])
    Path(path).write_bytes(head.encode().ljust(_HEADER) + samples.astype("<i2").tobytes())


def example(folder: Path) -> Path:
    """Write a tenth of a second of a tone, for the check of the reader."""
    path = folder / "tone.sph"
    tone = 8000 * np.sin(2 * np.pi * 440 * np.arange(800) / 8000)
    write_sphere(path, tone.astype(np.int16), 8000)
    return path


def read_audio(path: str | os.PathLike[str]) -> tuple[Samples, int]:
    """Read a SPHERE or RIFF file of 16-bit samples; the results and errors are as for `read_sphere`."""
    path = Path(path)
    with ms.storage.open_file(path) as file:
        start = file.read(len(_MAGIC))
    if start[:4] in (b"RIFF", b"RIFX"):
        return _read_riff(path)
    return read_sphere(path)


def read_recording(path: str | os.PathLike[str]) -> ms.storage.SequenceData:
    """Return a recording as one sequence, a row per sample and a channel per microphone; the reader `speech`."""
    samples, rate = read_audio(path)
    if not len(samples):
        raise ms.storage.ReadError(f"{path} contains no samples: record the file again")
    ms.storage.require_memory(path, samples.nbytes + 8 * samples.size, taken=samples.nbytes)
    return ms.storage.SequenceData([samples], name=Path(path).stem, sampling_rate=float(rate))


def _read_riff(path: Path) -> tuple[Samples, int]:
    from scipy.io import wavfile

    raw = ms.storage.read_bytes(path)
    ms.storage.require_memory(path, 2 * len(raw), taken=len(raw))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", wavfile.WavFileWarning)  # truncated files only warn
            rate, samples = wavfile.read(BytesIO(raw))
    except Exception as error:  # whatever a damaged file provokes
        detail = " ".join(str(error).split())[:120]
        raise ms.storage.ReadError(f"{path} is truncated or damaged ({detail}): copy it again") from error
    if samples.dtype != np.int16:
        raise ms.storage.ReadError(f"{path} has samples of {samples.dtype}: convert them to 16 bits")
    return samples.reshape(len(samples), -1), int(rate)


def _length(path: Path, raw: bytes) -> int:
    """Return the number of bytes of the header."""
    text = raw[len(_MAGIC) : 2 * len(_MAGIC)].strip()
    if raw[: len(_MAGIC)] != _MAGIC or not text.isdigit():
        raise ms.storage.ReadError(f"{path} is neither a NIST SPHERE file nor a RIFF file: convert the file")
    length = int(text)
    if not 2 * len(_MAGIC) < length <= _LONGEST or length > len(raw):
        raise ms.storage.ReadError(
            f"{path} is truncated or damaged ({len(raw)} bytes, but the header has {length}): copy the file again"
        )
    return length


def _fields(path: Path, raw: bytes) -> dict[str, str]:
    """Return the fields of the header by name."""
    lines = raw[2 * len(_MAGIC) : _length(path, raw)].decode("latin-1").split("\n")
    fields = {}
    for line in lines:
        if line.strip() == "end_head":
            return fields
        parts = line.split(None, 2)
        if len(parts) == 3 and parts[1].startswith("-"):
            fields[parts[0]] = parts[2].strip()
        elif parts and not line.startswith(";"):
            raise ms.storage.ReadError(
                f"the header of {path} has the line {line[:40]!r}, which is not 'name -type value': copy the file again"
            )
    raise ms.storage.ReadError(f"the header of {path} has no line end_head: copy the file again")


def _number(path: Path, fields: dict[str, str], name: str, default: int | None = None, least: int = 1) -> int:
    text = fields.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal() or len(text) > _DIGITS or int(text) < least:
        raise ms.storage.ReadError(
            f"the header of {path} says {name}={text!r}, but {name} must be a whole number: copy the file again"
        )
    return int(text)
