"""Ready-made pipelines. Each function returns the `Pipeline` that its file would describe: `to_yaml()` prints it.

They do nothing themselves: no topic is looked up and no session started before the pipeline runs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from barnabas.core.errors import InvalidRequest
from barnabas.spark.pipelines.parsing import ERROR_HEADERS
from barnabas.spark.pipelines.pipeline import Pipeline
from barnabas.spark.tables.settings import DELETE_COLUMN

Format: TypeAlias = Literal["json", "avro", "raw"]
TableFormat: TypeAlias = Literal["delta", "parquet", "iceberg"]

MIRROR_OFFSET_HEADER: Final = "mirror.offset"
_NO_HEADERS: Final = "cast(array() AS array<struct<key:string,value:binary>>)"


def archive(  # noqa: PLR0913 - one for each choice of the file
    topic: str,
    table: str,
    *,
    format: Format | None = None,  # noqa: A002 - the word of the file
    schema: str | None = None,
    schema_file: str | None = None,
    confluent: bool = False,
    checks: Sequence[str] = (),
    table_format: TableFormat = "delta",
    iceberg_table: str | None = None,
    time: str | None = None,
    evolve: bool = False,
    dead_letters: str | None = None,
    **common: Any,
) -> Pipeline:
    """A topic into a table, partitioned by `date`: that of `time`, a column of the schema, else of the record."""
    parse = _parse(format, schema, schema_file, confluent=confluent, checks=checks)
    moment = time or ("timestamp" if parse is None else "_timestamp")
    steps = [{"name": "dated", "sql": f"SELECT *, date({moment}) AS date FROM records"}]
    sink = {"name": "archive", **_table(table, table_format, iceberg_table or f"archive.{topic.replace('.', '_')}")}
    sink["partition_by"] = ["date"]
    if evolve:
        sink["evolve"] = True
    return _pipeline(f"archive-{topic}", _source(topic, parse, common), steps, [sink], common, dead_letters)


def replay(
    to_topic: str,
    *,
    table: str | None = None,
    table_format: TableFormat = "delta",
    topic: str | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
    where: str | None = None,
    key: str | None = None,
    value: str | None = None,
    **common: Any,
) -> Pipeline:
    """A table, or a range of time of a topic, into a topic: what exists when it first starts, once."""
    if (table is None) == (topic is None):
        raise InvalidRequest("replay needs either a table or a topic")
    if table is not None:
        source = {"name": "records", "type": "table", "format": table_format, "path": table, "stream": True}
    else:
        source = _source(str(topic), None, common)
        if start_ms is not None:
            source["starting_timestamp"] = start_ms
        if end_ms is not None:
            source["ending_timestamp"] = end_ms
    steps = []
    if topic is not None:
        # Not into the partitions they were in: the other topic may have fewer.
        condition = f" WHERE {where}" if where else ""
        steps = [{"name": "chosen", "sql": f"SELECT key, value, headers, timestamp FROM records{condition}"}]
    elif where is not None:
        steps = [{"name": "chosen", "sql": f"SELECT * FROM records WHERE {where}"}]
    sink = {"name": "replay", "type": "topic", "topic": to_topic, **_given(key=key, value=value)}
    return _pipeline(f"replay-to-{to_topic}", source, steps, [sink], {"trigger": "available_now", **common})


def cdc(  # noqa: PLR0913 - one for each choice of the file
    topic: str,
    table: str,
    *,
    keys: Sequence[str],
    schema: str | None = None,
    format: Format | None = None,  # noqa: A002
    schema_file: str | None = None,
    confluent: bool = False,
    checks: Sequence[str] = (),
    order_by: Sequence[str] = (),
    delete: str | None = None,
    columns: Sequence[str] = (),
    remember_deletions: str | None = None,
    tombstone_order: Sequence[str] = (),
    table_format: Literal["delta", "iceberg"] = "delta",
    iceberg_table: str | None = None,
    evolve: bool = False,
    dead_letters: str | None = None,
    **common: Any,
) -> Pipeline:
    """Change events into a table with the newest row of each key.

    The newest is the one with the greatest `order_by` (columns of the schema), else the last in its partition. `delete`
    is a condition on an event, such as "op = 'd'"; for `remember_deletions` an older event that comes later does not
    bring the row back. `columns` are those to keep; default: all of the schema.

    A record with a key and no value deletes its key too. It has no `order_by`: `tombstone_order` says what stands for
    each, such as "_timestamp". Without that, tombstones are passed over if there is `delete` (the event before each was
    the deletion), and are dead letters if not.
    """
    if tombstone_order and len(tombstone_order) != len(order_by):
        raise InvalidRequest("tombstone_order needs as many expressions as order_by has columns")
    parse = _parse(format or "json", schema, schema_file, confluent=confluent, checks=checks)
    assert parse is not None
    # An event without a key can be neither found again nor put anywhere.
    parse["checks"] = [*(f"{key} IS NOT NULL" for key in keys), *checks]
    deletes = [f"coalesce({delete}, false)"] if delete else []
    has_tombstones = not order_by or bool(tombstone_order)
    if has_tombstones or delete:
        parse["tombstone_keys"] = list(keys)
    if has_tombstones:
        deletes.insert(0, "_tombstone")
    order = list(order_by) or ["_offset"]
    hidden = ["_tombstone"] if "tombstone_keys" in parse else []
    shape = _changed_columns(keys, columns, order, hidden, dict(zip(order_by, tombstone_order, strict=False)))
    shape += f", {' OR '.join(deletes)} AS {DELETE_COLUMN}" if deletes else ""
    passed_over = " WHERE NOT _tombstone" if delete and not has_tombstones else ""
    steps = [{"name": "changes", "sql": f"SELECT {shape} FROM records{passed_over}"}]
    merge: dict[str, Any] = {"keys": list(keys), "order_by": order}
    if deletes:
        # In the order of their offsets the events of a key cannot be late: there is nothing to remember, and a key
        # that is in another partition now, where offsets are lower, is not to be taken for one.
        remembered = remember_deletions or (None if order_by else "0 days")
        merge |= {"delete": DELETE_COLUMN, **_given(remember_deletions=remembered)}
    sink = {"name": "table", **_table(table, table_format, iceberg_table or f"cdc.{topic.replace('.', '_')}")}
    sink |= {"merge": merge, **_given(evolve=evolve or None)}
    return _pipeline(f"cdc-{topic}", _source(topic, parse, common), steps, [sink], common, dead_letters)


def _changed_columns(
    keys: Sequence[str],
    columns: Sequence[str],
    order: Sequence[str],
    hidden: Sequence[str],
    of_tombstones: Mapping[str, str],
) -> str:
    """What is kept of an event, as a list for SELECT; of a tombstone, the order is as given."""
    ordered = [f"if(_tombstone, {expression}, {name}) AS {name}" for name, expression in of_tombstones.items()]
    if columns:
        plain = [name for name in dict.fromkeys([*keys, *columns, *order]) if name not in of_tombstones]
        return ", ".join([*plain, *ordered])
    left_out = ["_key", "_topic", "_partition", "_timestamp", "_headers", *hidden, *of_tombstones]
    return ", ".join([f"* EXCEPT ({', '.join(left_out)})", *ordered])


def _table(path: str, table_format: str, iceberg_table: str) -> dict[str, Any]:
    """The keys of a sink that say which table it is."""
    if table_format == "iceberg":
        return {"type": "iceberg", "warehouse": path, "table": iceberg_table}
    return {"type": table_format, "path": path}


def mirror(
    topic: str,
    *,
    to_bootstrap: str,
    to_topic: str | None = None,
    partitions: int | None = None,
    sync_groups: Sequence[str] = (),
    **common: Any,
) -> Pipeline:
    """A topic into one of another cluster, with keys, values, headers, timestamps and partitions as they are.

    Each record says in the header mirror.offset where it was: `translation.translate` finds by it where a group of the
    one cluster goes on in the other. The offsets of `sync_groups` (names, or regular expressions) are kept in step
    there while it runs. `partitions` is how many the other topic gets if it has to be made.
    """
    where = f"struct('{MIRROR_OFFSET_HEADER}' AS key, cast(cast(offset AS string) AS binary) AS value)"
    steps = [
        {
            "name": "mirrored",
            "sql": "SELECT key, value, partition, timestamp, "
            f"array_append(coalesce(headers, {_NO_HEADERS}), {where}) AS headers FROM records",
        }
    ]
    sink = {"name": "mirror", "type": "topic", "topic": to_topic or topic, "bootstrap": to_bootstrap}
    sinks = [{**sink, **_given(partitions=partitions, sync_groups=list(sync_groups) or None)}]
    return _pipeline(f"mirror-{topic}", _source(topic, None, common), steps, sinks, common)


def aggregate(  # noqa: PLR0913 - one for each choice of the file
    topic: str,
    *,
    aggregates: Mapping[str, str],
    window: str,
    time: str | None = None,
    slide: str | None = None,
    delay: str = "0 seconds",
    by: Sequence[str] = (),
    to_topic: str | None = None,
    to_table: str | None = None,
    mode: Literal["append", "update"] = "append",
    format: Format | None = None,  # noqa: A002
    schema: str | None = None,
    schema_file: str | None = None,
    confluent: bool = False,
    checks: Sequence[str] = (),
    dead_letters: str | None = None,
    **common: Any,
) -> Pipeline:
    """Windows of time, by columns: into a topic and a table.

    `append` writes a window once, when `delay` has passed over its end; `update` writes it whenever it changes, into
    the table as an upsert.
    """
    if to_topic is None and to_table is None:
        raise InvalidRequest("aggregate needs a topic or a table to write to")
    parse = _parse(format or "json", schema, schema_file, confluent=confluent, checks=checks)
    moment = time or ("timestamp" if parse is None else "_timestamp")
    source = {**_source(topic, parse, common), "watermark": {"column": moment, "delay": delay}}
    sliding = f", '{slide}'" if slide else ""
    grouped = ", ".join([f"window({moment}, '{window}'{sliding})", *by])
    chosen = ", ".join(
        ["window.start AS window_start", "window.end AS window_end", *by]
        + [f"{expression} AS {name}" for name, expression in aggregates.items()]
    )
    steps = [{"name": "windows", "sql": f"SELECT {chosen} FROM records GROUP BY {grouped}"}]
    sinks: list[dict[str, Any]] = []
    if to_topic is not None:
        key = f"concat_ws('|', {', '.join(by)})" if by else None
        sinks.append({"name": "to_topic", "type": "topic", "topic": to_topic, "mode": mode, **_given(key=key)})
    if to_table is not None:
        keys = ["window_start", *by]
        # A window's newest row is the one written last: its columns only grow older together.
        merge = {"merge": {"keys": keys, "order_by": ["window_end"]}} if mode == "update" else {}
        sinks.append({"name": "to_table", "type": "delta", "path": to_table, "mode": mode, **merge})
    return _pipeline(f"aggregate-{topic}", source, steps, sinks, common, dead_letters)


def dedupe(
    topic: str,
    to_topic: str,
    *,
    by: Sequence[str] = ("key",),
    within: str = "1 hour",
    time: str = "timestamp",
    **common: Any,
) -> Pipeline:
    """A topic without the records that came again `within` a time, by the key or other columns of the record."""
    source = {**_source(topic, None, common), "watermark": {"column": time, "delay": within}}
    step = {
        "name": "once",
        "python": "barnabas.spark.pipelines.steps:drop_duplicates",
        "options": {"columns": ",".join(by)},
    }
    kept = {"name": "kept", "sql": "SELECT key, value, headers, timestamp FROM once"}
    sink = {"name": "dedupe", "type": "topic", "topic": to_topic}
    return _pipeline(f"dedupe-{topic}", source, [step, kept], [sink], common)


def enrich(  # noqa: PLR0913 - one for each choice of the file
    topic: str,
    *,
    table: str,
    on: Sequence[str],
    schema: str | None = None,
    table_format: TableFormat = "delta",
    to_topic: str | None = None,
    to_table: str | None = None,
    columns: Sequence[str] = (),
    inner: bool = False,
    key: str | None = None,
    format: Format | None = None,  # noqa: A002
    schema_file: str | None = None,
    confluent: bool = False,
    checks: Sequence[str] = (),
    dead_letters: str | None = None,
    **common: Any,
) -> Pipeline:
    """Records with the columns of a table beside them, where `on` is equal; without a match they stay (not `inner`)."""
    if to_topic is None and to_table is None:
        raise InvalidRequest("enrich needs a topic or a table to write to")
    parse = _parse(format or "json", schema, schema_file, confluent=confluent, checks=checks)
    lookup = {"name": "lookup", "type": "table", "format": table_format, "path": table}
    joined = f"{'JOIN' if inner else 'LEFT JOIN'} {'lookup'} USING ({', '.join(on)})"
    added = ", ".join(f"lookup.{name}" for name in columns) if columns else f"lookup.* EXCEPT ({', '.join(on)})"
    steps = [{"name": "enriched", "sql": f"SELECT records.*, {added} FROM records {joined}"}]
    sinks: list[dict[str, Any]] = []
    if to_topic is not None:
        plain = "to_json(struct(* EXCEPT (_key, _topic, _partition, _offset, _timestamp, _headers)))"
        sinks.append({"name": "to_topic", "type": "topic", "topic": to_topic, "key": key or "_key", "value": plain})
    if to_table is not None:
        sinks.append({"name": "to_table", "type": "delta", "path": to_table})
    sources = [_source(topic, parse, common), lookup]
    return _pipeline(f"enrich-{topic}", sources, steps, sinks, common, dead_letters)


def redrive(dead_letters: str, *, to_topic: str | None = None, where: str | None = None, **common: Any) -> Pipeline:
    """Dead letters back to the topics they came from (or into one), without the headers that say why they were dead.

    `where` chooses, by `error`, `source_topic`, `source_partition`, `source_offset`, `key`, `value`, `timestamp`.
    """
    names = ", ".join(f"'{name}'" for name in ERROR_HEADERS)
    fields = {"error": 0, "source_topic": 1, "source_partition": 2, "source_offset": 3}
    found = [
        f"cast(filter(headers, h -> h.key = '{ERROR_HEADERS[place]}')[0].value AS string) AS {name}"
        for name, place in fields.items()
    ]
    steps = [
        {"name": "letters", "sql": f"SELECT *, {', '.join(found)} FROM records"},
        {
            "name": "revived",
            "sql": f"SELECT {'' if to_topic else 'source_topic AS topic, '}key, value, "
            f"filter(headers, h -> h.key NOT IN ({names})) AS headers FROM letters "
            f"WHERE {'source_topic IS NOT NULL' if to_topic is None else 'true'}{f' AND ({where})' if where else ''}",
        },
    ]
    sink = {"name": "redrive", "type": "topic", **_given(topic=to_topic)}
    source = _source(dead_letters, None, common)
    return _pipeline(f"redrive-{dead_letters}", source, steps, [sink], {"trigger": "available_now", **common})


def _parse(
    format: Format | None,  # noqa: A002
    schema: str | None,
    schema_file: str | None,
    *,
    confluent: bool,
    checks: Sequence[str],
) -> dict[str, Any] | None:
    has_schema = schema is not None or schema_file is not None
    chosen = format if format is not None and (has_schema or format != "json") else "json" if has_schema else "raw"
    if chosen == "raw" and not checks:
        return None
    parse: dict[str, Any] = {"format": chosen, **_given(schema=schema, schema_file=schema_file)}
    if confluent:
        parse["confluent"] = True
    if checks:
        parse["checks"] = list(checks)
    return parse


def _source(topic: str, parse: dict[str, Any] | None, common: Mapping[str, Any]) -> dict[str, Any]:
    settings = {name: common[name] for name in _OF_SOURCE if common.get(name) is not None}
    return {"name": "records", "type": "topic", "topic": topic, **settings, **_given(parse=parse)}


_OF_SOURCE: Final = ("group", "starting_offsets", "max_per_trigger")
_OF_PIPELINE: Final = ("name", "bootstrap", "checkpoint", "trigger", "spark")


def _pipeline(
    name: str,
    sources: dict[str, Any] | list[dict[str, Any]],
    steps: Sequence[dict[str, Any]],
    sinks: Sequence[dict[str, Any]],
    common: Mapping[str, Any],
    dead_letters: str | None = None,
) -> Pipeline:
    unknown = [each for each in common if each not in (*_OF_SOURCE, *_OF_PIPELINE)]
    if unknown:
        raise TypeError(f"unknown argument {unknown[0]!r}")
    settings = {each: common[each] for each in _OF_PIPELINE if common.get(each) is not None}
    listed = sources if isinstance(sources, list) else [sources]
    if not any(source.get("parse") for source in listed):
        dead_letters = None
    return Pipeline.from_dict(
        {
            "name": name,
            **settings,
            "sources": listed,
            "steps": list(steps),
            "sinks": list(sinks),
            **_given(dead_letters=dead_letters),
        }
    )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
