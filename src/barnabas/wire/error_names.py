"""The names of Kafka's error codes."""

from barnabas.wire.schemas import ErrorCode


def name_of(code: int) -> str:
    """Kafka's name for an error code, as in UNKNOWN_TOPIC_OR_PARTITION."""
    try:
        return str(ErrorCode(code).name).upper()
    except ValueError:
        return f"ERROR_{code}"
