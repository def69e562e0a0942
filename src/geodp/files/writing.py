"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Writes the whole file or nothing, even if the disk is full, the power fails or several processes write it."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def check_place(path: Path) -> None:
    """Checks that a file can be written at ``path``. Called before anything is spent or computed."""
    # writing would replace a pipe or a device by an ordinary file
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is {'a folder' if path.is_dir() else 'not an ordinary file'}: name a file")
    if not path.parent.is_dir():
        raise ValueError(f"there is no directory {path.parent}: make it first")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"cannot write to the directory of {path}")
