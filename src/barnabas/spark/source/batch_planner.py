"""What a batch reads: partitions and offsets are looked up once, when the query is planned, and stay as they were."""

from barnabas.spark.source.data_loss import report_loss
from barnabas.spark.source.options import ReadOptions
from barnabas.spark.source.planning import OffsetRange, plan
from barnabas.spark.source.ranges import available
from barnabas.spark.source.resolving import check_all_there, open_lookup, resolve_end, resolve_start, select


def plan_batch(options: ReadOptions) -> list[OffsetRange]:
    """The ranges that tasks are to read."""
    lookup = open_lookup(options)
    try:
        keys = select(lookup, options.selection)
        check_all_there(options.selection, keys)
        starts = resolve_start(lookup, keys, options)
        ends = resolve_end(lookup, keys, options)
        wanted = [OffsetRange(key, starts[key], max(ends[key], starts[key])) for key in keys]
        ranges, losses = available(lookup, wanted)
    finally:
        lookup.close()
    report_loss(losses, fail=options.fail_on_data_loss)
    return plan(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
