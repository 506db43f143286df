"""Atomic files: written under a temporary name, synced, then renamed."""

import os
from collections.abc import Mapping
from pathlib import Path


def write_durably(path: str | Path, data: bytes) -> None:
    """Write a file so that it has its old content, or all of the new one, whatever happens meanwhile."""
    path = Path(path)
    write_all_durably(path.parent, {path.name: data})


def write_all_durably(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files that belong together: none takes its name before all of them are on the disk, whole."""
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
