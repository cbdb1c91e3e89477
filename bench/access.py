"""Authorization with 10,000 ACLs: what one question costs, and what a produce request costs more than without.

Questions are timed in this process, the best of several rounds. Of requests the broker's processor time counts: a
client that waits for its turn does not change it.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

from barnabas.client.acl_admin import AclAdmin
from barnabas.client.acl_infos import AclInfo
from barnabas.client.settings import Settings
from barnabas.core.access.acls import Acl, PatternType, Permission
from barnabas.core.access.resources import Operation, Resource, ResourceType, topic
from barnabas.core.access.rules import Rules
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import AclRecord
from barnabas.core.records.record import encode_batch
from barnabas.services.acl_authorizer import AclAuthorizer
from barnabas.services.session import Principal, Session
from bench.logs import make_records
from bench.measure import Row, scratch_directory
from bench.raw_client import RawClient
from bench.served import Served, served

ACLS = 10_000
ROUNDS = 5
IN_FLIGHT = 64
TOPIC = "requests"


def rows(*, quick: bool) -> Iterator[Row]:
    acls = list(_acls())
    authorizer, session = _authorizer(acls), _session()
    wanted = [topic(f"topic-{number}") for number in range(100)]
    kept = _best(lambda: _ask(authorizer, session, wanted), len(wanted))
    yield Row(f"a question, {ACLS:,} ACLs, answered before", f"{kept * 1e9:,.0f} ns")
    names = [topic(f"orders-{number % 10}-{number}") for number in range(5_000)]
    fresh = min(_first_time(acls, names) for _ in range(ROUNDS))
    yield Row(f"a question, {ACLS:,} ACLs, for the first time", f"{fresh * 1e6:,.1f} us")
    took = _best(lambda: _authorizer(acls), len(acls))
    yield Row(f"taking in {ACLS:,} ACLs, each", f"{took * 1e6:,.1f} us")
    yield _produce_row(acls, count=5_000 if quick else 100_000)


def _acls() -> Iterator[Acl]:
    """Half of them for topics, half for prefixes of ten lengths, for a hundred users."""
    for number in range(ACLS):
        is_prefix = number % 2
        name = "orders-"[: number % 7 + 1] + f"{number % 10}-" * (number % 3) if is_prefix else f"topic-{number // 2}"
        pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
        yield Acl(
            ResourceType.TOPIC, name, pattern, f"User:u{number % 100}", f"10.0.{number % 250}.{number // 250}",
            Operation.WRITE, Permission.ALLOW if number % 10 else Permission.DENY,
        )  # fmt: skip


class _Source:
    """Has an image with these ACLs."""

    def __init__(self, acls: list[Acl]) -> None:
        self.image = Image(
            acls={UUID(int=number): AclRecord(UUID(int=number), *acl) for number, acl in enumerate(acls)}
        )


def _authorizer(acls: list[Acl]) -> AclAuthorizer:
    return AclAuthorizer(Rules(), _Source(acls))


def _session() -> Session:
    session = Session(listener="PLAINTEXT", peer=("10.0.0.7", 1), local=("10.0.0.1", 9092))
    session.principal = Principal("User", "u7")
    return session


def _ask(authorizer: AclAuthorizer, session: Session, wanted: list[Resource]) -> None:
    for each in wanted:
        authorizer.allows(session, Operation.WRITE, each)


def _first_time(acls: list[Acl], wanted: list[Resource]) -> float:
    authorizer, session = _authorizer(acls), _session()
    start = time.process_time()
    _ask(authorizer, session, wanted)
    return (time.process_time() - start) / len(wanted)


def _best(work: Callable[[], object], count: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        repeats = 0
        while time.process_time() - start < 0.05:
            work()
            repeats += 1
        best = min(best, (time.process_time() - start) / repeats / count)
    return best


def _produce_row(acls: list[Acl], *, count: int) -> Row:
    """Processor time of requests of one record, without an authorizer and with one, in turns."""
    with scratch_directory() as scratch:
        _prepare(scratch / "authorized", acls)
        with (
            served("log.flush.policy=os") as plain,
            served(
                "log.flush.policy=os",
                "authorizer.class.name=acl",
                "super.users=User:root",
                directory=scratch / "authorized",
            ) as authorized,
        ):
            clients = {broker.pid: RawClient(broker.bootstrap) for broker in (plain, authorized)}
            clients[plain.pid].create_topic(TOPIC)
            batch = bytes(encode_batch(make_records(1)))

            def cost(broker: Served) -> float:
                before = broker.processor_s()
                clients[broker.pid].produce_pipelined(TOPIC, batch, count=count, in_flight=IN_FLIGHT)
                return (broker.processor_s() - before) / count

            pairs = [(cost(plain), cost(authorized)) for _ in range(ROUNDS)]
            for client in clients.values():
                client.close()
    without, with_ = (min(each) for each in zip(*pairs, strict=True))
    return Row(
        f"produce of one record, {ACLS:,} ACLs, processor time",
        f"{with_ * 1e6:,.2f} us",
        f"without an authorizer {without * 1e6:,.2f} us",
        without / with_,
    )


def _prepare(directory: Path, acls: list[Acl]) -> None:
    """A data directory with ACLs, and with one by which the client, who is anonymous, may write."""
    with served("authorizer.class.name=acl", "super.users=User:ANONYMOUS", directory=directory) as broker:
        client = RawClient(broker.bootstrap)
        client.create_topic(TOPIC)
        client.close()
        names = {Permission.ALLOW: "allow", Permission.DENY: "deny"}
        patterns = {PatternType.LITERAL: "literal", PatternType.PREFIXED: "prefixed"}
        infos = [
            AclInfo(
                "topic", acl.resource_name, patterns[PatternType(acl.pattern_type)], acl.principal, acl.host, "Write",
                names[Permission(acl.permission)],
            )
            for acl in acls
        ]  # fmt: skip
        infos.append(AclInfo("topic", TOPIC, "literal", "User:ANONYMOUS", "*", "Write", "allow"))
        AclAdmin(Settings(broker.bootstrap)).create(infos)
