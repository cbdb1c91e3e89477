"""What errors of the operating system say about a data directory: some pass, the first of the others is final."""

import errno

import pytest

from barnabas.core.errors import BarnabasError, CorruptLog, StorageError, StorageExhausted
from barnabas.storage.disk import SyncFailed
from barnabas.storage.health import DirectoryHealth


def test_a_healthy_directory_lets_everything_through() -> None:
    health = DirectoryHealth("/data")
    health.check()
    with health.guarded():
        pass
    assert health.offline_reason is None


def test_an_error_of_the_operating_system_takes_it_offline() -> None:
    health = DirectoryHealth("/data")
    with pytest.raises(StorageError, match=r"/data is taken offline: .*broken"), health.guarded():
        raise OSError(errno.EIO, "broken")
    with pytest.raises(StorageError, match=r"/data is offline: .*broken"):
        health.check()


def test_nothing_is_tried_on_an_offline_directory() -> None:
    health = DirectoryHealth("/data")
    health.fail(OSError("gone"))
    with pytest.raises(StorageError, match="gone"), health.guarded():
        pytest.fail("the guarded block ran")


def test_the_first_reason_is_kept() -> None:
    health = DirectoryHealth("/data")
    health.fail(OSError("first"))
    assert "first" in str(health.fail(OSError("second")))
    assert health.offline_reason == "first"


def test_an_error_without_a_text_still_gives_a_reason() -> None:
    health = DirectoryHealth("/data")
    health.fail(FileNotFoundError())
    assert health.offline_reason == "FileNotFoundError"


@pytest.mark.parametrize("refusal", [CorruptLog("damage"), BarnabasError("no")])
def test_a_refusal_does_not_take_it_offline(refusal: BarnabasError) -> None:
    health = DirectoryHealth("/data")
    with pytest.raises(type(refusal)), health.guarded():
        raise refusal
    assert health.offline_reason is None


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG])
def test_what_the_process_has_run_out_of_refuses_one_piece_of_work(code: int) -> None:
    health = DirectoryHealth("/data")
    told: list[StorageError] = []
    health.listener = told.append
    with pytest.raises(StorageExhausted), health.guarded():
        raise OSError(code, "too many")
    assert (health.offline_reason, health.is_full, len(told)) == (None, False, 1)
    health.check()
    health.check_room()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_refuses_clients_until_there_is_room_and_says_so_once(code: int) -> None:
    health = DirectoryHealth("/data")
    told: list[StorageError] = []
    health.listener = told.append
    for _ in range(3):
        with pytest.raises(StorageExhausted, match="/data is full"), health.guarded():
            raise OSError(code, "no room")
    assert (health.offline_reason, len(told)) == (None, 1)
    health.check()  # the broker's own writes are tried
    with pytest.raises(StorageExhausted, match="is full"):
        health.check_room()
    health.note_room(is_full=False)
    health.check_room()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_a_failed_sync_is_final_whatever_it_says(code: int) -> None:
    health = DirectoryHealth("/data")
    health.fail(SyncFailed(code, "no"))
    assert health.offline_reason is not None


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no room"), StorageExhausted("no room")])
def test_what_cannot_be_done_again_is_final_whatever_it_says(error: Exception) -> None:
    health = DirectoryHealth("/data")
    with pytest.raises(StorageError, match="taken offline"), health.guarded(is_final=True):
        raise error
    assert health.offline_reason is not None


def test_what_can_still_be_read_is_when_nothing_is_written_any_more() -> None:
    health = DirectoryHealth("/data")
    health.fail(OSError("broken"))
    with health.reading():
        pass
