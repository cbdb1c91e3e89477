"""How scenarios of groups put things into words. Partitions are written as ``t:0,1``, several topics as ``t:0/u:1``."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from barnabas.core.errors import BarnabasError
from barnabas.core.groups.classic.messages import JoinReply, SyncReply
from barnabas.core.groups.consumer.messages import ConsumerHeartbeatReply
from barnabas.core.groups.consumer.placing import TopicInfo
from barnabas.core.groups.consumer.state import MemberState
from barnabas.core.groups.embedded import parse_assignment, parse_subscription
from barnabas.core.groups.records import (
    ClassicGroupRecord,
    ClassicMember,
    ConsumerCurrentMemberRecord,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetMemberRecord,
    GroupEntry,
    GroupTombstone,
    OffsetRecord,
    TopicPartitions,
)


def parse_partitions(text: str) -> dict[str, tuple[int, ...]]:
    """What ``t:0,1/u:2`` says; ``nothing`` is none."""
    found = {}
    for part in text.split("/") if text != "nothing" else ():
        topic, _, numbers = part.partition(":")
        found[topic] = tuple(int(number) for number in numbers.split(","))
    return found


def partition_words(partitions: Mapping[str, Iterable[int]]) -> str:
    """Partitions by topic."""
    return "/".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in partitions.items()) or "nothing"


def refusal_words(error: BarnabasError) -> str:
    """An error that is an answer."""
    return f"refused, {type(error).__name__} ({error.kafka_code}): {error}"


class GroupWords:
    """Answers and records in words; topics are known by their ids."""

    def __init__(self, topics: Mapping[str, TopicInfo]) -> None:
        self._topics = topics

    def answer(self, answer: object) -> str:
        """What somebody is told."""
        if isinstance(answer, BarnabasError):
            return refusal_words(answer)
        if isinstance(answer, JoinReply):
            return self._joined(answer)
        if isinstance(answer, SyncReply):
            return f"has {_assigned(answer.assignment)}"
        if isinstance(answer, ConsumerHeartbeatReply):
            has = "as before" if answer.assignment is None else f"has {self.held(answer.assignment)}"
            return f"epoch {answer.member_epoch}, {has}"
        if isinstance(answer, tuple):  # of a request to leave: what became of each
            return ", ".join("gone" if left.error is None else refusal_words(left.error) for left in answer)
        assert answer is None
        return "ok"

    def _joined(self, reply: JoinReply) -> str:
        words = [f"generation {reply.generation} by {reply.protocol}, {reply.leader or 'nobody'} leads"]
        for member in reply.members:
            subscription = parse_subscription(member.metadata)
            owned = f" and has {partition_words(subscription.owned)}" if subscription.owned else ""
            words.append(f"{member.member_id} reads {' '.join(subscription.topics)}{owned}")
        if reply.skip_assignment:
            words.append("it assigns nothing")
        return "; ".join(words)

    def held(self, partitions: Iterable[TopicPartitions]) -> str:
        """Partitions of topics by their ids."""
        return partition_words({self._name_of(each.topic_id): each.partitions for each in partitions})

    def _name_of(self, topic_id: UUID) -> str:
        return next(name for name, topic in self._topics.items() if topic.topic_id == topic_id)

    def entry(self, entry: GroupEntry) -> str:
        """What is written to the log."""
        if isinstance(entry, GroupTombstone):
            return f"  removes {entry.of.__name__} {' '.join(map(str, entry.key[1:]))}".rstrip()
        return f"  writes {self._record(entry)}"

    def _record(self, record: GroupEntry) -> str:  # noqa: PLR0911 - one for each record
        match record:
            case OffsetRecord():
                return f"offset {record.offset} of {record.topic}:{record.partition}"
            case ClassicGroupRecord(members=()):
                return f"generation {record.generation}, empty"
            case ClassicGroupRecord():
                members = "; ".join(map(_classic_member, record.members))
                return f"generation {record.generation} by {record.protocol}, {record.leader} leads: {members}"
            case ConsumerGroupRecord():
                return f"group epoch {record.epoch}"
            case ConsumerMemberRecord():
                kind = "" if record.classic is None else ", a classic member"
                static = "" if record.instance_id is None else f", instance {record.instance_id}"
                return f"{record.member_id} reads {' '.join(record.topics)}{static}{kind}"
            case ConsumerTargetEpochRecord():
                return f"target epoch {record.epoch}"
            case ConsumerTargetMemberRecord():
                return f"{record.member_id} is to have {self.held(record.partitions)}"
            case ConsumerCurrentMemberRecord():
                state = MemberState(record.state).name.lower().replace("_", " ")
                gives_up = f", gives up {self.held(record.pending_revocation)}" if record.pending_revocation else ""
                return f"{record.member_id} in epoch {record.epoch}, {state}: {self.held(record.assigned)}{gives_up}"
        raise AssertionError(f"no words for {record}")


def _classic_member(member: ClassicMember) -> str:
    static = "" if member.instance_id is None else f" (instance {member.instance_id})"
    return f"{member.member_id}{static} has {_assigned(member.assignment)}"


def _assigned(assignment: bytes) -> str:
    return partition_words(parse_assignment(assignment).partitions) if assignment else "nothing"
