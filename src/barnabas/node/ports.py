"""What a node takes from outside: its disk, time, chance and threads."""

from dataclasses import dataclass

from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.descriptors import max_descriptors
from barnabas.runtime.dice import Dice, SystemDice
from barnabas.runtime.disk import OsDisk
from barnabas.runtime.offload import Threads
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage.disk import Disk


@dataclass(frozen=True, slots=True)
class Ports:
    """Those of a machine, or simulated ones."""

    disk: Disk
    clock: Clock
    dice: Dice
    threads: Threads
    max_descriptors: int | None = None  # None where nothing has any

    def close(self) -> None:
        """End the threads, if there are any."""
        self.threads.close()

    @classmethod
    def of_system(cls, config: BrokerConfig) -> "Ports":
        threads = Threads.of_system(reads=config.num_io_threads)
        return cls(OsDisk(), SystemClock(), SystemDice(), threads, max_descriptors())
