"""Files and folders for their owner alone, whatever the umask, as a broker makes them; existing ones are unchanged."""

import os
from pathlib import Path
from typing import IO


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter, if there is none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def open_private(path: Path, mode: str) -> IO[str]:
    """Open a text file; one that is made only its owner can read."""
    return open(path, mode, encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))
