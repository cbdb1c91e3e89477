"""Transactional producers of both generations, as processes that hang, are replaced, and come back as zombies.

An older one announces every partition, and ends its transaction without a new epoch. A newer one (transaction version
2, KIP-890) announces nothing, and has an epoch for each transaction. Both do what real ones do: they send again what
was not answered, with the same sequence numbers and the same epoch, and begin anew when they are refused.

An older one that cannot know whether a request is still on its way takes a new epoch before its next transaction: else
that request could end it, which is the flaw of the older protocol.

Some older ones take what they aborted for never written, as a client does whose broker died on it: they use the same
sequence numbers again, at the same epoch. They are to be refused, and begin anew; what they write is no retry.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from barnabas.core.records.record import Record, encode_batch
from barnabas.wire.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    OFFSET_FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Api,
)
from barnabas.wire.writing import Values
from tests.simulation.group_history import At
from tests.simulation.node_clients import Client, World
from tests.simulation.node_history import Violation
from tests.simulation.transaction_history import Bank, Fate, Step, Transfer
from tests.simulation.transaction_requests import (
    DUPLICATE_SEQUENCE,
    NOBODY,
    OK,
    OUT_OF_ORDER,
    REFUSALS,
    RETRIED,
    UNCERTAIN,
    UNSTABLE_OFFSET,
    Identity,
    Sent,
    add_offsets,
    add_partitions,
    code_of,
    commit_offset,
    end_transaction,
    fetch_offset,
    init_producer_id,
    produce,
)

SAVINGS: Final = At("savings", 0)
ACCOUNTS: Final = [At("accounts", 0), At("accounts", 1), At("accounts", 2), SAVINGS]
TIMEOUTS_S: Final = (1.5, 4.0)  # of transactions
ANSWER_S: Final = (0.4, 2.0, 6.0)  # how long a client waits, by its patience at that moment


class TransactionWorld(World, Protocol):
    """What clients of transactions ask of the simulation."""

    bank: Bank
    ids: dict[str, UUID]
    is_calm: bool  # nobody hangs or gives up any more
    repeated_ends: dict[Identity, None]  # whose requests to end a transaction somebody else has sent once more

    def note_sent(self, sent: Sent) -> None: ...

    def note_identity(self, transactional_id: str, identity: Identity) -> None: ...

    def may_repeat(self, sent: Sent) -> bool: ...


class Refused(Exception):
    """The transaction cannot go on like this."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Asking(Client):
    """Somebody who asks about transactions, and is not always patient."""

    world: TransactionWorld
    retried: tuple[int, ...] = RETRIED  # the codes after which it asks again

    async def put(self, api: Api, version: int, values: Values) -> Any:
        """The answer, or None when the connection is lost or it took too long."""
        client = await self.connect()
        timeout_s = ANSWER_S[-1] if self.world.is_calm else self.random.choice(ANSWER_S)
        try:
            answer = await client.ask(api, version, values, timeout_s=timeout_s)
        except (OSError, TimeoutError):
            self.world.counts["unanswered"] += 1
            self.hang_up()
            return None
        self.world.note_answer(api)
        return answer

    async def pause(self) -> None:
        await asyncio.sleep(self.random.uniform(0.02, 0.2))

    async def fetch_offset(self, step: Step, *, is_stable: bool) -> int | None:
        """The committed offset of a group, checked; None when it is not to be had now."""
        at_least = self.world.bank.progress.get(step.source, 0)
        answer = await self.put(OFFSET_FETCH, 8, fetch_offset(step.group, step.source, is_stable=is_stable))
        if answer is None:
            return None
        (group,) = answer.groups
        if group.error_code:
            if group.error_code not in self.retried:
                raise Violation(f"{self.name}: offsets are refused with {group.error_code!r}")
            return None
        found = group.topics[0].partitions[0]
        if found.error_code:
            if found.error_code != UNSTABLE_OFFSET or not is_stable:
                raise Violation(f"{self.name}: an offset is refused with {found.error_code!r}")
            self.world.counts["unstable offset"] += 1
            return None
        offset = int(found.committed_offset)
        self.world.bank.note_offset(step.group, step.source, offset, found.metadata or "", at_least=at_least)
        self.world.counts["fetched an offset"] += 1
        return offset


class TransactionalProducer(Asking):
    """One process with a transactional id, which others may have too."""

    abort_chance = 0.25  # that it aborts a transaction on purpose
    new_chance = 0.6  # that it is of the newer generation
    late_chance = 0.5  # that somebody writes into a transaction while it is aborted
    announce_chance = 0.5  # that an older one announces what is written late, and all partitions before the first
    rate = 12.0  # transactions in a second, if they took no time
    reuse_chance = 0.3  # that an older one uses the sequence numbers of what it has aborted again

    def __init__(
        self, world: TransactionWorld, name: str, transactional_id: str, *, group: str | None = None, trouble: float = 1
    ) -> None:
        super().__init__(world, name)
        self.transactional_id = transactional_id
        self.identity = NOBODY
        self.is_new = False
        self._source = None if group is None else Step(group, At("source", int(group[-1])), 0, 0)
        self._position: int | None = None  # in the source, once it is known
        self._is_uncertain = False  # something may still be on its way
        self._sequences: Counter[At] = Counter()
        self._is_reusing = False  # sequence numbers, of something that was aborted
        self._serial = 0
        self._timeout_s = TIMEOUTS_S[0]
        self._trouble = trouble

    async def run(self) -> None:
        try:
            await asyncio.sleep(self.random.uniform(0, 1))
            while not self.world.is_over:
                await self.work()
                await asyncio.sleep(self.random.expovariate(self.rate))
        finally:
            self.hang_up()

    async def work(self) -> Transfer | None:
        """One transaction, or a step on the way to one."""
        try:
            if self.identity == NOBODY:
                await self._take_id(NOBODY)
            elif self._is_uncertain and not self.is_new:
                await self._take_id(self.identity)
            await self._find_position()
            return await self._transact()
        except Refused as refusal:
            self.world.counts["refused"] += 1
            if refusal.code not in REFUSALS and not (refusal.code == OUT_OF_ORDER and self._is_reusing):
                raise Violation(f"{self.name}: refused with {refusal.code}") from refusal
            await self._recover()
        return None

    # Who it is.

    async def _take_id(self, identity: Identity) -> None:
        """A new epoch: as whoever comes with the transactional id, or as the one that it was (KIP-360)."""
        if identity == NOBODY:
            self.is_new = self.random.random() < self.new_chance
            self._timeout_s = self.random.choice(TIMEOUTS_S)
        version = self.random.choice((2, 4, 5) if identity == NOBODY else (3, 4, 5))
        values = init_producer_id(self.transactional_id, identity, timeout_s=self._timeout_s)
        self._position = None
        try:
            answer = await self._insist(INIT_PRODUCER_ID, version, values, identity)
        except Refused as refusal:
            if identity == NOBODY:
                raise Violation(f"{self.name}: no producer id, but {refusal.code}") from refusal
            raise
        self._become(Identity(answer.producer_id, answer.producer_epoch))
        self._is_uncertain = False

    def _become(self, identity: Identity) -> None:
        self.identity = identity
        self.world.note_identity(self.transactional_id, identity)
        self._sequences.clear()
        self._is_reusing = False

    async def _recover(self) -> None:
        """It was refused: it aborts, or asks for the next epoch, or begins as another."""
        was, self._position = self.identity, None
        choice = self.random.random()
        try:
            if self.is_new and choice < 0.3:
                await self._end(None, is_commit=False)
                return
            if choice < 0.6:
                await self._take_id(was)
                return
        except Refused:
            self.world.counts["fenced"] += 1
        self.identity = NOBODY
        await asyncio.sleep(0 if self.world.is_calm else self.random.expovariate(1))

    async def _find_position(self) -> None:
        while self._source is not None and self._position is None:
            found = await self.fetch_offset(self._source, is_stable=True)
            if found is None:
                await self.pause()
            else:
                self._position = max(found, 0)

    # One transaction.

    async def _transact(self) -> Transfer:
        is_commit = self.world.is_calm or self.random.random() >= self.abort_chance
        late = (
            None if is_commit or self.random.random() >= self.late_chance else self.random.choice((SAVINGS, *ACCOUNTS))
        )
        transfer, amounts = self._plan([at for at in ACCOUNTS if at != late])
        sequences = self._sequences.copy()
        batches = {at: self._make(transfer, at, amount) for at, amount in amounts.items()}
        try:
            await self._write(batches)
            if late is not None and not self.is_new and self.random.random() < self.announce_chance:
                await self._add_partitions([late])
            if transfer.step is not None:
                await self._commit_offset(transfer, transfer.step)
            async with asyncio.TaskGroup() as tasks:
                if late is not None:
                    tasks.create_task(self._write_late(transfer, late))
                    await asyncio.sleep(self.random.uniform(0, 0.02))
                await self._end(transfer, is_commit=is_commit)
        except* Refused as refused:
            self._position = None
            raise Refused(_first_code(refused)) from None
        if is_commit and transfer.step is not None:
            self._position = transfer.step.end_offset
        if self._trouble and not (is_commit or self.is_new) and self.random.random() < self.reuse_chance:
            self._sequences, self._is_reusing = sequences, True
        return transfer

    def _plan(self, accounts: Sequence[At]) -> tuple[Transfer, dict[At, int]]:
        """What to move, from where to where."""
        self._serial += 1
        step = None
        if self._source is not None:
            assert self._position is not None
            end_offset = self._position + self.random.randrange(1, 4)
            step = self._source._replace(first_offset=self._position, end_offset=end_offset)
        transfer = self.world.bank.open(f"{self.name}/{self._serial}", step)
        places = self.random.sample(accounts, min(self.random.choice((2, 2, 3, 4)), len(accounts)))
        amounts = {at: self.random.randrange(1, 100) for at in places[1:]}
        return transfer, {places[0]: -sum(amounts.values()), **amounts}

    def _make(self, transfer: Transfer, at: At, amount: int) -> bytes:
        """A batch of one record, or of two that come to the amount."""
        parts = [amount] if self.random.random() < 0.7 else [amount + 1, -1]
        records = [
            Record(number, self.world.now_ms(), None, transfer.add(at, part)) for number, part in enumerate(parts)
        ]
        batch = encode_batch(
            records,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=self._sequences[at],
            is_transactional=True,
        )
        self._sequences[at] += len(records)
        return bytes(batch)

    async def _write(self, batches: Mapping[At, bytes]) -> None:
        if not self.is_new and self.random.random() < self.announce_chance:
            await self._add_partitions(batches)
        places = list(batches)
        size = self.random.choice((1, 1, len(places)))  # at a time
        for start in range(0, len(places), size):
            await self._perhaps_hang()
            part = {at: batches[at] for at in places[start : start + size]}
            if not self.is_new:
                await self._add_partitions(part)
            await self._produce(part)

    async def _add_partitions(self, partitions: Iterable[At]) -> None:
        values = add_partitions(self.transactional_id, self.identity, partitions)
        await self._insist(ADD_PARTITIONS_TO_TXN, 3, values, self.identity)

    async def _produce(self, batches: Mapping[At, bytes]) -> None:
        pending = dict(batches)
        while pending:
            version = self.random.choice((12, 13) if self.is_new else (9, 11))
            values = produce(self.transactional_id, pending, version=version, ids=self.world.ids)
            answer = await self._try(PRODUCE, version, values, self.identity)
            for at, code in () if answer is None else self._codes_of(answer):
                if code in (OK, DUPLICATE_SEQUENCE):
                    pending.pop(at)
                elif code == OUT_OF_ORDER and self._is_reusing:
                    self.world.counts["reused"] += 1
                    raise Refused(code)
                elif code == OUT_OF_ORDER:
                    raise Violation(f"{self.name}: a batch for {at} is out of order, though all before are written")
                elif code not in self.retried:
                    raise Refused(code)
            if pending:
                await self.pause()

    def _codes_of(self, answer: Any) -> list[tuple[At, int]]:
        names = {topic_id: name for name, topic_id in self.world.ids.items()}
        return [
            (At(getattr(topic, "name", None) or names[topic.topic_id], each.index), int(each.error_code))
            for topic in answer.responses
            for each in topic.partition_responses
        ]

    async def _write_late(self, transfer: Transfer, at: At) -> None:
        """Something for a partition that the transaction has not written to, while it is ended or when it is over."""
        record = Record(0, self.world.now_ms(), None, transfer.add(at, 0))
        identity = self.identity
        batch = encode_batch(
            [record],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=self._sequences[at],
            is_transactional=True,
        )
        is_new, version = self.is_new, 12 if self.is_new else 11
        values = produce(self.transactional_id, {at: bytes(batch)}, version=version, ids=self.world.ids)
        await asyncio.sleep(self.random.choice((0, 0, 0.01, 0.3)))
        other = self.make_other(f"{self.name}/late{self._serial}")
        self.world.note_sent(Sent(PRODUCE, version, values, self.transactional_id, identity, is_new))
        await other.put(PRODUCE, version, values)
        other.hang_up()
        self._is_uncertain = True
        self.world.counts["late"] += 1

    def make_other(self, name: str) -> Asking:
        """Somebody with connections of its own."""
        return Asking(self.world, name)

    async def _commit_offset(self, transfer: Transfer, step: Step) -> None:
        await self._perhaps_hang()
        if not self.is_new:
            values = add_offsets(self.transactional_id, self.identity, step.group)
            await self._insist(ADD_OFFSETS_TO_TXN, 3, values, self.identity)
        values = commit_offset(
            self.transactional_id, self.identity, step.group, step.source, step.end_offset, transfer.name
        )
        await self._insist(TXN_OFFSET_COMMIT, 5 if self.is_new else 3, values, self.identity)

    async def _end(self, transfer: Transfer | None, *, is_commit: bool) -> None:
        """End the transaction; `transfer` is None when it is not known which that is, if any."""
        await self._perhaps_hang()
        version = 5 if self.is_new else self.random.choice((3, 4))
        values = end_transaction(self.transactional_id, self.identity, is_commit=is_commit)
        if transfer is not None and is_commit:
            transfer.note_commit_sent()
        is_known = True
        while True:
            answer = await self._try(END_TXN, version, values, self.identity)
            code = None if answer is None else code_of(END_TXN, answer)
            if code == OK:
                break
            is_known &= code is not None and code not in UNCERTAIN and self.identity not in self.world.repeated_ends
            if code is not None and code not in self.retried:
                if transfer is not None and is_commit and is_known:
                    transfer.note_ended(is_commit=False)
                raise Refused(code)
            await self.pause()
        if self.is_new:
            self._become(Identity(answer.producer_id, answer.producer_epoch))
        if transfer is not None and is_commit:
            self.world.bank.note_committed(transfer)
        elif transfer is not None:
            transfer.note_ended(is_commit=False)
        if transfer is not None:
            self.world.counts["committed" if transfer.fate is Fate.COMMITTED else "aborted"] += 1
            self.world.counts[f"{transfer.fate.value} by {'new' if self.is_new else 'old'}"] += 1

    # Sending.

    async def _try(self, api: Api, version: int, values: Values, identity: Identity) -> Any:
        """Send a request once; None when it is not known what became of it."""
        self.world.note_sent(Sent(api, version, values, self.transactional_id, identity, self.is_new))
        answer = await self.put(api, version, values)
        self._is_uncertain |= answer is None
        return answer

    async def _insist(self, api: Api, version: int, values: Values, identity: Identity) -> Any:
        """Send a request until it is answered, one way or the other."""
        while True:
            answer = await self._try(api, version, values, identity)
            code = None if answer is None else code_of(api, answer)
            if code == OK:
                return answer
            if code is not None and code not in self.retried:
                raise Refused(code)
            await self.pause()

    async def _perhaps_hang(self) -> None:
        if not self.world.is_calm and self.random.random() < 0.03 * self._trouble:
            self.world.counts["hang"] += 1
            await asyncio.sleep(self._timeout_s * self.random.uniform(0.3, 1.8))


def _first_code(refused: ExceptionGroup[Refused]) -> int:
    first = refused.exceptions[0]
    return first.code if isinstance(first, Refused) else _first_code(first)
