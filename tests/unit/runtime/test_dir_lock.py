"""What a lock on a data directory refuses, in words."""

from pathlib import Path

import pytest

from barnabas.core.errors import StorageError
from barnabas.runtime.dir_lock import DirLock


@pytest.mark.parametrize("name", ["file", "file/in"])
def test_a_file_is_no_data_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    directory = tmp_path / name
    with pytest.raises(StorageError) as refusal:
        DirLock(str(directory)).take()
    assert str(refusal.value) == f"{directory} cannot be used as a data directory: {directory} is not a directory"
