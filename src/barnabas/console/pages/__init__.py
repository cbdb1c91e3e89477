"""The pages of the console, a module for each kind of thing; `register` makes them known to NiceGUI."""

from barnabas.console.pages import (
    access,
    group,
    groups,
    login,
    messages,
    nodes,
    overview,
    tail,
    topic,
    topics,
    transactions,
)


def register() -> None:
    """Make all pages known."""
    for module in (login, overview, topics, topic, messages, tail, groups, group, nodes, transactions, access):
        module.register()
