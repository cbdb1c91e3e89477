"""Sets of voters, and their history along the log."""

from uuid import UUID

from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterHistory, VotersAt, VoterSet


def key(node_id: int, directory: int = 0) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=directory or node_id))


def voters(*node_ids: int) -> VoterSet:
    return VoterSet.of(Voter(key(node_id)) for node_id in node_ids)


def test_a_node_with_another_directory_is_another_voter() -> None:
    assert voters(1, 2).find(key(2)) is not None
    assert voters(1, 2).find(key(2, directory=77)) is None


def test_without_directories_the_id_alone_counts() -> None:
    fixed = VoterSet.of([Voter(ReplicaKey(1)), Voter(ReplicaKey(2))])
    assert fixed.find(key(2, directory=77)) is not None


def test_a_majority_is_more_than_half() -> None:
    assert [voters(*range(count)).majority for count in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]


def test_a_node_is_one_voter_at_most() -> None:
    changed = voters(1, 2).with_voter(Voter(key(2, directory=77)))
    assert changed.node_ids == (1, 2)
    assert changed.find(key(2)) is None


def test_the_last_set_in_the_log_rules_until_it_is_truncated() -> None:
    history = VoterHistory(entries=[VotersAt(-1, voters(1))])
    history.append(VotersAt(5, voters(1, 2)))
    history.append(VotersAt(9, voters(1, 2, 3)))
    assert history.current == voters(1, 2, 3)
    history.truncate_to(9)
    assert history.current == voters(1, 2)
    history.truncate_to(2)
    assert history.current == voters(1)


def test_a_snapshot_holds_the_set_that_rules_where_it_ends() -> None:
    history = VoterHistory(entries=[VotersAt(-1, voters(1)), VotersAt(5, voters(1, 2))])
    assert history.at(5) == voters(1)
    assert history.at(6) == voters(1, 2)
    assert VoterHistory(voters(3)).at(6) == voters(3)


def test_what_came_before_the_log_is_kept_as_far_as_it_rules() -> None:
    history = VoterHistory(entries=[VotersAt(-1, voters(1)), VotersAt(3, voters(1, 2)), VotersAt(8, voters(2))])
    history.forget_before(6)
    assert history.at(6) == voters(1, 2)
    assert history.current == voters(2)


def test_a_snapshot_replaces_the_whole_history() -> None:
    history = VoterHistory(voters(7), [VotersAt(3, voters(1, 2))])
    history.reset(20, voters(1, 2, 3))
    assert history.last_entry == VotersAt(19, voters(1, 2, 3))
    history.reset(30, NO_VOTERS)
    assert history.current == voters(7)


def test_a_set_from_configuration_is_in_no_snapshot() -> None:
    assert VoterHistory(voters(1, 2)).recorded_at(10) == NO_VOTERS
    history = VoterHistory(voters(1, 2), [VotersAt(5, voters(1, 2, 3))])
    assert (history.recorded_at(5), history.recorded_at(6)) == (NO_VOTERS, voters(1, 2, 3))
