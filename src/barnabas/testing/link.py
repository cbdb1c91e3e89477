"""One direction of a simulated connection: bytes under way, in order, split and merged and delayed by chance.

A link stands for the buffers of both kernels and the wire between them. It takes so many bytes and no more; then its
sender has to keep them, which is how backpressure comes about.

Invariants: bytes arrive in the order they were sent, each once, or the receiver is told of a reset. The end of the
stream comes after the last byte; a reset overtakes bytes, as it does on a real network.

Must not know: protocols, servers.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Protocol

from barnabas.testing.trace import Trace, digest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """What the network does by itself. Every chance is a probability from 0 to 1."""

    min_delay_s: float = 0.0001
    max_delay_s: float = 0.002
    spike_chance: float = 0.01
    """That a delivery takes up to `max_spike_s`."""
    max_spike_s: float = 0.1
    split_chance: float = 0.25
    """That only a part of the bytes that have arrived is handed over."""
    reset_chance: float = 0.0
    """That a delivery is a reset instead."""
    refuse_chance: float = 0.0
    """That a new connection is refused although there is a listener."""
    connect_timeout_s: float = 127.0
    """How long a connection attempt is unanswered before it fails, as on Linux."""
    link_bytes: int = 256 * 1024
    """How many bytes may be under way in one direction of one connection."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_delay_s <= self.max_delay_s:
            raise ValueError(f"delays from {self.min_delay_s} to {self.max_delay_s} s")
        if self.link_bytes < 1:
            raise ValueError(f"link_bytes is {self.link_bytes}: nothing would ever arrive")


class Wire(Protocol):
    """What a link asks of its network."""

    loop: asyncio.AbstractEventLoop
    random: Random
    config: NetworkConfig
    trace: Trace

    def is_cut(self, source: str, target: str) -> bool: ...

    def loses_bytes(self, source: str, target: str) -> bool: ...

    def slowness_s(self, source: str, target: str) -> float: ...


class LinkSender(Protocol):
    """The end that writes into a link."""

    context: Context
    host_name: str

    def get_write_buffer_size(self) -> int: ...
    def note_room(self) -> None: ...


class LinkReceiver(Protocol):
    """The end that reads from a link."""

    context: Context
    host_name: str
    is_gone: bool

    def is_ready(self) -> bool: ...
    def read(self, size: int, take: Callable[[int], bytes]) -> None: ...
    def read_end(self) -> None: ...
    def lose(self, error: Exception | None) -> None: ...


class Link:
    """The bytes under way from `sender` to `receiver`. `back` is the other direction."""

    def __init__(self, wire: Wire, sender: LinkSender, receiver: LinkReceiver, label: str) -> None:
        self._wire = wire
        self._sender = sender
        self._receiver = receiver
        self._label = label
        self._bytes = bytearray()
        self._is_due = False  # a delivery is on its way
        self._is_ended = False  # the sender sends no more
        self._is_broken = False  # a reset is on its way
        self._has_ended = False  # the end has arrived
        self._is_over = False  # nothing can follow: the reset has arrived, or nobody is there
        self._has_lost = False  # bytes were dropped: only a reset can follow
        self.back: Link = self

    def room(self) -> int:
        """How many more bytes it takes now."""
        return max(0, self._wire.config.link_bytes - len(self._bytes))

    def send(self, data: memoryview) -> int:
        """Take as many bytes as there is room for, and say how many."""
        if self._is_ended or self._is_broken:
            return len(data)  # as after a reset that the sender has not heard of
        taken = min(len(data), self.room())
        self._bytes += data[:taken]
        self.kick()
        return taken

    def end(self) -> None:
        """The stream ends after what was sent."""
        self._is_ended = True
        self.kick()

    def break_off(self) -> None:
        """Send a reset: what has not been read yet never will be."""
        self._is_broken = True
        self._bytes.clear()
        self.kick()

    def abandon(self) -> None:
        """The sender closed abruptly: chance decides whether the stream ends early or by a reset."""
        if self._wire.random.random() < 0.5:
            self.break_off()

    def kick(self) -> None:
        """Something changed: deliver if there is something to deliver and nothing blocks it."""
        if not self._is_due and self._can_deliver():
            self._is_due = True
            delay_s = throw_delay(self._wire, self._sender.host_name, self._receiver.host_name)
            self._wire.loop.call_later(delay_s, self._deliver, context=self._receiver.context)

    def reopen(self) -> None:
        """A partition has healed: go on, or if it has lost bytes, both ends find out."""
        if self._has_lost:
            self.break_off()
            self.back.break_off()
        self.kick()

    def _can_deliver(self) -> bool:
        if self._is_over or self._is_held():
            return False
        if self._is_broken:
            return True
        return self._has_news() and (self._receiver.is_gone or self._receiver.is_ready())

    def _has_news(self) -> bool:
        return bool(self._bytes) or (self._is_ended and not self._has_ended)

    def _is_held(self) -> bool:
        source, target = self._sender.host_name, self._receiver.host_name
        if not self._wire.is_cut(source, target):
            return False
        if self._has_news() and self._wire.loses_bytes(source, target):
            self._has_lost = True
        return True

    def _deliver(self) -> None:
        self._is_due = False
        if not self._can_deliver():
            return  # the reader has paused, or the network was cut: whoever undoes that kicks again
        if self._is_broken or self._throws_reset():
            self._deliver_reset()
        elif self._receiver.is_gone:
            self._discard()
        elif self._bytes:
            self._receiver.read(self._throw_size(), self._take)
        else:
            self._has_ended = True
            self._note("end")
            self._receiver.read_end()
        self.kick()

    def _throws_reset(self) -> bool:
        chance = self._wire.config.reset_chance
        if not chance or self._wire.random.random() >= chance:
            return False
        self.back.break_off()
        return True

    def _deliver_reset(self) -> None:
        self._is_over = True
        self._bytes.clear()
        self._note("reset")
        self._receiver.lose(ConnectionResetError(f"connection reset by peer ({self._label})"))

    def _discard(self) -> None:
        """The receiver is closed: bytes that come too late are answered by a reset."""
        self._is_over = True
        if self._bytes:
            self._bytes.clear()
            self._note("late")
            self.back.break_off()

    def _throw_size(self) -> int:
        random, config = self._wire.random, self._wire.config
        return random.randint(1, len(self._bytes)) if random.random() < config.split_chance else len(self._bytes)

    def _take(self, size: int) -> bytes:
        data = bytes(self._bytes[:size])
        del self._bytes[:size]
        self._note("bytes", len(data), digest_of(data))
        if self._sender.get_write_buffer_size():
            # By the loop, not by a call: the sender's code runs in the sender's context.
            self._wire.loop.call_soon(self._sender.note_room, context=self._sender.context)
        return data

    def _note(self, *event: str | int) -> None:
        self._wire.trace.note(self._wire.loop.time(), "net", self._label, *event)


def throw_delay(wire: Wire, source: str, target: str) -> float:
    """How long the next delivery from one host to another takes."""
    slowness_s = wire.slowness_s(source, target)
    return _throw_delay(wire) + (wire.random.uniform(0, slowness_s) if slowness_s else 0.0)


def _throw_delay(wire: Wire) -> float:
    config = wire.config
    if config.spike_chance and wire.random.random() < config.spike_chance:
        return wire.random.uniform(config.max_delay_s, max(config.max_delay_s, config.max_spike_s))
    return wire.random.uniform(config.min_delay_s, config.max_delay_s)
