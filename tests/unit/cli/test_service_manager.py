"""What the service manager is told."""

import socket
from pathlib import Path

import pytest

from barnabas.cli.service_manager import READY, STOPPING, notify


def test_a_state_is_sent_to_the_socket_of_the_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify(READY, "ready on\n127.0.0.1:9092")
        notify(STOPPING)
        assert manager.recv(1000) == b"READY=1\nSTATUS=ready on 127.0.0.1:9092"
        assert manager.recv(1000) == b"STOPPING=1"


def test_a_socket_without_a_file_has_its_name_after_an_at_sign(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = f"barnabas-test-{tmp_path.name}-{id(tmp_path)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        notify(READY)
        assert manager.recv(1000) == b"READY=1"


@pytest.mark.parametrize("path", ["", "relative", "/nobody/is/there"])
def test_without_a_manager_nothing_happens(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    notify(READY)
