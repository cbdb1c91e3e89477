"""The error code for a fenced producer: older versions have another one."""

from typing import Final

from barnabas.core.errors import BarnabasError, InvalidProducerEpoch, ProducerFenced

FENCED_FROM: Final = 2  # the version of most APIs of transactions


def code_of(error: BarnabasError, version: int, *, knows_fenced_from: int = FENCED_FROM) -> int:
    """The code of a refusal, in a version of an API that knows PRODUCER_FENCED from some version on."""
    if isinstance(error, ProducerFenced) and version < knows_fenced_from:
        return InvalidProducerEpoch.kafka_code
    return error.kafka_code
