"""Ranges that are wanted, against what the partitions have: what can be read, and what is lost."""

from collections.abc import Iterable

from barnabas.spark.source.data_loss import Loss
from barnabas.spark.source.lookup import Lookup
from barnabas.spark.source.offsets import EARLIEST, LATEST
from barnabas.spark.source.planning import OffsetRange


def available(lookup: Lookup, wanted: Iterable[OffsetRange]) -> tuple[list[OffsetRange], list[Loss]]:
    """The parts of ranges that are there, and the losses; partitions that do not exist must have been left out."""
    asked = [each for each in wanted if each.count > 0]
    keys = [each.key for each in asked]
    earliest = lookup.offsets(dict.fromkeys(keys, EARLIEST))
    latest = lookup.offsets(dict.fromkeys(keys, LATEST))
    found, losses = [], []
    for each in asked:
        there = OffsetRange(
            each.key,
            min(max(each.start_offset, earliest[each.key]), each.end_offset),
            max(min(each.end_offset, latest[each.key]), each.start_offset),
        )
        bounds = earliest[each.key], latest[each.key]
        if there.start_offset > each.start_offset:
            losses.append(Loss(each.key, each.start_offset, there.start_offset, *bounds))
        if there.end_offset < each.end_offset:
            losses.append(Loss(each.key, there.end_offset, each.end_offset, *bounds))
        found.append(there)
    return found, losses
