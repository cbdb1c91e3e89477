"""The result of a decision: the records to write, and the reply once they are written."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from barnabas.core.metadata.records import MetadataRecord

T_co = TypeVar("T_co", covariant=True)


class MetadataDecision(NamedTuple, Generic[T_co]):
    """Records to append and apply atomically, and the reply once that is done. Without records nothing changes."""

    records: Sequence[MetadataRecord]
    reply: T_co
