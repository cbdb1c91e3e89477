"""`barnabas topic`: create, list, describe, alter, delete, truncate, repair."""

import dataclasses
import warnings
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli import connection, output, topic_repair
from barnabas.cli.confirming import Yes, confirm
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Topic, complete_topic, parse_pairs

if TYPE_CHECKING:
    from barnabas.client import PartitionInfo, TopicDetails

app = typer.Typer(name="topic", help="Create, list, describe, change and delete topics.", no_args_is_help=True)

app.command()(topic_repair.repair)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="The topic to create.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    partitions: Annotated[int | None, typer.Option(min=1, help="Default: the broker's.")] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Replicas of each partition. Default: the broker's.")
    ] = None,
    replication_factor: Annotated[int | None, typer.Option(min=1, hidden=True, help="Kafka's name for it.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the topic, NAME=VALUE (repeatable).")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Do nothing if the topic exists.")] = False,
) -> None:
    """Create a topic."""
    config = parse_pairs(settings or [], "--set")
    with connection.ask_bus(bootstrap) as bus:
        info = bus.create_topic(
            name,
            partitions=partitions,
            replication_factor=replication_factor if replicas is None else replicas,
            config=config,
            exist_ok=if_not_exists,
        )
    noun = "partition" if info.partition_count == 1 else "partitions"
    output.say(f"topic {info.name}: {info.partition_count} {noun}, replication factor {info.replication_factor}")


@app.command("list")
def list_(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics (__...).")] = False,
    as_json: AsJson = False,
) -> None:
    """List the topics."""
    with connection.ask_bus(bootstrap) as bus:
        topics = [topic for topic in bus.list_topics() if internal or not topic.is_internal]
    rows = [(topic.name, topic.partition_count, topic.replication_factor) for topic in topics]
    output.print_found(topics, ("topic", "partitions", "replication factor"), rows, as_json=as_json)


@app.command()
def describe(name: Topic, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show a topic's partitions, their offsets, and its own settings."""
    with connection.ask_bus(bootstrap) as bus:
        details = bus.describe_topic(name)
    if as_json:
        output.print_json(dataclasses.asdict(details))
    else:
        _print_details(details)


def _print_details(details: "TopicDetails") -> None:
    rows = [(p.partition, p.leader, _ids(p.replicas), _ids(p.in_sync), *_offsets(p)) for p in details.partitions]
    output.print_table(("partition", "leader", "replicas", "in sync", "start offset", "end offset"), rows)
    if details.config:
        output.print_table(("setting", "value"), sorted(details.config.items()))
    for partition in details.partitions:
        if partition.problem is not None:
            output.warn(partition.problem)


def _offsets(partition: "PartitionInfo") -> tuple[int | str, int | str]:
    if partition.problem is not None:
        return "-", "-"
    return partition.start_offset, partition.end_offset


def _ids(nodes: tuple[int, ...]) -> str:
    return ",".join(map(str, nodes))


@app.command()
def alter(
    name: Topic,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the topic, NAME=VALUE (repeatable).")
    ] = None,
    unset: Annotated[list[str] | None, typer.Option(help="A setting to reset to its default (repeatable).")] = None,
    partitions: Annotated[int | None, typer.Option(min=1, help="Increase the number of partitions to this.")] = None,
) -> None:
    """Change a topic's settings, or add partitions (which moves keys to other partitions)."""
    config = parse_pairs(settings or [], "--set")
    if not config and not unset and partitions is None:
        raise typer.BadParameter("nothing to change: give --set, --unset or --partitions")
    with connection.ask_bus(bootstrap) as bus:
        if config or unset:
            bus.alter_topic(name, set_=config, unset=unset or ())
        if partitions is not None:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                bus.add_partitions(name, partitions)
            for warning in caught:
                output.warn(str(warning.message))
    output.say(f"topic {name}: altered")


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(help="The topics to delete.", autocompletion=complete_topic)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    yes: Yes = False,
) -> None:
    """Delete topics and their records."""
    confirm(f"Delete the topics {', '.join(names)} and all their records?", yes=yes)
    with connection.ask_bus(bootstrap) as bus:
        for name in names:
            bus.delete_topic(name)
            output.say(f"topic {name}: deleted")


@app.command()
def truncate(
    name: Topic,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    before: Annotated[
        int | None, typer.Option(min=0, help="Delete the records before this offset; default: all.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Delete the records of a topic, all or up to an offset."""
    what = "all records" if before is None else f"the records before offset {before}"
    confirm(f"Delete {what} of topic {name}?", yes=yes)
    with connection.ask_bus(bootstrap) as bus:
        starts = bus.truncate(name, partition, before=before)
    output.print_table(("partition", "start offset"), sorted(starts.items()))
