"""Atomic files: written under a temporary name, synced, then renamed."""

import os
from collections.abc import Mapping
from pathlib import Path


def write_durably(path: str | Path, data: bytes) -> None:
    """Write a file atomically: after an interruption it has its old content or the complete new content."""
    path = Path(path)
    write_all_durably(path.parent, {path.name: data})


def write_all_durably(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files that belong together; they get their final names after all of them are complete on disk."""
    temporaries = {name: folder / f".{name}.tmp" for name in files}
    try:
        for name, data in files.items():
            temporaries[name].unlink(missing_ok=True)  # a pipe of that name would be waited for
            with temporaries[name].open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for name, temporary in temporaries.items():
            temporary.replace(folder / name)
    finally:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)
    if os.name == "posix":  # the new names live in the directory
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
