"""The ready-made jobs, each from end to end on real Spark and a real broker."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.spark.pipelines import Pipeline, PipelineError, jobs
from barnabas.testing.embedded import EmbeddedBroker
from tests.spark.conftest import MakeTopic
from tests.spark.pipelines.conftest import ReadAll, ReadTable, SendJson
from tests.spark.source.streams import wait_until

if TYPE_CHECKING:
    from barnabas.client import Bus

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'barnabas[tables]'")

NOON_MS = 1_700_000_000_000 // 86_400_000 * 86_400_000 + 43_200_000
DAY_MS = 86_400_000


@pytest.fixture
def common(bootstrap: str, tmp_path: Path) -> dict[str, Any]:
    return {"bootstrap": bootstrap, "checkpoint": str(tmp_path / "checkpoint")}


def test_archive_has_each_record_once_by_date_and_goes_on_where_it_was(
    spark: Any,
    common: dict[str, Any],
    make_topic: MakeTopic,
    client: "Bus",
    send_json: SendJson,
    read_table: ReadTable,
    read_all: ReadAll,
    tmp_path: Path,
) -> None:
    topic = make_topic(partitions=2)
    table = tmp_path / "table"
    send_json(topic, [{"id": n, "amount": n / 2} for n in range(20)], timestamp_ms=NOON_MS)
    send_json(topic, ["{broken", {"id": "text"}, {"id": 99, "amount": -1.0}], timestamp_ms=NOON_MS, partition=0)
    archive = jobs.archive(
        topic,
        str(table),
        schema="id long, amount double",
        checks=["amount >= 0"],
        dead_letters=f"{topic}.dead",
        group=f"{topic}-archive",
        **common,
    )

    first = archive.run(spark, once=True)
    send_json(topic, [{"id": n, "amount": 1.0} for n in range(20, 30)], timestamp_ms=NOON_MS + DAY_MS)
    second = archive.run(spark, once=True)

    rows = read_table(table)
    assert sorted(row["id"] for row in rows) == list(range(30))
    assert {row["date"].isoformat() for row in rows} == {"2023-11-14", "2023-11-15"}
    assert (first.state, first.queries["archive"].rows, second.queries["archive"].rows) == ("done", 23, 10)
    dead = {bytes(letter.value or b""): dict(letter.headers) for letter in read_all(f"{topic}.dead")}
    assert set(dead) == {b"{broken", b'{"id": "text"}', b'{"id": 99, "amount": -1.0}'}
    assert dead[b"{broken"]["barnabas.error"] == b"not JSON"
    assert dead[b'{"id": 99, "amount": -1.0}']["barnabas.error"] == b"fails the check: amount >= 0"
    broken = dead[b"{broken"]
    assert (broken["barnabas.topic"], broken["barnabas.partition"]) == (topic.encode(), b"0")
    assert client.get(topic, 0, int(broken["barnabas.offset"] or b"")).value == b"{broken"


def test_archive_of_raw_bytes_into_parquet(
    spark: Any, common: dict[str, Any], topic: str, client: "Bus", tmp_path: Path
) -> None:
    client.send(topic, b"\x00\xff", key=b"k", headers={"a": b"1"}).result(60)

    jobs.archive(topic, str(tmp_path / "table"), table_format="parquet", **common).run(spark, once=True)

    (row,) = spark.read.parquet(str(tmp_path / "table")).collect()
    assert (bytes(row.value), bytes(row.key), row.offset) == (b"\x00\xff", b"k", 0)


def test_archive_of_avro_into_iceberg(
    spark: Any, common: dict[str, Any], topic: str, client: "Bus", read_all: ReadAll, tmp_path: Path
) -> None:
    fastavro = pytest.importorskip("fastavro")
    pytest.importorskip("pyiceberg")
    import io  # noqa: PLC0415

    schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
    }
    for number in range(3):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, {"id": number, "note": None if number else "first"})
        client.send(topic, stream.getvalue()).result(60)
    client.send(topic, b"\xff\xff\xff").result(60)
    archive = jobs.archive(
        topic,
        str(tmp_path / "warehouse"),
        format="avro",
        schema=json.dumps(schema),
        table_format="iceberg",
        iceberg_table="shop.orders",
        dead_letters=f"{topic}.dead",
        **common,
    )

    archive.run(spark, once=True)

    rows = _iceberg_rows(tmp_path / "warehouse", "shop.orders")
    assert sorted((row["id"], row["note"]) for row in rows) == [(0, "first"), (1, None), (2, None)]
    (letter,) = read_all(f"{topic}.dead")
    assert letter.value == b"\xff\xff\xff"
    assert b"not Avro" in (dict(letter.headers)["barnabas.error"] or b"")


def test_replay_of_a_table_writes_each_row_once(
    spark: Any,
    common: dict[str, Any],
    make_topic: MakeTopic,
    read_all: ReadAll,
    tmp_path: Path,
) -> None:
    import pyarrow as pa  # noqa: PLC0415
    from deltalake import write_deltalake  # noqa: PLC0415

    target = make_topic()
    for part in range(3):
        rows = pa.table({"id": [part * 2, part * 2 + 1], "day": ["a", "b"]})
        write_deltalake(str(tmp_path / "table"), rows, mode="append", partition_by=["day"])
    replay = jobs.replay(target, table=str(tmp_path / "table"), key="id", where="id < 5", **common)

    replay.run(spark)
    replay.run(spark)

    records = read_all(target)
    assert sorted(json.loads(record.value or b"")["id"] for record in records) == [0, 1, 2, 3, 4]
    assert all(str(json.loads(record.value or b"")["id"]).encode() == record.key for record in records)


def test_replay_of_a_range_of_time_keeps_times_and_headers(
    spark: Any, common: dict[str, Any], make_topic: MakeTopic, client: "Bus", read_all: ReadAll
) -> None:
    source, target = make_topic(), make_topic()
    for number in range(5):
        client.send(source, str(number), headers={"n": b"x"}, timestamp_ms=NOON_MS + number * 1000).result(60)

    jobs.replay(target, topic=source, start_ms=NOON_MS + 1000, end_ms=NOON_MS + 3000, **common).run(spark)

    records = read_all(target)
    assert [(record.value, record.timestamp_ms) for record in records] == [
        (b"1", NOON_MS + 1000),
        (b"2", NOON_MS + 2000),
    ]
    assert dict(records[0].headers) == {"n": b"x"}


def test_cdc_keeps_the_newest_of_each_key_and_removes_what_was_deleted(
    spark: Any, common: dict[str, Any], topic: str, send_json: SendJson, read_table: ReadTable, tmp_path: Path
) -> None:
    cdc = jobs.cdc(
        topic,
        str(tmp_path / "table"),
        keys=["id"],
        schema="id long, op string, name string",
        delete="op = 'd'",
        columns=["name"],
        **common,
    )
    send_json(topic, [{"id": n % 3, "op": "u", "name": f"v{n}"} for n in range(9)], key="id")
    cdc.run(spark, once=True)
    send_json(topic, [{"id": 0, "op": "d"}, {"id": 1, "op": "u", "name": "last"}, {"op": "u"}], key=None)
    cdc.run(spark, once=True)

    assert sorted((row["id"], row["name"]) for row in read_table(tmp_path / "table")) == [(1, "last"), (2, "v8")]


def test_cdc_by_an_order_of_its_own_does_not_bring_back_what_was_deleted(
    spark: Any, common: dict[str, Any], topic: str, client: "Bus", send_json: SendJson, read_table: ReadTable,
    tmp_path: Path,
) -> None:  # fmt: skip
    def event(key: int, at: int | None, op: str = "u") -> dict[str, Any]:
        return {"id": key, "at": at, "op": op}

    cdc = jobs.cdc(
        topic,
        str(tmp_path / "table"),
        keys=["id"],
        schema="id long, at long, op string",
        order_by=["at"],
        delete="op = 'd'",
        columns=["at"],
        tombstone_order=["unix_millis(_timestamp)"],
        **common,
    )
    send_json(topic, [event(4, 5), event(5, 9)])
    send_json(topic, [event(1, 5), event(2, 5), event(3, 5, "d"), event(3, 4), event(1, 7, "d")])
    cdc.run(spark, once=True)
    for key in "45":
        client.send(topic, None, key=key, timestamp_ms=8).result(60)
    send_json(topic, [event(1, 6), event(1, None), event(2, 4), event(3, 6), event(4, 7)])
    cdc.run(spark, once=True)

    assert sorted((row["id"], row["at"]) for row in read_table(tmp_path / "table")) == [(2, 5), (3, 6), (5, 9)]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_cdc_deletes_by_tombstones_and_takes_new_columns(
    spark: Any, common: dict[str, Any], topic: str, client: "Bus", send_json: SendJson, read_all: ReadAll,
    read_table: ReadTable, tmp_path: Path, table_format: Any,
) -> None:  # fmt: skip
    pytest.importorskip("pyiceberg")
    target = {"table_format": table_format, "iceberg_table": "shop.orders", "dead_letters": f"{topic}.dead"}

    def cdc(schema: str, **how: Any) -> Any:
        table = str(tmp_path / "table")
        return jobs.cdc(topic, table, keys=["id"], schema=schema, checks=["name <> ''"], **how, **target, **common)

    def rows() -> dict[int, tuple[Any, ...]]:
        if table_format == "delta":
            found = read_table(tmp_path / "table")
        else:
            found = _iceberg_rows(tmp_path / "table", "shop.orders")
        assert {"_tombstone", "__delete"}.isdisjoint(found[0])
        return {row["id"]: (row["name"], row.get("size")) for row in found}

    send_json(topic, [{"id": n, "name": f"n{n}"} for n in range(5)])
    for key in ("0", '{"id": 1}', "nobody"):
        client.send(topic, None, key=key).result(60)
    send_json(topic, [{"id": 1, "name": "again"}])
    cdc("id long, name string").run(spark, once=True)
    assert rows() == {1: ("again", None), **{n: (f"n{n}", None) for n in (2, 3, 4)}}
    (letter,) = read_all(f"{topic}.dead")
    assert letter.key == b"nobody"
    assert b"the key of a tombstone has no id" in (dict(letter.headers)["barnabas.error"] or b"")

    client.send(topic, None, key="2").result(60)
    client.send(topic, None, key="77").result(60)
    send_json(topic, [{"id": 3, "name": "new", "size": 5}])
    cdc("id long, name string, size int", evolve=True).run(spark, once=True)
    assert rows() == {1: ("again", None), 3: ("new", 5), 4: ("n4", None)}


def _iceberg_rows(warehouse: Path, table: str) -> list[dict[str, Any]]:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415

    catalog = load_catalog("barnabas", type="sql", uri=f"sqlite:///{warehouse}/catalog.db")
    rows: list[dict[str, Any]] = catalog.load_table(table).scan().to_arrow().to_pylist()
    return rows


def test_mirror_keeps_everything_and_offsets_can_be_translated(
    spark: Any, common: dict[str, Any], make_topic: MakeTopic, client: "Bus"
) -> None:
    from barnabas.spark.pipelines.translation import translate  # noqa: PLC0415

    topic = make_topic(partitions=2)
    for number in range(6):
        partition = number % 2
        client.send(
            topic, str(number), key="k", partition=partition, headers={"h": b"1"}, timestamp_ms=NOON_MS + number
        ).result(60)
    client.truncate(topic, 1, before=1)
    with EmbeddedBroker() as other:
        jobs.mirror(topic, to_bootstrap=other.bootstrap, partitions=2, **common).run(spark, once=True)

        copies = sorted(other.bus.consume(topic, until_end=True), key=lambda each: each.timestamp_ms)
        assert [(copy.value, copy.partition, copy.timestamp_ms - NOON_MS) for copy in copies] == [
            (b"0", 0, 0),
            (b"2", 0, 2),
            (b"3", 1, 3),
            (b"4", 0, 4),
            (b"5", 1, 5),
        ]
        assert copies[0].key == b"k"
        assert dict(copies[0].headers) == {"h": b"1", "mirror.offset": b"0"}
        translated = translate(other.bootstrap, topic, {0: 1, 1: 2})
        assert other.bus.get(topic, 0, translated[0]).value == b"2"
        assert other.bus.get(topic, 1, translated[1]).value == b"5"
        ends = {each.partition: each.end_offset for each in other.bus.describe_topic(topic).partitions}
        assert translate(other.bootstrap, topic, {0: 3, 1: 3}) == ends


def test_aggregate_writes_closed_windows_into_a_topic_and_a_table(
    spark: Any, common: dict[str, Any], make_topic: MakeTopic, send_json: SendJson, read_table: ReadTable,
    read_all: ReadAll, tmp_path: Path,
) -> None:  # fmt: skip
    topic, target = make_topic(), make_topic()
    for second, country, amount in [(0, "at", 1.0), (1, "at", 2.0), (2, "de", 5.0), (60, "at", 100.0)]:
        send_json(topic, [{"country": country, "amount": amount}], timestamp_ms=NOON_MS + second * 1000)
    aggregate = jobs.aggregate(
        topic,
        to_topic=target,
        to_table=str(tmp_path / "table"),
        schema="country string, amount double",
        window="10 seconds",
        delay="5 seconds",
        by=["country"],
        aggregates={"revenue": "sum(amount)", "orders": "count(*)"},
        **common,
    )

    aggregate.run(spark, once=True)

    found = {row["country"]: (row["revenue"], row["orders"]) for row in read_table(tmp_path / "table")}
    assert found == {"at": (3.0, 2), "de": (5.0, 1)}
    sent = {record.key: json.loads(record.value or b"") for record in read_all(target)}
    assert {key: row["revenue"] for key, row in sent.items()} == {b"at": 3.0, b"de": 5.0}
    text = aggregate.to_yaml()
    for other, said in {
        text.replace(
            "sum(amount)", "avg(amount)"
        ): r"'to_t\w+' has the state of sum\(.*and the pipeline now needs avg\(",
        text.replace(
            "10 seconds", "20 seconds"
        ): "has the state of .*, with other windows: one cannot become the other",
        text.replace("name: to_table", "name: renamed"): "was written by a sink named 'to_table' so far",
    }.items():
        with pytest.raises(PipelineError, match=said):
            Pipeline.from_yaml(other).start(spark)
    Pipeline.from_yaml(text.replace("5 seconds", "6 seconds")).validate(spark)


def test_aggregate_in_update_mode_upserts_open_windows(
    spark: Any, common: dict[str, Any], make_topic: MakeTopic, send_json: SendJson, read_table: ReadTable,
    read_all: ReadAll, tmp_path: Path,
) -> None:  # fmt: skip
    topic, target = make_topic(), make_topic()
    aggregate = jobs.aggregate(
        topic,
        to_topic=target,
        to_table=str(tmp_path / "table"),
        schema="amount double",
        window="10 seconds",
        delay="5 seconds",
        aggregates={"revenue": "sum(amount)"},
        mode="update",
        **common,
    )

    for amount in (1.0, 2.0):
        send_json(topic, [{"amount": amount}], timestamp_ms=NOON_MS)
        aggregate.run(spark, once=True)

    assert [row["revenue"] for row in read_table(tmp_path / "table")] == [3.0]
    assert [json.loads(record.value or b"")["revenue"] for record in read_all(target)] == [1.0, 3.0]


def test_dedupe_keeps_the_first_of_each_key_and_counts_what_it_drops(
    spark: Any, common: dict[str, Any], make_topic: MakeTopic, client: "Bus", read_all: ReadAll
) -> None:
    topic, target = make_topic(), make_topic()
    dedupe = jobs.dedupe(topic, target, within="1 hour", **common)
    done = []
    for values, at_ms in ((["a", "b", "b"], NOON_MS), (["a", "a", "c"], NOON_MS + 1000), (["z"], NOON_MS - DAY_MS)):
        for value in values:
            client.send(topic, value, key=value, timestamp_ms=at_ms).result(60)
        done.append(dedupe.run(spark, once=True))

    assert sorted(record.value or b"" for record in read_all(target)) == [b"a", b"b", b"c"]
    counts = [each.queries["dedupe"] for each in done]
    assert [(each.rows_written, each.duplicates, each.late) for each in counts] == [(2, 1, 0), (1, 2, 0), (0, 0, 1)]
    assert done[1].summary().startswith("dedupe 1 row written (2 duplicates dropped) up to batch")


def test_enrich_adds_the_columns_of_a_table_as_it_is_at_each_batch(
    spark: Any, common: dict[str, Any], make_topic: MakeTopic, send_json: SendJson, read_all: ReadAll, tmp_path: Path
) -> None:
    import pyarrow as pa  # noqa: PLC0415
    from deltalake import write_deltalake  # noqa: PLC0415

    topic, target = make_topic(), make_topic()
    table = str(tmp_path / "table")
    write_deltalake(table, pa.table({"customer": ["c1"], "country": ["at"]}))
    send_json(topic, [{"customer": "c1", "amount": 1.0}, {"customer": "c2", "amount": 2.0}], key="customer")
    enrich = jobs.enrich(
        topic,
        table=table,
        on=["customer"],
        schema="customer string, amount double",
        to_topic=target,
        **common,
    )

    def rows() -> list[dict[str, Any]]:
        return sorted((json.loads(record.value or b"") for record in read_all(target)), key=lambda row: row["amount"])

    with enrich.start(spark):
        wait_until(lambda: len(rows()) == 2)
        write_deltalake(table, pa.table({"customer": ["c1", "c2"], "country": ["at", "de"]}), mode="overwrite")
        send_json(topic, [{"customer": "c2", "amount": 3.0}], key="customer")
        wait_until(lambda: len(rows()) == 3)

    assert rows() == [
        {"customer": "c1", "amount": 1.0, "country": "at"},
        {"customer": "c2", "amount": 2.0},
        {"customer": "c2", "amount": 3.0, "country": "de"},
    ]


def test_redrive_takes_dead_letters_back_without_their_headers(
    spark: Any, common: dict[str, Any], make_topic: MakeTopic, client: "Bus", read_all: ReadAll
) -> None:
    topic, dead = make_topic(), make_topic()
    reasons = {"not JSON": "fixed", "fails the check: x": "still bad"}
    for reason, value in reasons.items():
        why = {"barnabas.error": reason.encode(), "barnabas.topic": topic.encode(), "barnabas.offset": b"3"}
        client.send(dead, value, key="k", headers={"own": b"1", **why}).result(60)

    jobs.redrive(dead, where="error = 'not JSON'", **common).run(spark)

    (record,) = read_all(topic)
    assert (record.key, record.value, dict(record.headers)) == (b"k", b"fixed", {"own": b"1"})
