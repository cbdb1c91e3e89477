"""One run: a cluster, its clients, faults until the time is over, checks in between and at the end, and the figures."""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from confluent_kafka import KafkaException

from barnabas.core.errors import BarnabasError
from tests.system.chaos.checks import (
    TOPICS,
    check_processed,
    check_records,
    check_replicas,
    check_transfers,
    ends,
    first_few,
    processed_to,
    read,
)
from tests.system.chaos.cluster import NODES, ChaosCluster
from tests.system.chaos.faults import Faults
from tests.system.chaos.groups import PROTOCOLS, Group, Member
from tests.system.chaos.load import RECORDS, Client, Writer
from tests.system.chaos.network import Network
from tests.system.chaos.transfers import ACCOUNTS, PROCESSED, Bank, Outcome, Processor

PATIENCE_S: Final = 90.0
"""How long anything may take that must go on by itself: a session of a broker, the lag of replicas, a timeout of a
transaction, on a machine that does other things as well."""
_POLL_S: Final = 0.1
_ACKED_BETWEEN: Final = 20
_WORTH_TELLING_S: Final = 3.0
_FAULTS_BETWEEN_CHECKS: Final = 8


class Failed(Exception):
    """Something did not hold; what it was is in `Run.bugs`."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run is to do."""

    seed: int
    length_s: float
    kinds: Sequence[str]
    """These faults, once each; empty: whatever is drawn, until the time is over."""
    settings: dict[str, str]
    is_quick: bool


class Run:
    """A run in progress."""

    def __init__(self, cluster: ChaosCluster, plan: Plan) -> None:
        self.cluster = cluster
        self._began = time.monotonic()
        self._bugs: list[str] = []
        at = cluster.bootstrap
        self.writers = [Writer(at, f"writer-{each}") for each in range(2)]
        self.banks = [Bank(at, f"bank-{each}", random.Random(f"{plan.seed} {each}")) for each in range(2)]
        self.processors = [Processor(at, f"processor-{each}") for each in range(2)]
        self.groups = [Group(each) for each in PROTOCOLS]
        self.members = [Member(at, f"{group.name}-{each}", group) for group in self.groups for each in range(2)]
        self.faults = Faults(cluster, random.Random(plan.seed), self.wait_writes, pace=0.2 if plan.is_quick else 1.0)

    @property
    def clients(self) -> Sequence[Client]:
        return [*self.writers, *self.banks, *self.processors, *self.members]

    @property
    def bugs(self) -> list[str]:
        """All that must not happen, so far."""
        of_clients = [bug for each in self.clients for bug in each.bugs]
        return [*self._bugs, *of_clients, *(bug for each in self.groups for bug in each.bugs)]

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} s  {text}", flush=True)

    def wait(self, what: str, is_done: Callable[[], bool]) -> None:
        """Wait for something that must come about."""
        began = time.monotonic()
        deadline = began + PATIENCE_S
        known = len(self.bugs)
        while True:
            try:
                if is_done():
                    if time.monotonic() - began > _WORTH_TELLING_S:
                        self.say(f"  {time.monotonic() - began:.1f} s until {what}")
                    return
            except (KafkaException, BarnabasError) as error:
                what = f"{what.partition(' (')[0]} ({error})"
            if len(self.bugs) > known:
                raise Failed
            if time.monotonic() > deadline:
                self._bugs.append(f"waiting {PATIENCE_S:.0f} s was not enough until {what}")
                raise Failed
            time.sleep(_POLL_S)

    def wait_writes(self) -> None:
        """Return when every writer has gone on."""
        goals = [each.done + _ACKED_BETWEEN for each in self.writers]
        self.wait(
            "writes go on", lambda: all(each.done >= goal for each, goal in zip(self.writers, goals, strict=True))
        )

    def wait_everybody(self) -> None:
        """Return when every kind of client has gone on, and the cluster is whole."""
        self.wait_writes()
        goals = {each.name: each.done + 1 for each in self.banks}
        self.wait("transactions go on", lambda: all(each.done >= goals[each.name] for each in self.banks))
        self._wait_some("processing goes on", self.processors)
        for group in self.groups:
            self._wait_some(f"{group.name} goes on", [each for each in self.members if each.group is group])
        self.wait("all replicas are in sync", lambda: not self.cluster.out_of_sync(list(TOPICS)))
        gone = self.cluster.not_running()
        if gone:
            self._bugs.extend(f"node {each} has ended: {self.cluster.log_tail(each)}" for each in gone)
            raise Failed

    def _wait_some(self, what: str, workers: Sequence[Client]) -> None:
        goal = sum(each.done for each in workers) + 1
        self.wait(what, lambda: sum(each.done for each in workers) >= goal)

    def _has_checked(self, group: Group) -> bool:
        group.check(self.cluster.bootstrap)
        return True

    def check_now(self) -> None:
        """The checks that can be made while clients work."""
        for topic in (ACCOUNTS, PROCESSED):
            self._wait_stable(topic)
        for group in self.groups:
            self.wait(f"the offsets of {group.name} can be read", partial(self._has_checked, group))
        self.note(self.cluster.complaints())

    def _wait_stable(self, topic: str) -> None:
        """Return when all transactions that are open now have ended; those that nobody ends do so by their timeout."""
        marks = ends(self.cluster.bootstrap, topic, is_stable=False)
        self.wait(
            f"the last stable offset of {topic} moves",
            lambda: all(
                stable >= mark
                for stable, mark in zip(ends(self.cluster.bootstrap, topic, is_stable=True), marks, strict=True)
            ),
        )

    def check_all(self, *, is_final: bool) -> None:
        """What clients were told, against all that can be read. The last stable offset has passed what they knew."""
        outcomes = {bank.name: list(bank.outcomes) for bank in self.banks}
        at = self.cluster.bootstrap
        committed = processed_to(
            at
        )  # before: results of what is committed are below the marks, so that they can be read
        self.check_now()
        try:
            acked = {each.name: [list(places) for places in each.acked] for each in self.writers}
            self.note(check_records(read(at, RECORDS), acked))
            self.note(check_transfers(read(at, ACCOUNTS), outcomes, is_final=is_final))
            self.note(check_processed(read(at, PROCESSED), committed, is_final=is_final))
        except (KafkaException, BarnabasError, AssertionError) as error:
            self.note([f"what is there cannot be read: {error!r}"])

    def note(self, found: Iterable[str]) -> None:
        few = first_few(found)
        self._bugs.extend(few)
        if few:
            raise Failed

    def stop_clients(self) -> None:
        for each in self.clients:
            each.begin_stop()
        for each in self.clients:
            each.stop()

    def tell_figures(self) -> None:
        """Print what happened, and all that is wrong."""
        for line in self._figures():
            print(line, flush=True)
        for bug in self.bugs:
            print(f"WRONG: {bug}", flush=True)
        if self.bugs:
            for node_id in NODES:
                for line in self.cluster.log_tail(node_id):
                    print(f"  node {node_id}: {line}", flush=True)

    def _figures(self) -> Iterable[str]:
        """What happened, in numbers."""
        outcomes = Counter(outcome for bank in self.banks for outcome in bank.outcomes)
        yield f"records acknowledged    {sum(each.done for each in self.writers)}"
        yield f"transfers               {', '.join(f'{outcomes[each]} {each.value}' for each in Outcome)}"
        yield f"records worked off      {sum(each.done for each in self.processors)}"
        for group in self.groups:
            commits = sum(each.done for each in self.members if each.group is group)
            yield f"group of {group.protocol:<14} {sum(group.read_to())} records read, {commits} offsets committed"
        for what, those in (("writes", self.writers), ("transfers", self.banks), ("processing", self.processors)):
            slowest = max(those, key=lambda each: each.longest_s)
            until_s = slowest.longest_at - self._began
            yield f"longest pause           {slowest.longest_s:.1f} s of {what}, until {until_s:.1f} s"
        for kind, count in sorted(self.faults.counts.items()):
            yield f"{count:4} x {kind}"
        replaced = sum(each.replaced for each in [*self.banks, *self.processors])
        troubles = sum((each.troubles for each in self.clients), Counter[str]())
        told = ", ".join(f"{name} {count}" for name, count in troubles.most_common())
        yield f"what clients were told  {told or 'nothing'}; transactional producers replaced: {replaced}"


def run(plan: Plan, network: Network | None) -> bool:
    """Run it; whether everything held."""
    cluster = ChaosCluster(plan.settings, network)
    try:
        for topic, partitions in TOPICS.items():
            cluster.bus.create_topic(topic, partitions=partitions)
        this = Run(cluster, plan)
        try:
            _have_faults(this, plan)
        except Failed:
            pass
        finally:
            this.say("stopping the clients")
            this.stop_clients()
        _check_at_the_end(this)  # also where something did not go on: is anything lost?
        this.tell_figures()
        return not this.bugs
    finally:
        cluster.close()


def _have_faults(this: Run, plan: Plan) -> None:
    for each in this.clients:
        each.start()
    this.wait_everybody()
    over_at = time.monotonic() + plan.length_s
    planned = list(plan.kinds)
    while planned or (not plan.kinds and time.monotonic() < over_at):
        kind = planned.pop(0) if planned else this.faults.draw()
        this.say(f"{kind} ...")
        began = time.monotonic()
        whom = this.faults.happen(kind)
        this.say(f"{kind}: {whom}, for {time.monotonic() - began:.1f} s")
        this.wait_everybody()
        this.check_now()
        if sum(this.faults.counts.values()) % _FAULTS_BETWEEN_CHECKS == 0:
            this.check_all(is_final=False)
            this.say("everything that was acknowledged is there")


def _check_at_the_end(this: Run) -> None:
    with contextlib.suppress(Failed):
        this.check_all(is_final=True)
        this.say("everything that was acknowledged is there")
        this.cluster.stop()
        this.note(check_replicas(this.cluster))
        this.note(this.cluster.complaints())
