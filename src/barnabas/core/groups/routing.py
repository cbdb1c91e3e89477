"""Which state machine a request goes to: that of classic groups, of consumer groups (KIP-848), of share groups.

Owns the seam between the two. A group with consumer members is a consumer group, and serves members of the classic
protocol too; any other is a classic group, which becomes a consumer group when a member of the new protocol joins it,
and classic again when the last one leaves. Offsets belong to the name of a group and are not affected.

A share group (KIP-932) is never converted: its name is not free for members of another protocol, and theirs not for it.

Every decision is an outcome: a refusal is the answer to its token, nothing is raised.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from barnabas.core.coordination import Outcome, Reply, TimerChange, Token
from barnabas.core.errors import BarnabasError, GroupIdNotFound, InconsistentGroupProtocol, RebalanceInProgress
from barnabas.core.groups.classic import decisions as classic
from barnabas.core.groups.classic.messages import (
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    SyncReply,
    SyncRequest,
)
from barnabas.core.groups.classic.state import ClassicSoft
from barnabas.core.groups.consumer import classic_members
from barnabas.core.groups.consumer import decisions as consumer
from barnabas.core.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatReply
from barnabas.core.groups.consumer.regexes import Visible, all_visible
from barnabas.core.groups.consumer.state import ConsumerGroup, Topics
from barnabas.core.groups.decision import REGEX, GroupDecision, GroupOutcome, TimerKey
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.migration import downgraded_to
from barnabas.core.groups.records import GroupEntry, OffsetRecord
from barnabas.core.groups.settings import ConsumerConfig, ShareConfig
from barnabas.core.groups.share import decisions as share
from barnabas.core.groups.share.messages import ShareHeartbeat, ShareHeartbeatReply

T = TypeVar("T")


class GroupView(NamedTuple):
    """The input of decisions: replicated state, soft state, the topics, and a group's own settings."""

    groups: Groups
    soft: ClassicSoft
    topics: Topics
    config_of: Callable[[str], ConsumerConfig]
    share_config_of: Callable[[str], ShareConfig] = lambda _: ShareConfig()
    visible: Visible = all_visible

    def with_consumers(self, group: str) -> ConsumerGroup | None:
        """The consumer group of that name, if it has members: then requests of classic members are its own."""
        found = self.groups.consumer.get(group)
        return found if found is not None and found.members else None


# What classic members ask.


def join(
    view: GroupView, request: JoinRequest, *, token: Token[JoinReply], now_ms: int, new_member_id: str
) -> GroupOutcome:
    """JoinGroup. `new_member_id` is for a member without an id."""
    if request.group in view.groups.share:
        taken = InconsistentGroupProtocol(f"'{request.group}' is a share group")
        return Outcome(replies=[Reply(token, taken)])
    group = view.with_consumers(request.group)
    if group is None:
        return classic.join(view.groups, view.soft, request, token=token, now_ms=now_ms, new_member_id=new_member_id)
    return _answer(
        view,
        token,
        lambda: classic_members.decide_join(
            group,
            request,
            now_ms=now_ms,
            new_member_id=new_member_id,
            topics=view.topics,
            config=view.config_of(request.group),
        ),
        now_ms,
    )


def sync(view: GroupView, request: SyncRequest, *, token: Token[SyncReply], now_ms: int) -> GroupOutcome:
    """SyncGroup."""
    group = view.with_consumers(request.group)
    if group is None:
        return classic.sync(view.groups, view.soft, request, token=token, now_ms=now_ms)
    config = view.config_of(request.group)
    return _answer(
        view,
        token,
        lambda: classic_members.decide_sync(group, request, now_ms=now_ms, topics=view.topics, config=config),
        now_ms,
    )


def heartbeat(view: GroupView, request: HeartbeatRequest, *, token: Token[None], now_ms: int) -> GroupOutcome:
    """Heartbeat."""
    group = view.with_consumers(request.group)
    if group is None:
        return classic.heartbeat(view.groups, view.soft, request, token=token)
    config = view.config_of(request.group)
    return _answer(
        view,
        token,
        lambda: classic_members.decide_heartbeat(group, request, now_ms=now_ms, topics=view.topics, config=config),
        now_ms,
    )


def leave(view: GroupView, request: LeaveRequest, *, token: Token[LeaveReply], now_ms: int) -> GroupOutcome:
    """LeaveGroup."""
    group = view.with_consumers(request.group)
    if group is None:
        return classic.leave(view.groups, view.soft, request, token=token, now_ms=now_ms)
    config = view.config_of(request.group)
    return _answer(
        view,
        token,
        lambda: classic_members.decide_leave(group, request, now_ms=now_ms, topics=view.topics, config=config),
        now_ms,
    )


# What consumer members ask.


def consumer_heartbeat(
    view: GroupView,
    request: ConsumerHeartbeat,
    *,
    token: Token[ConsumerHeartbeatReply],
    now_ms: int,
    new_member_id: str,
) -> GroupOutcome:
    """ConsumerGroupHeartbeat; converts a classic group if necessary. `new_member_id` is for a member without an id."""
    if request.group in view.groups.share:
        return Outcome(replies=[Reply(token, GroupIdNotFound(f"Group {request.group} is not a consumer group."))])
    group = view.groups.consumer.get(request.group)
    live = classic.find(view.groups, view.soft, request.group) if group is None else None
    return _answer(
        view,
        token,
        lambda: consumer.decide_heartbeat(
            live if group is None else group,
            request,
            now_ms=now_ms,
            new_member_id=new_member_id,
            topics=view.topics,
            config=view.config_of(request.group),
        ),
        now_ms,
        upgrades=request.group if live is not None else None,
    )


# What members of share groups ask.


def share_heartbeat(
    view: GroupView, request: ShareHeartbeat, *, token: Token[ShareHeartbeatReply], now_ms: int
) -> GroupOutcome:
    """ShareGroupHeartbeat."""
    group = view.groups.share.get(request.group)
    is_taken = group is None and (view.groups.type_of(request.group) is not None or request.group in view.soft.live)
    try:
        decision = share.decide_heartbeat(
            group,
            request,
            is_taken=is_taken,
            now_ms=now_ms,
            topics=view.topics,
            config=view.share_config_of(request.group),
        )
    except BarnabasError as refusal:
        return Outcome(replies=[Reply(token, refusal)])
    return Outcome(decision.records, [Reply(token, decision.reply)], decision.timers)


# Time, topics and failures.


def on_timer(view: GroupView, key: TimerKey, *, now_ms: int) -> GroupOutcome:
    """A timer of a group has fired."""
    if key.group in view.groups.share:
        ended = share.on_timer(view.groups.share[key.group], key, topics=view.topics, now_ms=now_ms)
        return Outcome(ended.records, (), ended.timers)
    group = view.groups.consumer.get(key.group)
    if group is not None:
        config = view.config_of(key.group)
        decision = consumer.on_timer(group, key, now_ms=now_ms, topics=view.topics, config=config, visible=view.visible)
        return _outcome(view, decision, (), now_ms)
    if key.kind == REGEX:
        return Outcome()
    return classic.on_timer(view.groups, view.soft, key, now_ms=now_ms)


def on_topics_change(view: GroupView, name: str, *, now_ms: int) -> GroupOutcome:
    """Topics were created, deleted, grown or moved: update the consumer groups that read them.

    Members of other groups notice it themselves.
    """
    if name in view.groups.share:
        changed = share.on_topics_change(view.groups.share[name], topics=view.topics, now_ms=now_ms)
        return Outcome(changed.records, (), changed.timers)
    group = view.groups.consumer.get(name)
    if group is None:
        return Outcome()
    config = view.config_of(name)
    decision = consumer.on_metadata_change(
        group, now_ms=now_ms, topics=view.topics, config=config, visible=view.visible
    )
    return _outcome(view, decision, (), now_ms)


def timers_after_load(view: GroupView) -> list[TimerChange]:
    """The timers of all members in the log."""
    timers: list[TimerChange] = [*classic.timers_after_load(view.groups)]
    for name, group in view.groups.consumer.items():
        timers += consumer.timers_after_load(group, view.config_of(name))
    for name, shared in view.groups.share.items():
        timers += share.timers_after_load(shared, view.share_config_of(name))
    return timers


def give_up(view: GroupView, records: Iterable[GroupEntry], error: BarnabasError) -> GroupOutcome:
    """These records cannot be written: refuse the waiting requests of their groups, and reset the groups to the log."""
    timers: list[TimerChange] = []
    replies: list[Reply[Any]] = []
    for group in dict.fromkeys(each.group for each in records if not isinstance(each, OffsetRecord)):
        reset = classic.reset(view.groups, view.soft, group, error)
        timers += reset.timers
        replies += reset.replies
    return Outcome((), replies, timers)


# Outcomes of decisions about consumer groups.


def _answer(
    view: GroupView,
    token: Token[T],
    decide: Callable[[], GroupDecision[T | BarnabasError]],
    now_ms: int,
    *,
    upgrades: str | None = None,
) -> GroupOutcome:
    """Decide about a consumer group, or a classic one that becomes one (`upgrades`); a refusal is the answer."""
    try:
        decision = decide()
    except BarnabasError as refusal:
        return Outcome(replies=[Reply(token, refusal)])
    replies: list[Reply[Any]] = [Reply(token, decision.reply)]
    if upgrades is not None:
        # What waits in the classic group must join again; then it finds the consumer group.
        rejoin = RebalanceInProgress(f"group '{upgrades}' is rebalancing")
        reset = classic.reset(view.groups, view.soft, upgrades, rejoin)
        decision = decision._replace(timers=[*reset.timers, *decision.timers])
        replies += reset.replies
    return _outcome(view, decision, replies, now_ms)


def _outcome(
    view: GroupView, decision: GroupDecision[object], replies: Sequence[Reply[Any]], now_ms: int
) -> GroupOutcome:
    downgraded = downgraded_to(decision)
    if downgraded is None:
        return Outcome(decision.records, replies, decision.timers)
    rejoin = classic.take_over(view.soft, downgraded, now_ms=now_ms)
    return Outcome(decision.records, replies, [*decision.timers, *rejoin.timers])
