"""What no reader does: wait for a pipe, a socket or a device, or take memory that is not there."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from helpers import parametrize
from storage.samples import needs

import manifoldseq as ms
from manifoldseq.report import read_run
from manifoldseq.storage import ReadError, _limits

SMALL = 30  # MiB that a process may grow by
READ = """
import json, resource, sys
import numpy, scipy.io, matplotlib.image, PIL.Image
from pathlib import Path
import manifoldseq as ms, manifoldseq.storage.readers._mat5, manifoldseq.storage.readers._mat73
for optional in ("pyarrow.parquet", "h5py", "manifoldseq_hope.features._mnist", "manifoldseq_mpcca._videos",
                 "manifoldseq_lds.videos._texture_files"):
    try:
        exec(f"import {optional}")
    except ImportError:
        pass
limit, done = int(sys.argv[1]), {}
if limit:
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + limit,) * 2)
for name, call, path in json.loads(sys.argv[2]):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        eval(call, {**globals(), "path": Path(path)})
    except Exception as error:
        sentence = f"{type(error).__name__}: {error}"
    else:
        sentence = "read"
    done[name] = sentence, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(json.dumps(done))
"""


def read_in_a_process(reads: dict[str, tuple[str, Path]], limit: int = 0) -> dict[str, tuple[str, float]]:
    """Return the message of each reader and by how many MiB its process grew; `limit` bytes are free in it."""
    listed = json.dumps([(name, call, str(path)) for name, (call, path) in reads.items()])
    command = [sys.executable, "-c", READ, str(limit), listed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def npy_header(shape: tuple[int, ...], descr: str = "|u1") -> bytes:
    """Return the header of a `.npy` file."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def deflated(head: bytes, zeros: int, wbits: int = zlib.MAX_WBITS, tail: bytes = b"") -> bytes:
    """Return a deflate stream of `head`, so many zero bytes and `tail`, made without holding them."""
    stream, parts = zlib.compressobj(9, wbits=wbits), []
    parts.append(stream.compress(head))
    block = bytes(2**20)
    for _ in range(zeros // len(block)):
        parts.append(stream.compress(block))
    parts += [stream.compress(block[: zeros % len(block)]), stream.compress(tail), stream.flush()]
    return b"".join(parts)


def zipped(members: dict[str, tuple[bytes, int]]) -> bytes:
    """Return an archive whose members are a head and so many zero bytes, compressed."""
    buffer, block = io.BytesIO(), bytes(2**20)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (head, zeros) in members.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(head)
                for start in range(0, zeros, len(block)):
                    member.write(block[: min(len(block), zeros - start)])
    return buffer.getvalue()


N = 2**26
"""Bytes that the bombs inflate to: beyond those in the process that reads them."""


def npz(folder: Path) -> Path:
    """64 KB that are 64 MiB: 512 MiB of numbers."""
    (folder / "bomb.npz").write_bytes(zipped({"X.npy": (npy_header((N // 2**10, 2**10)), N)}))
    return folder / "bomb.npz"


def mat_content(rows: int, columns: int, steps: int, kind: int = 9) -> tuple[bytes, bytes]:
    """Return the head of a MATLAB 5 file, and of its only variable: a uint8 array called video."""
    size = rows * columns * steps
    shape = struct.pack("<II3ii", 5, 12, rows, columns, steps, 0)
    parts = struct.pack("<IIII", 6, 8, kind, 0) + shape + struct.pack("<II5s3x", 1, 5, b"video")
    inside = parts + struct.pack("<II", 2, size)
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {})
    return buffer.getvalue()[:128], struct.pack("<II", 14, len(inside) + size + -size % 8) + inside


def mat(folder: Path) -> Path:
    """The same in the format of MATLAB."""
    head, inside = mat_content(N // 2**20, 1024, 1024)
    payload = deflated(inside, N)
    path = folder / "bomb.mat"
    path.write_bytes(head + struct.pack("<II", 15, len(payload)) + payload)
    return path


def textures(folder: Path) -> Path:
    """The same as a moving texture."""
    (folder / "class").mkdir()
    mat(folder / "class")
    return folder


def frames(folder: Path) -> Path:
    """An image of 6,000 × 6,000 pixels in 36 KB, as a frame."""
    size = 6_000
    (folder / "class" / "video").mkdir(parents=True)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", deflated(b"", size * (size + 1))) + chunk(b"IEND", b"")
    (folder / "class" / "video" / "1.png").write_bytes(b"\x89PNG\r\n\x1a\n" + parts)
    return folder


def mat73(folder: Path) -> Path:
    """The same in chunks of HDF5."""
    import h5py

    path = folder / "bomb.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        item = file.create_dataset("x", (N // 2**10, 2**10), "u1", chunks=(2**12, 2**10), compression=9)
        for row in range(0, N // 2**10, 2**12):
            item.id.write_direct_chunk((row, 0), deflated(b"", 2**22))
        item.attrs["MATLAB_class"] = np.bytes_("uint8")
    content = bytearray(path.read_bytes())
    content[:128] = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    path.write_bytes(content)
    return path


def parquet(folder: Path) -> Path:
    """Five million rows in a few KB: run lengths of one value."""
    import pyarrow as pa
    import pyarrow.parquet

    path, rows = folder / "bomb.parquet", 10**6
    columns = {name: pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), pa.array([0])) for name in "abc"}
    table = pa.table({"id": columns["a"], "time": columns["b"], "x": columns["c"]}).cast(
        pa.schema([("id", pa.int64()), ("time", pa.int64()), ("x", pa.int64())])
    )
    options: dict[str, Any] = {"write_batch_size": 10**6, "data_page_size": 2**30, "max_rows_per_page": 10**8}
    with pyarrow.parquet.ParquetWriter(path, table.schema, compression="gzip", **options) as file:
        for _ in range(5):
            file.write_table(table, row_group_size=rows)
    return path


def texts(folder: Path) -> Path:
    """One text of 1 MB in each of 10,000 rows: 10 GB."""
    import pyarrow as pa
    import pyarrow.parquet

    path, rows = folder / "bomb.parquet", 10_000
    names = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), pa.array(["a" * 2**20]))
    times, x = pa.array(np.arange(rows)), pa.array(np.zeros(rows))
    pyarrow.parquet.write_table(pa.table({"id": names, "time": times, "x": x}), path, store_schema=False)
    return path


def model(folder: Path) -> Path:
    """A model whose arrays are compressed zeros."""
    problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: float(x @ x), lambda x: 2 * x))
    ms.storage.save_model(ms.minimize(problem, np.ones(2)), folder)
    data = zipped({"x.npy": (npy_header((N,)), N)})
    (folder / "model.npz").write_bytes(data)
    document = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**document, "sha256": sha256(data).hexdigest()}))
    return folder


def checkpoint(folder: Path) -> Path:
    """A checkpoint of compressed zeros."""
    ms.storage.Checkpoint(folder).save(0, {"x": np.zeros(1)}, {}, {})
    (folder / "checkpoint-0000000000.npz").write_bytes(zipped({"a0.npy": (npy_header((N,)), N)}))
    return folder


FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def digits(folder: Path) -> Path:
    """Digits in the place of MNIST: 85,000 images of zeros in 64 KB."""
    n = N // 784
    for name in FILES:
        axes = (n, 28, 28) if "images" in name else (n,)
        head = struct.pack(f">BBBB{len(axes)}I", 0, 0, 8, len(axes), *axes)
        (folder / f"{name}.gz").write_bytes(deflated(head, int(np.prod(axes)), wbits=31))
    return folder


def more_digits(folder: Path) -> Path:
    """One image, and 64 MiB of zeros behind it."""
    for name in FILES:
        axes = (1, 28, 28) if "images" in name else (1,)
        head = struct.pack(f">BBBB{len(axes)}I", 0, 0, 8, len(axes), *axes)
        (folder / f"{name}.gz").write_bytes(deflated(head, N if name == FILES[0] else int(np.prod(axes)), wbits=31))
    return folder


def descriptors(folder: Path) -> Path:
    """Descriptors of a video, compressed zeros."""
    (folder / "video.npz").write_bytes(zipped({"hog.npy": (npy_header((N // 96, 96)), N // 96 * 96)}))
    return folder / "video.npz"


def line(folder: Path) -> Path:
    """A table of one line, of 2 GiB, that takes no place on the disk."""
    path = folder / "table.features"
    with path.open("wb") as file:
        file.write(b"# ")
        file.truncate(2 * N)
    return path


def lines(folder: Path) -> Path:
    """The same for the readers of text."""
    path = folder / "table.csv"
    with path.open("wb") as file:
        file.write(b"id,time,x\na,1,")
        file.truncate(2 * N)
    return path


PIPE, SOCKET, DEVICE = "a named pipe", "a socket", "a device"
VIDEO = "manifoldseq_lds.videos._texture_files:read_video"


def of(target: str) -> Any:
    """Return what a plugin that is installed reads with."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


ENDINGS = {".parquet": "pyarrow", ".wav": "manifoldseq_papers", ".sph": "manifoldseq_papers"}
"""Who reads files of these endings."""
READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    **{ending: (f"x{ending}", ms.storage.read) for ending in (".npy", ".npz", ".csv", ".ts", ".mat", ".wav", ".sph")},
    ".parquet": ("x.parquet", ms.storage.read),
    "array": ("x", ms.storage.load_array),
    "arrays": ("x.npz", ms.storage.load_arrays),
    "matrices": ("x.mat", ms.storage.load_arrays),
    "bytes": ("x", ms.storage.read_bytes),
    "folder of arrays": ("f/x.npy", lambda path: ms.storage.read(path.parent)),
    "folder of tables": ("f/x.csv", lambda path: ms.storage.read(path.parent)),
    "model": ("model.json", lambda path: ms.load(path.parent)),
    "arrays of a model": ("model.npz", lambda path: ms.load(_modelled(path.parent))),
    "checkpoint": ("checkpoint-0000000001.npz", lambda path: ms.storage.Checkpoint(path.parent).load()),
    "page": ("run.json", lambda path: read_run(path.parent)),
    "mnist": (
        "train-images-idx3-ubyte.gz",
        lambda path: of("manifoldseq_hope.features._mnist:read_mnist")(path.parent),
    ),
    "phones": ("x.phn", lambda path: of("manifoldseq_papers.hope._phones:read_phn")(path)),
    "recording": ("x.wav", lambda path: of("manifoldseq_papers.hope._audio:read_audio")(path)),
    "sphere": ("x.wav", lambda path: of("manifoldseq_papers:read_sphere")(path)),
    "video": ("x.npy", lambda path: of(VIDEO)(path)),
    "matlab video": ("x.mat", lambda path: of(VIDEO)(path)),
    "frames": ("f/1.png", lambda path: of(VIDEO)(path.parent)),
    "descriptors": ("x.npz", lambda path: of("manifoldseq_mpcca._videos:read_descriptors")(path)),
    "table of descriptors": ("x.txt", lambda path: of("manifoldseq_mpcca._videos:read_descriptors")(path)),
    "packed descriptors": ("x.txt.gz", lambda path: of("manifoldseq_mpcca._videos:read_descriptors")(path)),
    "split": ("trainlist01.txt", lambda path: of("manifoldseq_mpcca:read_videos")(path.parent)),
}


def _modelled(folder: Path) -> Path:
    (folder / "model.json").write_text('{"format": 1}')
    return folder


@pytest.fixture
def no_waiting() -> Iterator[None]:
    """Fail instead of waiting."""

    def late(*_: object) -> None:
        raise TimeoutError("a reader waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def special(path: Path, kind: str) -> None:
    """Make something there that is not a regular file."""
    path.parent.mkdir(exist_ok=True)
    if kind == PIPE:
        os.mkfifo(path)
    elif kind == DEVICE:
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as server:
            here = os.getcwd()
            os.chdir(path.parent)  # the name of a socket is short
            try:
                server.bind(path.name)
            finally:
                os.chdir(here)


@parametrize("kind", [PIPE, SOCKET, DEVICE], fast=1)
@pytest.mark.parametrize("name", [pytest.param(n, marks=needs(ENDINGS[n]) if n in ENDINGS else ()) for n in READERS])
def test_what_is_no_file_raises_an_error_at_once(tmp_path: Path, no_waiting: None, name: str, kind: str) -> None:
    file, read = READERS[name]
    path = tmp_path / file
    special(path, kind)
    with pytest.raises(ValueError, match=rf"{file.rpartition('/')[2]} is {kind}, not a regular file") as caught:
        read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [".npy", ".npz", ".csv", ".ts", ".mat"])
def test_a_missing_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        ms.storage.read(tmp_path / f"none{name}")


def test_a_pipe_that_takes_the_place_of_a_file_raises_an_error(
    tmp_path: Path, no_waiting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the name and the opening."""
    path = tmp_path / "x.npy"
    os.mkfifo(path)
    regular = os.stat(__file__)
    monkeypatch.setattr(_limits.os, "stat", lambda *_: regular)
    with pytest.raises(ReadError, match="is a named pipe"):
        ms.storage.load_array(path)


def test_a_pipe_in_the_place_of_a_temporary_file_is_no_obstacle(tmp_path: Path, no_waiting: None) -> None:
    problem = ms.Problem(ms.manifolds.Euclidean(2), ms.objective(lambda x: float(x @ x), lambda x: 2 * x))
    os.mkfifo(tmp_path / ".model.npz.tmp")
    ms.storage.save_model(ms.minimize(problem, np.ones(2)), tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["model.json", "model.npz"]


def test_control_groups_of_either_version_count(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("700\n")
    assert list(_limits._of_group(tmp_path, "memory.max", "memory.current", "inactive_file")) == [300]
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 50\n")
    assert list(_limits._of_group(tmp_path, "memory.max", "memory.current", "inactive_file")) == [350]
    (tmp_path / "memory.max").write_text("max\n")
    assert list(_limits._of_group(tmp_path, "memory.max", "memory.current", "inactive_file")) == []


@pytest.mark.slow
def test_a_limit_of_the_process_counts(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(2**22))
    reads = {"x": ("ms.storage.load_array(path)", tmp_path / "x.npy")}
    assert read_in_a_process(reads)["x"][0] == "read"
    sentence, grown = read_in_a_process(reads, limit=2**24)["x"]
    assert sentence.startswith(
        f"ReadError: {tmp_path / 'x.npy'} would need 0.0313 GiB of memory, but a reader may use only 0.0"
    )
    assert grown < SMALL


def test_beyond_a_size_a_file_is_suspected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much memory there is; a folder has no size to compare with."""
    monkeypatch.setattr(_limits, "available_memory", lambda: 2**50)
    path = tmp_path / "x"
    path.write_bytes(bytes(2**20))
    ms.storage.require_memory(path, 1032 * 2**20)
    with pytest.raises(
        ReadError, match=r"has 1048576 bytes but would need 1.01 GiB of memory, like a decompression bomb"
    ):
        ms.storage.require_memory(path, 1032 * 2**20 + 1)
    path.write_bytes(b"")
    ms.storage.require_memory(path, 2**28)
    ms.storage.require_memory(tmp_path, 2**40)


@parametrize(("soft", "hard"), [(64, 4096), (64, 128)], fast=1)
def test_more_files_than_may_be_open(tmp_path: Path, soft: int, hard: int) -> None:
    """Each mapped file is open: the limit that a user may change is raised, or the message says what to do."""
    for i in range(150):
        np.save(tmp_path / f"{i}.npy", np.full((3, 2), i, np.float32))
    code = (
        "import resource, sys, numpy, manifoldseq.storage as s\n"
        "from manifoldseq.storage.readers import _npz\n"
        "_npz.MAPPED = 1\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "try:\n"
        f"    data = s.read({str(tmp_path)!r})\n"
        "    assert all((x == i).all() and not x.flags.writeable for i, x in enumerate(data.sequences))\n"
        "    print(len(data), open('/dev/null').read())\n"
        "except s.ReadError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if hard == 128:
        assert f"{tmp_path} has 150 files that must stay open, but this process may" in done.stdout
        assert "raise the limit to 406 (ulimit -n, limits.conf), or join the files into one .npy" in done.stdout
    else:
        assert done.stdout == "150 \n", done.stderr


def test_what_is_taken_already_is_not_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_limits, "available_memory", lambda: 1000)
    with pytest.raises(ReadError, match="would need"):
        ms.storage.require_memory("x", 600)
    ms.storage.require_memory("x", 600, taken=200)


TEXTURES = "manifoldseq_lds.videos._texture_files.read_textures(path)[0]"
DIGITS = "manifoldseq_hope.features._mnist.read_mnist(path, verify=False)"
DESCRIPTORS = "manifoldseq_mpcca._videos.read_descriptors(path)"
BOMBS: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "npz": ("ms.storage.read(path)", npz, "would need"),
    "mat": ("ms.storage.read(path)", mat, "would need"),
    "textures": (TEXTURES, textures, "would need"),
    "frames": (TEXTURES, frames, "would need"),
    "model": ("ms.storage.load_model(path)", model, "would need"),
    "checkpoint": ("ms.storage.Checkpoint(path).load()", checkpoint, "would need"),
    "mnist": ("manifoldseq_hope.features._mnist.read_mnist(path)", digits, "SHA-256 differs"),
    "any digits": (DIGITS, digits, "would need"),
    "more digits": (DIGITS, more_digits, "contains more bytes"),
    "descriptors": (DESCRIPTORS, descriptors, "would need"),
    "line of a table": (DESCRIPTORS, line, "line 1 has more than"),
    "line": ("ms.storage.read(path)", lines, "line 2 has more than"),
    "mat73": ("ms.storage.read(path)", mat73, "would need"),
    "parquet": ("ms.storage.read(path)", parquet, "would need"),
}
EXTRAS = {
    "mat73": "h5py",
    "parquet": "pyarrow",
    "texts": "pyarrow",
    "textures": "manifoldseq_lds",
    "frames": "manifoldseq_lds",
    "mnist": "manifoldseq_hope",
    "any digits": "manifoldseq_hope",
    "more digits": "manifoldseq_hope",
    "descriptors": "manifoldseq_mpcca",
    "line of a table": "manifoldseq_mpcca",
}


def bombs() -> list[Any]:
    """Return the names, those of readers that need an extra marked."""
    return [pytest.param(name, marks=needs(EXTRAS[name]) if name in EXTRAS else ()) for name in BOMBS]


@pytest.fixture(scope="module")
def read_bombs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, float]]:
    """Read all of them in a process that has 64 MiB left."""
    reads = {}
    for name, (call, make, _) in BOMBS.items():
        if find_spec(EXTRAS.get(name, "numpy")):
            reads[name] = call, make(tmp_path_factory.mktemp("bomb"))
    return read_in_a_process(reads, limit=N)


@parametrize("name", bombs(), fast=2)
def test_bombs_raise_an_error_before_they_take_memory(read_bombs: dict[str, tuple[str, float]], name: str) -> None:
    sentence, grown = read_bombs[name]
    kind, _, told = sentence.partition(": ")
    assert kind in ("ReadError", "ModelError", "CheckpointError", "ValueError") and "\n" not in told, sentence
    assert BOMBS[name][2] in told and "/bomb" in told and len(told) < 500, sentence
    assert grown < SMALL


@pytest.mark.slow
@needs("pyarrow")
def test_a_long_text_in_every_row_is_held_once(tmp_path: Path) -> None:
    """Ten thousand rows of one text of a megabyte."""
    path = texts(tmp_path)
    sentence, grown = read_in_a_process({"texts": ("ms.storage.read(path).sequences[0].shape", path)})["texts"]
    assert sentence == "read" and grown < SMALL
    data = ms.storage.read(path)
    assert len(data) == 1 and data.sequences[0].shape == (10_000, 1)
