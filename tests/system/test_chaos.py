"""The short form of `make chaos MINUTES=N`: three real nodes, of which a leader is killed, one paused and one cut off
while clients of every kind work. `tests/system/chaos` says what is checked.
"""

import subprocess
import sys
from typing import Final

from tests.system.chaos import network
from tests.system.chaos.checks import Found, check_processed, check_records, check_transfers
from tests.system.chaos.groups import Group
from tests.system.chaos.load import Acked
from tests.system.chaos.transfers import Outcome

FAULTS: Final = ("kill a leader", "pause a leader")
CUTS: Final = ("unplug a leader",)
TIMEOUT_S: Final = 400
"""Only so that it ends: the run itself has a limit for everything that must go on."""


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.chaos", "--quick", "--seed", "16", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_acknowledged_is_lost_when_leaders_are_killed_paused_and_cut_off() -> None:
    faults = FAULTS if network.why_not() else (*FAULTS, *CUTS)

    shown = run(*(word for fault in faults for word in ("--fault", fault)))

    assert "all of it held" in shown
    assert all(f"1 x {fault}" in shown for fault in faults)


ACKED: Final = {"w": [[Acked(0, 0), Acked(2, 1)], [Acked(1, 0)]]}
RECORDS: Final = [Found(0, 0, "w 0"), Found(0, 1, "w 2"), Found(1, 0, "w 1")]


def test_the_check_of_records_notices_what_is_lost_twice_there_or_out_of_order() -> None:
    assert list(check_records(RECORDS, ACKED)) == []
    assert list(check_records(RECORDS[:2], ACKED)) == ["w 1 was acknowledged at 1:0, and there is None"]
    (twice,) = check_records([*RECORDS, Found(0, 2, "w 2")], ACKED)
    assert twice == "w 2 is at offset 2 of partition 0, behind 2"
    retried = {"w": [[Acked(0, None)], [Acked(1, None)]]}
    assert list(check_records(RECORDS, retried)) == []
    (lost,) = check_records(RECORDS[:2], retried)
    assert lost == "w 1 was acknowledged in partition 1, and is not there"
    swapped = [Found(0, 0, "w 2"), Found(0, 1, "w 0"), Found(1, 0, "w 1")]
    assert len(list(check_records(swapped, ACKED))) == 3


def test_the_check_of_transfers_notices_halves_and_outcomes_that_are_not_true() -> None:
    outcomes = {"b": [Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN]}
    whole = [Found(0, 0, "b 0 -5"), Found(1, 0, "b 0 5")]
    half = Found(1, 3, "b 2 7")
    assert list(check_transfers(whole, outcomes, is_final=True)) == []
    assert list(check_transfers([], outcomes, is_final=True)) == ["b 0 is committed, and not there"]
    assert list(check_transfers([*whole, half], outcomes, is_final=True)) == ["b 2 (unknown) is not whole: [7]"]
    assert list(check_transfers([*whole, half], outcomes, is_final=False)) == []
    aborted = [*whole, Found(0, 2, "b 1 -1"), Found(1, 2, "b 1 1")]
    assert list(check_transfers(aborted, outcomes, is_final=True)) == ["b 1 is aborted, and can be read"]


def test_the_check_of_processing_notices_what_is_left_out_or_done_twice() -> None:
    done = [Found(0, 0, "0 0"), Found(1, 0, "0 1"), Found(0, 1, "1 0")]
    assert list(check_processed(done, [2, 1], is_final=True)) == []
    assert list(check_processed([*done, done[0]], [2, 1], is_final=True)) == ["(0, 0) was worked off 2 times"]
    assert len(list(check_processed(done[:2], [2, 1], is_final=True))) == 1
    assert len(list(check_processed(done, [1, 1], is_final=True))) == 1
    assert list(check_processed(done, [1, 1], is_final=False)) == []


def test_the_offsets_of_a_group_may_neither_skip_a_record_nor_go_back() -> None:
    group = Group("classic")
    group.note_read("m", 0, 0)
    group.note_read("m", 0, 0)
    assert group.bugs == []
    group.note_read("m", 0, 2)
    assert len(group.bugs) == 1
    group.note_committed(0, 3)
    group.note_told(0, 2)
    assert "went back from 3 to 2" in group.bugs[1]
