"""Small good files of every kind that a reader knows, and damaged ones made from them."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from manifoldseq.storage import (
    ReadError,
    SequenceData,
    read_csv,
    read_directory,
    read_mat,
    read_npy,
    read_npz,
    read_parquet,
    read_ts,
)

Wrap = Callable[[bytes], bytes]


def needs(package: str) -> pytest.MarkDecorator:
    """Skip without an optional package."""
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package.replace('_', '-')} is not installed")


@contextmanager
def rejects(path: Path, sentence: str) -> Iterator[None]:
    """Hold that one sentence is raised that begins with the name of the file."""
    with pytest.raises(ReadError) as caught:
        yield
    assert str(caught.value).startswith(str(path)) and sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def assert_sequences(data: SequenceData, expected: Sequence[np.ndarray]) -> None:
    """Hold that sequences are these, in single precision only if they were."""
    assert len(data) == len(expected)
    for got, x in zip(data.sequences, expected, strict=True):
        np.testing.assert_array_equal(got, x)
        kept = np.float32 if np.asarray(expected[0]).dtype.newbyteorder("=") == np.float32 else np.float64
        assert got.dtype == kept and got.flags.c_contiguous and got.flags.writeable


def sequences() -> list[np.ndarray]:
    """Return three sequences of two channels and different lengths."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((steps, 2)) for steps in (5, 3, 9)]


LABELS = ["up", "down", "up"]


def npy_bytes(array: object) -> bytes:
    """Return the bytes that `numpy.save` writes."""
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return stream.getvalue()


def npz_bytes(compressed: bool = False, **arrays: object) -> bytes:
    """Return the bytes that `numpy.savez` writes."""
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def zip_bytes(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip archive with these members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def cell(items: list) -> np.ndarray:
    """Return a cell array as scipy writes it."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def mat_bytes(compressed: bool = False, **variables: object) -> bytes:
    """Return the bytes of a MATLAB 5 file."""
    stream = io.BytesIO()
    scipy.io.savemat(stream, variables, do_compression=compressed)
    return stream.getvalue()


def deflated_element(content: bytes) -> bytes:
    """Return a MATLAB 5 file whose only variable has this content in a correct compressed element."""
    payload = zlib.compress(content)
    return mat_bytes()[:128] + np.array([15, len(payload)], "<u4").tobytes() + payload


def mat73_bytes() -> bytes:
    """Return the bytes of a MATLAB 7.3 file with a cell array and labels."""
    import h5py

    stream = io.BytesIO()
    with h5py.File(stream, "w", userblock_size=512) as file:
        for name, items in (("X", sequences()), ("y", [np.array([[ord(c)] for c in label]).T for label in LABELS])):
            references = file.create_dataset(name, (len(items), 1), dtype=h5py.ref_dtype)
            references.attrs["MATLAB_class"] = np.bytes_("cell")
            for i, item in enumerate(items):
                value = item if name == "X" else item.astype(np.uint16)
                stored = file.create_dataset(f"#refs#/{name}{i}", data=value.T, compression="gzip" if i else None)
                stored.attrs["MATLAB_class"] = np.bytes_("double" if name == "X" else "char")
                references[i, 0] = stored.ref
    content = bytearray(stream.getvalue())
    content[:128] = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    return bytes(content)


def csv_text(header: str = "id,time,x,y,label\n") -> str:
    """Return the sequences in the long format."""
    rows = (
        f"{i},{t},{x!r},{y!r},{LABELS[i]}\n"
        for i, sequence in enumerate(sequences())
        for t, (x, y) in enumerate(sequence.tolist())
    )
    return header + "".join(rows)


def parquet_bytes() -> bytes:
    """Return the sequences in the long format, as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    columns = zip(*(line.split(",") for line in csv_text("").split()), strict=True)
    ids, times, x, y, labels = map(list, columns)
    numeric = {"time": [int(t) for t in times], "x": [float(v) for v in x], "y": [float(v) for v in y]}
    stream = io.BytesIO()
    parquet.write_table(pa.table({"id": ids, **numeric, "label": labels}), stream)
    return stream.getvalue()


def frame_bytes(**columns: object) -> bytes:
    """Return columns as Parquet, by default those of the first sequence with a missing value."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    stream = io.BytesIO()
    x, y = sequences()[0].T.tolist()
    parquet.write_table(pa.table(columns or {"x": x, "y": [None, *y[1:]]}), stream)
    return stream.getvalue()


def ts_text() -> str:
    """Return the sequences in the format of aeon."""
    cases = (
        ":".join(",".join(map(repr, channel)) for channel in x.T.tolist()) + f":{label}\n"
        for x, label in zip(sequences(), LABELS, strict=True)
    )
    return "@problemName walks\n@timeStamps false\n@classLabel true up down\n@data\n" + "".join(cases)


@dataclass(frozen=True)
class Sample:
    """A reader, the ending of its files, good contents, and how damaged contents get a sound shell around them."""

    read: Callable[[Path], SequenceData]
    ending: str
    contents: Callable[[], list[bytes]]
    cores: Callable[[], list[tuple[bytes, Wrap]]] = list

    def write(self, folder: Path, content: bytes) -> Path:
        """Write a file, in a folder for the reader of folders, and return what to give to the reader."""
        path = folder / f"walks{self.ending}"
        path.write_bytes(content)
        return folder if self.read is read_directory else path


def _npz() -> list[bytes]:
    x = sequences()
    named = {f"x{i}": item for i, item in enumerate(x)}
    return [
        npz_bytes(X=np.concatenate(x), lengths=[5, 3, 9], y=LABELS),
        npz_bytes(compressed=True, labels=LABELS, **named),
    ]


def _npz_cores() -> list[tuple[bytes, Wrap]]:
    y = npy_bytes(["up"])
    return [
        (npy_bytes(sequences()[:1]), lambda core: zip_bytes({"X.npy": core})),
        (npy_bytes(sequences()[:1]), lambda core: zip_bytes({"X.npy": core, "y.npy": y}, zipfile.ZIP_DEFLATED)),
        (y, lambda core: zip_bytes({"X.npy": npy_bytes(sequences()[:1]), "y.npy": core})),
    ]


def _mat() -> list[bytes]:
    x, y = cell(sequences()), cell(LABELS)
    return [mat_bytes(X=x, y=y), mat_bytes(True, X=x, y=y), mat_bytes(X=np.ones((3, 4, 2)), y=[[1, 2, 3]])]


def _mat_cores() -> list[tuple[bytes, Wrap]]:
    return [(mat_bytes(X=cell(sequences()))[128:], deflated_element)]


SAMPLES = {
    "npy": Sample(read_npy, ".npy", lambda: [npy_bytes(sequences()[0]), npy_bytes(np.ones((3, 4, 2), "f4"))]),
    "npz": Sample(read_npz, ".npz", _npz, _npz_cores),
    "mat": Sample(read_mat, ".mat", _mat, _mat_cores),
    "mat73": Sample(read_mat, ".mat", lambda: [mat73_bytes()]),
    "csv": Sample(read_csv, ".csv", lambda: [csv_text().encode()]),
    "parquet": Sample(read_parquet, ".parquet", lambda: [parquet_bytes()]),
    "directory of npy": Sample(read_directory, ".npy", lambda: [npy_bytes(sequences()[0])]),
    "directory of parquet": Sample(read_directory, ".parquet", lambda: [frame_bytes()]),
    "directory of csv": Sample(read_directory, ".csv", lambda: [b"x,y\n1,2.5\n-3,4e2\n,6\n"]),
    "ts": Sample(read_ts, ".ts", lambda: [ts_text().encode()]),
}  # fmt: skip
EXTRAS = {"mat73": "h5py", "parquet": "pyarrow", "directory of parquet": "pyarrow"}
PARAMETERS = [pytest.param(name, marks=needs(EXTRAS[name]) if name in EXTRAS else ()) for name in SAMPLES]


def damaged(sample: Sample, count: int, seed: int) -> Iterator[bytes]:
    """Yield contents that are cut, flipped, overwritten, stretched or random, some of them in a sound shell."""
    rng = np.random.default_rng(seed)
    good = [(content, lambda core: core) for content in sample.contents()]
    cores = sample.cores()
    for i in range(count):
        choices = cores if cores and i % 2 else good
        content, wrap = choices[rng.integers(len(choices))]
        yield wrap(_damage(bytearray(content), rng))


EXTREMES = [
    b"\xff" * 4,
    b"\xff\xff\xff\x7f",
    b"\0" * 8,
    b"\xff" * 8,
    b"\0\0\0\x80",
    b"\x01",
    b"9" * 12,
    b"-1",
    b"nan",
    b"'",
]


def _damage(data: bytearray, rng: np.random.Generator) -> bytes:
    size = len(data)
    at = int(rng.integers(min(size, 256) if rng.random() < 0.5 else size))  # half of them where headers are
    match int(rng.integers(7)):
        case 0:
            del data[int(rng.integers(size)) :]
        case 1:
            for place in [at, *rng.integers(size, size=int(rng.integers(4)))]:
                data[place] ^= 1 << int(rng.integers(8))
        case 2:
            extreme = EXTREMES[rng.integers(len(EXTREMES))]
            data[at : at + len(extreme)] = extreme
        case 3:
            data[at : at + int(rng.integers(1, 32))] = rng.bytes(int(rng.integers(1, 32)))
        case 4:
            end = at + int(rng.integers(1, 64))
            data[at:at] = data[at:end]
        case 5:
            del data[at : at + int(rng.integers(1, 64))]
        case _:
            keep = int(rng.integers(size)) if rng.random() < 0.5 else 0
            data[keep:] = rng.bytes(int(rng.integers(1, 400)))
    return bytes(data)
