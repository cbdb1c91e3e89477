"""Serving with several processes: what `serve --processes` does, from the settings to the exit code."""

from collections.abc import Sequence

from barnabas.cli.console_process import ConsoleProcess
from barnabas.cli.processes.child import ServeNode
from barnabas.cli.processes.plan import check_free, plan
from barnabas.cli.processes.supervisor import Supervisor
from barnabas.cli.service_manager import READY, notify
from barnabas.runtime.dir_lock import DirLock
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.http_settings import OFF, parse_http_listener


def serve_processes(
    config: BrokerConfig, count: int, serve_node: ServeNode, console: ConsoleProcess | None = None
) -> None:
    """Run so many processes until SIGTERM or SIGINT; exits with the code of one that could not start."""

    def begin(nodes: Sequence[BrokerConfig]) -> None:
        _say_ready(nodes)
        if console is not None:  # it says itself when it is ready: nothing here waits, nor has threads
            console.start([parse_http_listener(each.http.http_listener) for each in nodes])

    lock = DirLock(config.log_dirs[0])
    lock.take()  # or it is said whose the directory is, and not that a port of theirs is not free
    try:
        nodes = plan(config, count)
        check_free(nodes)
    finally:
        lock.release()
    try:
        code = Supervisor(nodes, serve_node, begin).run()
    finally:
        if console is not None:
            console.stop()
    if code:
        raise SystemExit(code)


def _say_ready(nodes: Sequence[BrokerConfig]) -> None:
    names = [listener.name for listener in nodes[0].client_listeners]
    addresses = " and ".join(",".join(_address(node, name) for node in nodes) for name in names)
    print(
        f"barnabas nodes {nodes[0].node_id} to {nodes[-1].node_id} are ready on {addresses} "
        f"(data in {nodes[0].log_dirs[0]})",
        flush=True,
    )
    served = [f"http://{each.http.http_listener}" for each in nodes if each.http.http_listener not in (None, OFF)]
    if served:
        print(f"HTTP: {' '.join(served)}", flush=True)
    notify(READY, f"ready on {addresses}")


def _address(node: BrokerConfig, name: str) -> str:
    listener = next(each for each in node.client_listeners if each.name == name)
    return f"{listener.host}:{listener.port}"
