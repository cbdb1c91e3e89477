"""How much memory there is, and for answers."""

from pathlib import Path

from barnabas.runtime.memory import LEAST_UNREAD_BYTES, MOST_UNREAD_BYTES, max_unread_bytes, memory_bytes


def test_a_containers_limit_counts_where_it_is_less_than_the_machine_has(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    installed = memory_bytes(limit)
    assert installed > 2**20
    limit.write_text("max\n")
    assert memory_bytes(limit) == installed
    limit.write_text("1048576\n")
    assert memory_bytes(limit) == 2**20
    limit.write_text(f"{2**60}\n")
    assert memory_bytes(limit) == installed


def test_answers_get_what_is_wanted_or_a_part_of_what_there_is() -> None:
    assert max_unread_bytes(5) == 5
    assert max_unread_bytes(0) == 0
    assert LEAST_UNREAD_BYTES <= max_unread_bytes(-1) <= MOST_UNREAD_BYTES
