"""What a decision comes to: the facts to write down, and the answer once they are."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from barnabas.core.metadata.records import MetadataRecord

T_co = TypeVar("T_co", covariant=True)


class Decision(NamedTuple, Generic[T_co]):
    """Records to append and apply as one, and the reply to give when that is done. No records: nothing changes."""

    records: Sequence[MetadataRecord]
    reply: T_co
