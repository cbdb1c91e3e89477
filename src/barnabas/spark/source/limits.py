"""How much a micro-batch takes, shared out among partitions.

`maxOffsetsPerTrigger` is shared in proportion to what is left in each partition; every partition that has something
gets at least one offset while there are enough, so none starves behind a large one.

`maxBytesPerTrigger` counts bytes of the log, as they are stored and fetched (compressed, if they are). How many
offsets that is, nobody knows before reading them, so it is estimated: the first 64 kB that would be read of each
partition tell how many bytes one offset takes there. A batch may be larger than the limit when records grow behind
that sample; it always has at least one offset, or a record larger than the limit would stop the query for good.

The same numbers give the same shares. What a micro-batch has in the end is in Spark's offset log before it is read, so
a batch that is run again does not depend on any of this.
"""

from collections.abc import Mapping

from barnabas.core.model import TopicPartition


def share_offsets(left: Mapping[TopicPartition, int], max_offsets: int) -> dict[TopicPartition, int]:
    """How many offsets each partition gives, of those it has left: `max_offsets` in all, or all there are."""
    waiting = {key: count for key, count in sorted(left.items()) if count > 0}
    total = sum(waiting.values())
    if total <= max_offsets:
        return waiting
    if max_offsets <= len(waiting):
        longest = sorted(waiting, key=lambda key: (-waiting[key], key))[:max_offsets]
        return dict.fromkeys(sorted(longest), 1)
    # One for each, and the rest in proportion; what rounding leaves over goes to the largest fractions.
    spare, rest = max_offsets - len(waiting), total - len(waiting)
    shares = {key: 1 + (count - 1) * spare // rest for key, count in waiting.items()}
    fractions = {key: (count - 1) * spare % rest for key, count in waiting.items()}
    over = max_offsets - sum(shares.values())
    for key in sorted(waiting, key=lambda key: (-fractions[key], key))[:over]:
        shares[key] += 1
    return shares


def share_bytes(
    left: Mapping[TopicPartition, int], bytes_per_offset: Mapping[TopicPartition, float], max_bytes: int
) -> dict[TopicPartition, int]:
    """How many offsets each partition gives, so that about `max_bytes` are read in all; at least one."""
    waiting = {key: count for key, count in sorted(left.items()) if count > 0}
    sizes = {key: count * bytes_per_offset.get(key, 0.0) for key, count in waiting.items()}
    total = sum(sizes.values())
    if total <= max_bytes or not waiting:
        return waiting
    fewest = 1 if sum(bytes_per_offset.get(key, 0.0) for key in waiting) <= max_bytes else 0
    shares = {key: max(int(count * max_bytes / total), fewest) for key, count in waiting.items()}
    shares = {key: count for key, count in shares.items() if count > 0}
    return shares or {min(waiting, key=lambda key: (-waiting[key], key)): 1}
