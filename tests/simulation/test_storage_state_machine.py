"""The same machine in the hands of hypothesis, which looks for the shortest way to break a log.

The seeded runs of `test_storage_crashes` go farther; this one, when it fails, shows the few operations that matter.
"""

from collections.abc import Callable
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.simulation.storage_machine import RULES, Machine, snapshots_every
from tests.support.examples import examples

SEEDS = st.integers(0, 2**16)


class LifeOfADataDirectory(RuleBasedStateMachine):
    """Operations on up to three logs, each of which may be cut off at any of its disk operations."""

    @initialize(seed=SEEDS)
    def begin(self, seed: int) -> None:
        self.machine = Machine(seed)

    @rule(operation=st.sampled_from(RULES), seed=SEEDS, crash_after=st.none() | st.integers(0, 30))
    def perform(self, operation: Callable[[Machine], None], seed: int, crash_after: int | None) -> None:
        self.machine.random = Random(seed)
        if crash_after is not None:
            self.machine.disk.crash_after(crash_after)
        with snapshots_every(2000):
            self.machine.perform(operation)


TestLifeOfADataDirectory = LifeOfADataDirectory.TestCase
TestLifeOfADataDirectory.settings = settings(max_examples=examples(300), stateful_step_count=40)
