"""Reading settings: which place counts more, the two file formats, and refusals that say where."""

from pathlib import Path

import pytest

from barnabas.config import default_log_dir, load
from barnabas.core.errors import InvalidConfig

HOME = {"HOME": "/home/ada"}


def written(directory: Path, name: str, text: str) -> Path:
    file = directory / name
    file.write_text(text, encoding="utf-8")
    return file


def test_nothing_given_is_the_defaults_and_a_directory_of_the_user() -> None:
    config = load(environ=HOME)
    assert config.log_dirs == ("/home/ada/.local/share/barnabas",)
    assert config.num_partitions == 1
    assert config.given == {}


def test_the_data_directory_follows_the_xdg_specification() -> None:
    assert default_log_dir({**HOME, "XDG_DATA_HOME": "/data/"}) == "/data/barnabas"
    assert default_log_dir({**HOME, "XDG_DATA_HOME": "relative"}) == "/home/ada/.local/share/barnabas"
    assert load(sets=["log.dirs=~/a,/b"], environ=HOME).log_dirs == ("/home/ada/a", "/b")


def test_flags_count_more_than_the_environment_and_that_more_than_the_file(tmp_path: Path) -> None:
    file = written(
        tmp_path, "barnabas.toml", "num.partitions = 2\nnode.id = 2\nfetch.max.bytes = 2048\nbroker.rack = 'a'"
    )
    config = load(
        file,
        sets=["num.partitions=4", "node.id=4"],
        environ={"BARNABAS_NUM_PARTITIONS": "3", "BARNABAS_NODE_ID": "3", "BARNABAS_FETCH_MAX_BYTES": "3072"},
        overrides={"num.partitions": "5"},
    )
    assert (config.num_partitions, config.node_id, config.fetch_max_bytes, config.broker_rack) == (5, 4, 3072, "a")


def test_what_counts_more_displaces_other_names_of_the_same_setting(tmp_path: Path) -> None:
    file = written(tmp_path, "server.properties", "log.retention.ms=1\nlog.dirs=/a\nnode.id=1\n")
    config = load(file, sets=["log.dir=/b", "broker.id=2"], environ={"BARNABAS_LOG_RETENTION_HOURS": "1"})
    assert config.topic_defaults == {"retention.ms": "3600000"}
    assert (config.log_dirs, config.node_id) == (("/b",), 2)


def test_tables_numbers_and_lists_of_a_toml_file_become_names_and_texts(tmp_path: Path) -> None:
    text = """
        auto.create.topics.enable = false
        "max.connections" = 7
        listeners = ["PLAINTEXT://127.0.0.1:0"]
        [log]
        dirs = ["/a", "/b"]
        cleaner.min.cleanable.ratio = 0.25
        [log.retention]
        hours = 2
    """
    config = load(written(tmp_path, "a.toml", text))
    assert (config.auto_create_topics_enable, config.max_connections, config.log_dirs) == (False, 7, ("/a", "/b"))
    assert config.topic_defaults == {"min.cleanable.dirty.ratio": "0.25", "retention.ms": "7200000"}
    assert config.listeners[0].port == 0


def test_a_properties_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    text = (
        "# a comment\n! another\n\n"
        "num.partitions = 3\r\n"
        "node.id:4\n"
        "  broker.rack   \\u0041 b \n"
        "log.dirs=/a,\\\n    /b,\\\n# no comment here\n"
        "cluster\\.id=a\\=b\\\\\n"
        "fetch.max.bytes=1024\\"
    )
    config = load(written(tmp_path, "server.properties", text))
    assert (config.num_partitions, config.node_id, config.broker_rack) == (3, 4, "A b")
    assert config.log_dirs == ("/a", "/b", "# no comment here")
    assert (config.cluster_id, config.fetch_max_bytes) == ("a=b\\", 1024)


def test_a_stock_file_of_kafka_starts(tmp_path: Path) -> None:
    text = """
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093
        inter.broker.listener.name=PLAINTEXT
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
        num.network.threads=3
        num.io.threads=8
        socket.send.buffer.bytes=102400
        socket.request.max.bytes=104857600
        log.dirs=/tmp/kraft-combined-logs
        num.recovery.threads.per.data.dir=2
        offsets.topic.replication.factor=1
        share.coordinator.state.topic.min.isr=1
        transaction.state.log.min.isr=1
        log.retention.hours=168
        log.segment.bytes=1073741824
        log.retention.check.interval.ms=300000
    """
    config = load(written(tmp_path, "server.properties", text))
    assert [str(listener) for listener in config.client_listeners] == ["PLAINTEXT://:9092"]
    assert [str(listener) for listener in config.controller_listeners] == ["CONTROLLER://:9093"]
    assert "num.network.threads" in config.ignored


def test_variables_that_are_no_settings_are_left_alone() -> None:
    variables = {"BARNABAS_BOOTSTRAP": "a:1", "PATH": "/bin"}
    assert load(environ={**HOME, **variables}).given == {}


def test_a_refusal_says_where_the_value_came_from(tmp_path: Path) -> None:
    properties = written(tmp_path, "a.properties", "\nnode.id=1\nnum.partitions=none\n")
    toml = written(tmp_path, "a.toml", "num.partitions = 0")
    for arguments, where in [
        ({"file": properties}, f"{properties} line 3: num.partitions cannot be 'none'"),
        ({"file": toml}, f"{toml}: num.partitions cannot be '0'"),
        ({"environ": {"BARNABAS_NUM_PARTITIONS": "x"}}, "BARNABAS_NUM_PARTITIONS in the environment: num.partitions"),
        ({"sets": ["num.partitions=x"]}, "--set num.partitions: num.partitions cannot be 'x'"),
        ({"sets": ["num.partition=1"]}, "--set num.partition: unknown broker setting 'num.partition'; did you mean"),
        ({"overrides": {"num.partitions": "x"}}, "a flag: num.partitions cannot be 'x'"),
        ({"sets": ["log.roll.hours=0"]}, "--set log.roll.hours: log.roll.hours cannot be '0'"),
        ({"environ": {"BARNABAS_BROKER_ID": "x"}}, "BARNABAS_BROKER_ID in the environment: node.id cannot be 'x'"),
        ({"environ": {"BARNABAS_NUM_PARTITION": "1"}}, "BARNABAS_NUM_PARTITION in the environment: unknown broker"),
    ]:
        with pytest.raises(InvalidConfig) as refusal:
            load(**arguments)  # type: ignore[arg-type]
        assert str(refusal.value).startswith(where)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.toml", "num.partitions = ", "is not valid TOML"),
        ("a.toml", "max.connections = 1\nmax.connections.per.ip = 2", "in quotes"),
        ("a.toml", "node.id = 2020-01-01", "must be a text, a number"),
        ("a.toml", "log.dirs = [['/a']]", "must be a text, a number"),
        ("a.properties", "=1", "line 1 has no name"),
        ("a.properties", "broker.rack=\\u12", "four hexadecimal digits"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        load(written(tmp_path, name, text))


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot read the configuration file"):
        load(tmp_path / "missing.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidConfig, match="not UTF-8"):
        load(tmp_path / "binary.toml")


@pytest.mark.parametrize("flag", ["num.partitions", "=3", ""])
def test_a_flag_without_name_and_value_is_refused(flag: str) -> None:
    with pytest.raises(InvalidConfig, match="--set takes name=value"):
        load(sets=[flag])


def test_a_refused_value_of_a_flag_of_its_own_names_that_flag() -> None:
    with pytest.raises(InvalidConfig, match=r"^--node-id: node\.id cannot be '-3'"):
        load(overrides={"node.id": "-3"})
