"""The refusal that an error code stands for: what another node, or a broker, says by a number."""

from typing import Final

from barnabas.core import errors
from barnabas.core.errors import BarnabasError


class Refused(BarnabasError):
    """A refusal that has no class of its own; `code` is Kafka's (negative: librdkafka's own)."""

    def __init__(self, message: str, code: int = -1) -> None:
        super().__init__(message)
        self.code = code


# The class for a code is the one that defines it; of several that do, the one named here.
_BY_CODE: Final[dict[int, type[BarnabasError]]] = {errors.RequestTimedOut.kafka_code: errors.RequestTimedOut}
for _class in list(vars(errors).values()):
    if isinstance(_class, type) and issubclass(_class, BarnabasError) and "kafka_code" in vars(_class):
        _BY_CODE.setdefault(_class.kafka_code, _class)
del _BY_CODE[BarnabasError.kafka_code]


def refusal_of(code: int, message: str) -> BarnabasError:
    """The refusal for an error code."""
    known = _BY_CODE.get(code)
    return known(message) if known else Refused(message, code)
