"""Files that are whole or not there: written under another name, made durable, then renamed."""

import os
from pathlib import Path


def write_durably(path: str | Path, data: bytes) -> None:
    """Write a file so that it has its old content, or all of the new one, whatever happens meanwhile."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # the new name lives in the directory
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
