"""What each of several processes is, and what cannot be."""

import socket
from pathlib import Path

import msgspec
import pytest

from barnabas.cli.processes.plan import check_count, controller_port, plan
from barnabas.core.errors import InvalidConfig
from barnabas.services.settings.broker_config import BrokerConfig


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(tmp_path / "data")


def config_of(data: str, **settings: str) -> BrokerConfig:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return BrokerConfig.from_properties({"log.dirs": data, **given})


def test_the_first_is_the_node_of_the_settings_and_the_only_controller(data: str) -> None:
    first, second, third = plan(config_of(data), 3)

    assert (first.node_id, first.log_dirs, first.quorum.is_controller) == (1, (data,), True)
    assert [str(each) for each in first.client_listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert [str(each) for each in second.listeners] == ["PLAINTEXT://127.0.0.1:9093"]
    assert [str(each) for each in third.listeners] == ["PLAINTEXT://127.0.0.1:9094"]
    assert [second.node_id, third.node_id] == [2, 3]
    assert [second.log_dirs, third.log_dirs] == [(f"{data}/processes/2",), (f"{data}/processes/3",)]
    assert not second.quorum.is_controller
    assert {each.broker_rack for each in (first, second, third)} == {socket.gethostname()}


def test_the_others_find_the_first_at_a_port_that_stays(data: str) -> None:
    config = config_of(data)

    port = controller_port(config)

    for _ in range(2):
        first, second = plan(config, 2)
        assert [(each.host, each.port) for each in first.controller_listeners] == [("127.0.0.1", port)]
        assert second.quorum.controller_quorum_bootstrap_servers == (f"127.0.0.1:{port}",)


def test_settings_are_those_of_all(data: str) -> None:
    config = config_of(
        data,
        broker_id="4",
        broker_rack="b",
        log_retention_ms="77",
        listeners="IN://10.0.0.1:9000,OUT://:9100",
        advertised_listeners="OUT://example.org:9500",
        listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT",
    )

    _, second = plan(config, 2)

    assert (second.node_id, second.broker_rack, second.topic_defaults["retention.ms"]) == (5, "b", "77")
    assert [str(each) for each in second.listeners] == ["IN://10.0.0.1:9001", "OUT://:9101"]
    assert [str(each) for each in second.advertised_listeners] == ["OUT://example.org:9501"]


def test_each_serves_grpc_at_a_port_of_its_own(data: str) -> None:
    first, second, third = plan(config_of(data, grpc_listener="127.0.0.1:9195"), 3)

    assert [each.grpc.address for each in (first, second, third)] == [
        ("127.0.0.1", port) for port in (9195, 9196, 9197)
    ]


def test_each_serves_http_at_a_port_of_its_own(data: str) -> None:
    nodes = plan(config_of(data, http_listener="127.0.0.1:9744"), 3)

    assert [each.http.http_listener for each in nodes] == [f"127.0.0.1:{port}" for port in (9744, 9745, 9746)]
    assert [each.http.http_listener for each in plan(config_of(data, http_listener="off"), 2)] == ["off", "off"]


def test_http_that_nobody_asked_for_is_in_nobodys_way(data: str) -> None:
    config = config_of(data, listeners="PLAINTEXT://127.0.0.1:9643")
    by_default = msgspec.structs.replace(config.http, http_listener="127.0.0.1:9644", is_given_by_default=True)

    nodes = plan(msgspec.structs.replace(config, http=by_default), 2)

    assert [each.http.http_listener for each in nodes] == [None, None]
    with pytest.raises(InvalidConfig, match="port 9643 would be that of both PLAINTEXT of process 1 and HTTP"):
        plan(config_of(data, listeners="PLAINTEXT://127.0.0.1:9643", http_listener="127.0.0.1:9643"), 2)


def test_in_a_cluster_of_several_machines_the_others_know_its_controllers(data: str) -> None:
    config = config_of(
        data,
        listeners="PLAINTEXT://10.0.0.1:9092,CONTROLLER://10.0.0.1:9192",
        controller_listener_names="CONTROLLER",
        controller_quorum_bootstrap_servers="10.0.0.1:9192,10.0.0.2:9192",
    )

    first, second = plan(config, 2)

    assert first.listeners == config.listeners
    assert second.quorum.controller_quorum_bootstrap_servers == ("10.0.0.1:9192", "10.0.0.2:9192")
    assert not second.controller_listeners


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "controller_listener_names": "CONTROLLER"},
            "port 9093 would be that of both CONTROLLER of process 1 and PLAINTEXT of process 2: leave room for 2 "
            "ports in a row at each listener for clients",
        ),
        ({"listeners": "PLAINTEXT://:65535"}, "process 2 would have port 65536, and there is none: take lower ports"),
        (
            {"listeners": "PLAINTEXT://:9092,CONTROLLER://:0", "controller_listener_names": "CONTROLLER"},
            "the listener CONTROLLER://:0 needs a port that the other processes can know",
        ),
        (
            {"process_roles": "broker"},
            "process.roles is broker, but no controller is named: set controller.quorum.bootstrap.servers",
        ),
    ],
)
def test_settings_that_leave_no_room_are_refused(data: str, settings: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        plan(config_of(data, **settings), 2)

    assert str(refusal.value) == said


def test_a_damaged_port_file_is_refused(data: str) -> None:
    controller_port(config_of(data))
    (Path(data) / "processes" / "controller.port").write_text("many\n")

    with pytest.raises(InvalidConfig, match="should hold a port, not 'many': delete it"):
        plan(config_of(data), 2)


@pytest.mark.parametrize("count", [0, 65])
def test_numbers_that_no_machine_has_cores_for_are_refused(data: str, count: int) -> None:
    with pytest.raises(InvalidConfig, match=f"--processes must be between 1 and 64, not {count}"):
        check_count(config_of(data), count)


def test_controllers_alone_are_one_process(data: str) -> None:
    config = config_of(
        data, process_roles="controller", listeners="CONTROLLER://:9093", controller_listener_names="CONTROLLER"
    )

    check_count(config, 1)
    with pytest.raises(InvalidConfig, match="--processes is for brokers"):
        check_count(config, 2)


def test_fewer_processes_than_have_data_are_refused(data: str) -> None:
    (Path(data) / "processes" / "3").mkdir(parents=True)

    check_count(config_of(data), 3)
    with pytest.raises(InvalidConfig) as refusal:
        check_count(config_of(data), 2)

    assert str(refusal.value) == (
        f"{data} is that of 3 processes: start it with --processes 3; to have fewer, have the others take what node 3 "
        f"holds (barnabas cluster decommission 3), stop all, and delete {data}/processes/3"
    )
