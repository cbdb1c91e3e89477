"""How a batch is cut into tasks: by what the partitions have when Spark asks, which is once for a frame.

What is wrong with the options is found here, before anything runs. Which offsets are read in the end is looked up by
each task (`slices`): the frame may be used again much later.
"""

from barnabas.spark.source.options import ReadOptions
from barnabas.spark.source.planning import plan
from barnabas.spark.source.ranges import batch_ranges
from barnabas.spark.source.resolving import check_all_there, check_named, open_lookup, select
from barnabas.spark.source.slices import Task, slice_up


def plan_batch(options: ReadOptions) -> list[Task]:
    """The tasks of a batch; there is always one, unless the options name all offsets and there is nothing between."""
    lookup = open_lookup(options)
    try:
        keys = select(lookup, options.selection)
        check_all_there(options.selection, keys)
        for bound in (options.start, options.end):
            check_named(keys, bound)
        ranges = batch_ranges(lookup, keys, options)
        topic_ids = dict(lookup.topic_ids)
    finally:
        lookup.close()
    planned = plan(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
    return slice_up(planned, keys, topic_ids, options)
