"""A broker in this process, and the fixtures of the pytest plugin."""

import threading
from pathlib import Path

import pytest

import barnabas
from barnabas.core.errors import BarnabasError, InvalidConfig, StorageError
from barnabas.testing.embedded import EmbeddedBroker


def test_a_record_goes_through_and_nothing_is_left_behind() -> None:
    threads = threading.active_count()
    with barnabas.embedded() as broker:
        bus = broker.bus
        place = bus.send("t", "value", key="key").result(60)
        assert bus.get("t", place.partition, place.offset).value == b"value"
        data_dir = Path(broker.data_dir)
        assert (data_dir / "t-0").is_dir()
    assert not data_dir.exists()
    assert threading.active_count() <= threads + 1  # librdkafka's own may take a moment


def test_two_brokers_do_not_see_each_other() -> None:
    with barnabas.embedded() as one, barnabas.embedded() as other:
        assert one.bootstrap != other.bootstrap
        one.bus.create_topic("only-here")
        assert [topic.name for topic in other.bus.list_topics()] == []


def test_a_data_directory_that_is_given_is_kept_and_found_again(tmp_path: Path) -> None:
    for expected in ([b"0"], [b"0", b"1"]):
        with barnabas.embedded(data_dir=str(tmp_path / "data")) as broker:
            broker.bus.send("t", str(len(expected) - 1)).result(60)
            assert [message.value for message in broker.bus.consume("t", until_end=True)] == expected


def test_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    with (
        barnabas.embedded(data_dir=str(tmp_path)),
        pytest.raises(StorageError, match="in use by another node"),
        barnabas.embedded(data_dir=str(tmp_path)),
    ):
        pass


def test_settings_have_kafkas_names() -> None:
    with barnabas.embedded({"num.partitions": "4"}) as broker:
        assert broker.bus.create_topic("t").partition_count == 4


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"num\.partitions"):
        EmbeddedBroker({"num.partition": "4"}).start()


def test_a_broker_that_is_not_running_has_no_address() -> None:
    with pytest.raises(BarnabasError, match="not running"):
        _ = EmbeddedBroker().bootstrap


def test_the_fixture_is_an_empty_broker(bus: barnabas.Bus) -> None:
    assert bus.list_topics() == []
    bus.send("t", b"v").result(60)
    assert next(bus.consume("t")).value == b"v"


def test_and_another_test_has_another(bus: barnabas.Bus) -> None:
    assert bus.list_topics() == []


@pytest.mark.barnabas(num_partitions=3)
def test_the_marker_gives_the_fixture_its_settings(bus: barnabas.Bus) -> None:
    assert bus.create_topic("t").partition_count == 3
