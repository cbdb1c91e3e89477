"""``--command-config FILE``: the client file, for every command that connects to a cluster.

One place adds the option to all of them. It only sets the variable that the SDK reads.
"""

import os
from typing import Any

from typer.core import TyperOption

VARIABLE = "BARNABAS_CLIENT_CONFIG"
_BOOTSTRAP_VARIABLE = "BARNABAS_BOOTSTRAP"


def add_client_option(command: Any) -> None:
    """Give the option to each command that has --bootstrap."""
    for each in getattr(command, "commands", {}).values():
        add_client_option(each)
    names = [parameter.name for parameter in command.params]
    if "bootstrap" not in names or "command_config" in names:
        return
    option = TyperOption(
        param_decls=["--command-config"],
        metavar="FILE",
        envvar=VARIABLE,
        expose_value=False,
        is_eager=True,  # before the addresses are looked up, which may be in it
        callback=_use,
        help="The client file: addresses, TLS and login, as a properties file.",
    )
    command.params.append(option)


def _use(_context: Any, _option: Any, file: str | None) -> None:
    if not file:
        return
    os.environ[VARIABLE] = file
    from barnabas.client.config_file import BOOTSTRAP, read_client_file

    addresses = read_client_file(file).get(BOOTSTRAP)
    if addresses:
        os.environ.setdefault(_BOOTSTRAP_VARIABLE, addresses)
