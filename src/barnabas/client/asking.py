"""Calls to librdkafka's admin client: each has a deadline, and a failure is a refusal that names the call."""

from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from barnabas.client.errors import translate

_GRACE_S: Final = 5.0  # librdkafka keeps the deadline; this is for when it does not
_T = TypeVar("_T")


class Asking:
    """Makes the calls, with one default timeout."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def ask(self, call: Any, *arguments: Any, doing: str, timeout_s: float | None = None, **more: Any) -> Any:
        """The result of a call of the admin client, which returns one future, or one for each item requested."""
        try:
            return call(*arguments, request_timeout=timeout_s or self._timeout_s, **more)
        except KafkaException as error:
            raise translate(error, doing) from None
        except (TypeError, ValueError) as error:
            raise translate(KafkaException(str(error)), doing) from None

    def wait(self, answer: "Future[_T]", doing: str, timeout_s: float | None = None) -> _T:
        try:
            return answer.result((timeout_s or self._timeout_s) + _GRACE_S)
        except KafkaException as error:
            raise translate(error, doing) from None
        except TimeoutError:
            raise translate(KafkaError(KafkaError._TIMED_OUT), doing) from None
