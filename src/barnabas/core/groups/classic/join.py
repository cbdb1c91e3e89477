"""JoinGroup to a classic group: who becomes a member, who replaces a member, and who must retry.

A new dynamic member is first told its id (KIP-394), so that a join which is sent twice does not make two members. A
static member (KIP-345) that comes without an id takes its old place; the group rebalances only if that changes what is
assigned. Differs from Kafka: it rebalances also when the topics of the static member changed, and a static member finds
its place in a full group.
"""

from typing import Final

from barnabas.core.coordination import Token
from barnabas.core.errors import (
    CoordinatorNotAvailable,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    UnknownMemberId,
)
from barnabas.core.groups.classic.messages import UNKNOWN_MEMBER, JoinReply, JoinRequest
from barnabas.core.groups.classic.rebalance import (
    begin,
    begin_or_complete,
    complete_if_all_joined,
    drop,
    join_reply,
    start_session,
)
from barnabas.core.groups.classic.state import ClassicState, LiveGroup, LiveMember
from barnabas.core.groups.decision import SESSION, Effects, TimerKey
from barnabas.core.groups.settings import ClassicConfig
from barnabas.core.groups.subscriptions import CONSUMER_PROTOCOL, parse_topics

MAX_PROTOCOLS: Final = 1000  # of one member, which has two or three: all are looked at in one step


def check_join(config: ClassicConfig, request: JoinRequest) -> None:
    """Refuse a request that is invalid for any group."""
    if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
        raise InvalidSessionTimeout(
            f"a session timeout of {request.session_timeout_ms} ms is not within {config.min_session_timeout_ms} and "
            f"{config.max_session_timeout_ms} ms"
        )
    if not request.protocol_type or not request.protocols:
        raise InconsistentGroupProtocol("a member needs a protocol type and at least one protocol")
    if len(request.protocols) > MAX_PROTOCOLS:
        raise InvalidRequest(f"a member supports {len(request.protocols)} protocols; the maximum is {MAX_PROTOCOLS}")


class Joining:
    """One join to one group, which may be new."""

    def __init__(
        self,
        live: LiveGroup,
        config: ClassicConfig,
        request: JoinRequest,
        token: Token[JoinReply],
        effects: Effects,
        now_ms: int,
    ) -> None:
        self.live = live
        self.config = config
        self.request = request
        self.token = token
        self.effects = effects
        self.now_ms = now_ms

    def decide(self, new_member_id: str) -> None:
        """Add the member and let its request wait, or answer it."""
        live, request = self.live, self.request
        if not self._has_room():
            self._turn_away()
        if not live.supports(request.protocol_type, request.protocols):
            raise InconsistentGroupProtocol(
                f"protocols of type '{request.protocol_type}' do not fit those of group '{live.group}'"
            )
        if request.member_id != UNKNOWN_MEMBER:
            self._join_known()
        elif request.instance_id is not None:
            self._join_static(request.instance_id, new_member_id)
        elif request.requires_member_id:
            self._give_id(new_member_id)
        else:
            self._add(new_member_id)

    def _has_room(self) -> bool:
        live, request = self.live, self.request
        member = live.members.get(request.member_id)
        if request.member_id == UNKNOWN_MEMBER and request.instance_id is not None:
            member = live.members.get(live.static_members.get(request.instance_id, ""))
        if live.state is ClassicState.EMPTY:
            return True
        if live.state is ClassicState.PREPARING_REBALANCE:
            # By those that wait, not by those that are: after the limit was lowered, the last to join again are out.
            return (member is not None and member.join_token is not None) or live.joins_waiting < self.config.max_size
        return member is not None or len(live.members) < self.config.max_size

    def _turn_away(self) -> None:
        live, member_id = self.live, self.request.member_id
        refusal = GroupMaxSizeReached(f"group '{live.group}' has {self.config.max_size} members, the maximum")
        if member_id in live.pending:
            del live.pending[member_id]
            self.effects.cancel_timer(TimerKey(SESSION, live.group, member_id))
        elif member_id in live.members:
            drop(live, live.members[member_id], self.effects, refusal)
        complete_if_all_joined(live, self.effects, self.now_ms)
        raise refusal

    # New members.

    def _give_id(self, new_member_id: str) -> None:
        live = self.live
        if len(live.pending) >= self.config.max_pending:
            raise CoordinatorNotAvailable(f"{len(live.pending)} new members of group '{live.group}' have yet to join")
        live.pending[new_member_id] = None
        self.effects.set_timer(TimerKey(SESSION, live.group, new_member_id), self.request.session_timeout_ms)
        raise MemberIdRequired(new_member_id)

    def _add(self, member_id: str) -> None:
        live, request = self.live, self.request
        if not live.members:
            live.protocol_type = request.protocol_type
        member = LiveMember(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
            is_new=True,
        )
        live.add(member)
        live.wait_join(member, self.token, self.effects)
        live.has_newcomers = True
        # It cannot heartbeat while it does not know its id, and a connection that is lost is not noticed: what ends
        # the wait of a member that is gone is this.
        self.effects.set_timer(TimerKey(SESSION, live.group, member_id), self.config.new_member_join_timeout_ms)
        begin_or_complete(live, self.config, self.effects, self.now_ms)

    def _join_static(self, instance_id: str, new_member_id: str) -> None:
        live = self.live
        old_member_id = live.static_members.get(instance_id)
        if old_member_id is None:
            self._add(new_member_id)
            return
        member = live.members[old_member_id]
        fits = self._keeps_assignment(member)
        was_leader = live.leader
        self.effects.cancel_timer(TimerKey(SESSION, live.group, old_member_id))
        live.replace(member, new_member_id, self.effects)
        member.client_id, member.client_host = self.request.client_id, self.request.client_host
        live.update(member, self.request)
        start_session(live, member, self.effects)
        if live.state is ClassicState.STABLE and fits and live.select_protocol() == live.protocol:
            self._keep_generation(member, was_leader)
            return
        live.wait_join(member, self.token, self.effects)
        if live.state is ClassicState.PREPARING_REBALANCE:
            complete_if_all_joined(live, self.effects, self.now_ms)
        else:
            # In the middle of completing, the leader may have been told the old id: its assignment would miss the new.
            begin(live, self.config, self.effects, self.now_ms)

    def _keeps_assignment(self, member: LiveMember) -> bool:
        """Whether the topics are the same, as far as is known.

        The bytes may differ: they contain the previous assignment.
        """
        if self.live.protocol_type != CONSUMER_PROTOCOL:
            return True
        offered = next((each.metadata for each in self.request.protocols if each.name == self.live.protocol), b"")
        return parse_topics(offered) == parse_topics(member.metadata_of(self.live.protocol))

    def _keep_generation(self, member: LiveMember, was_leader: str | None) -> None:
        live = self.live
        self.effects.records.append(live.to_record())
        is_leader = live.leader == member.member_id
        if self.request.skips_assignment:
            answer = join_reply(live, member, skip_assignment=is_leader)
        else:
            # Told that the id it had before leads, for a leader would assign and no member would ask for it.
            answer = JoinReply(
                member_id=member.member_id,
                generation=live.generation,
                protocol_type=live.protocol_type,
                protocol=live.protocol,
                leader=was_leader,
            )
        self.effects.reply(self.token, answer)

    # Members that know their id.

    def _join_known(self) -> None:
        live, request = self.live, self.request
        if request.member_id in live.pending:
            if request.instance_id is not None:
                raise UnknownMemberId(f"the id '{request.member_id}' was not given to a static member")
            self._add(request.member_id)
            return
        member = live.check_member(request.member_id, request.instance_id)
        if self._knows_generation(member):
            self.effects.reply(self.token, join_reply(live, member))
            return
        live.update(member, request)
        live.wait_join(member, self.token, self.effects)
        begin_or_complete(live, self.config, self.effects, self.now_ms)

    def _knows_generation(self, member: LiveMember) -> bool:
        """Whether the member can get the current generation: it is unchanged, and no leader asking for a rebalance."""
        if self.live.state is ClassicState.PREPARING_REBALANCE or member.protocols != self.request.protocols:
            return False
        return self.live.state is ClassicState.COMPLETING_REBALANCE or member.member_id != self.live.leader
