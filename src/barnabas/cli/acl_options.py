"""The ACLs that the options of `barnabas acl` stand for. The names are those of Kafka's kafka-acls.

`--producer` and `--consumer` are what such a program needs: to write to topics, or to read them as a member of a group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import typer

if TYPE_CHECKING:
    from barnabas.client.acl_infos import AclInfo, AclSelection

_Host = TypeVar("_Host", str, None)

CLUSTER_NAME: Final = "kafka-cluster"
PRODUCER: Final = ("Write", "Describe", "Create")
CONSUMER: Final = ("Read", "Describe")


@dataclass(frozen=True, slots=True)
class AclOptions:
    """What was given, as texts."""

    allow_principals: Sequence[str] = ()
    deny_principals: Sequence[str] = ()
    allow_hosts: Sequence[str] = ()
    deny_hosts: Sequence[str] = ()
    operations: Sequence[str] = ()
    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    user_principals: Sequence[str] = ()
    delegation_tokens: Sequence[str] = ()
    is_cluster: bool = False
    is_producer: bool = False
    is_consumer: bool = False
    is_idempotent: bool = False
    pattern_type: str | None = None

    @property
    def resources(self) -> list[tuple[str, str]]:
        """The resources that are named, by type."""
        found = [("cluster", CLUSTER_NAME)] if self.is_cluster else []
        for kind, names in (
            ("topic", self.topics),
            ("group", self.groups),
            ("transactional-id", self.transactional_ids),
            ("user", self.user_principals),
            ("delegation-token", self.delegation_tokens),
        ):
            found += [(kind, name) for name in names]
        return found

    def new_acls(self) -> list["AclInfo"]:
        """The ACLs to create; a usage error if the options do not say which."""
        from barnabas.client.acl_infos import AclInfo

        pattern = self.pattern_type or "literal"
        if pattern not in ("literal", "prefixed"):
            raise typer.BadParameter("an ACL is literal or prefixed", param_hint="--resource-pattern-type")
        grants = list(self._grants())
        if not grants:
            raise typer.BadParameter("name a resource: --topic, --group, --cluster, --transactional-id, ...")
        people = list(self._people("*"))
        if not people:
            raise typer.BadParameter("name a principal: --allow-principal User:alice, or --deny-principal")
        return [
            AclInfo(kind, name, "literal" if kind == "cluster" else pattern, principal, host, operation, permission)
            for kind, name, operation in dict.fromkeys(grants)
            for principal, host, permission in people
        ]

    def selections(self) -> list["AclSelection"]:
        """The ACLs to list or to delete: all of the resources that are named, narrowed by what else is given."""
        from barnabas.client.acl_infos import AclSelection

        pattern = self.pattern_type or "literal"
        people: list[tuple[str | None, str | None, str]] = [*self._people(None)] or [(None, None, "any")]
        wanted: list[tuple[str, str | None, str]]
        if self.is_producer or self.is_consumer or self.operations:
            wanted = [*dict.fromkeys(self._grants())]
        else:
            wanted = [(kind, name, "Any") for kind, name in self.resources]
        if not wanted:
            wanted = [("any", None, operation) for operation in self.operations or ("Any",)]
            pattern = self.pattern_type or "any"
        return [
            AclSelection(kind, name, pattern, principal, host, operation, permission)
            for kind, name, operation in wanted
            for principal, host, permission in people
        ]

    def _people(self, anywhere: _Host) -> Iterator[tuple[str, str | _Host, str]]:
        """Principals, hosts and permissions; `anywhere` is the host where none is given."""
        for principals, hosts, permission in (
            (self.allow_principals, self.allow_hosts, "allow"),
            (self.deny_principals, self.deny_hosts, "deny"),
        ):
            if hosts and not principals:
                hint = f"--{permission}-host"
                raise typer.BadParameter(f"needs --{permission}-principal, too", param_hint=hint)
            for principal in principals:
                yield from ((_principal(principal), host, permission) for host in hosts or (anywhere,))

    def _grants(self) -> Iterator[tuple[str, str, str]]:
        if self.is_producer or self.is_consumer:
            yield from self._shortcuts()
            return
        for kind, name in self.resources:
            yield from ((kind, name, operation) for operation in self.operations or ("All",))

    def _shortcuts(self) -> Iterator[tuple[str, str, str]]:
        if self.operations:
            raise typer.BadParameter("--producer and --consumer say which operations", param_hint="--operation")
        if not self.topics:
            raise typer.BadParameter("--producer and --consumer need --topic")
        if self.is_consumer and not self.groups:
            raise typer.BadParameter("--consumer needs --group")
        if self.groups and not self.is_consumer:
            raise typer.BadParameter("a producer has no group: give --consumer as well", param_hint="--group")
        for topic in self.topics:
            if self.is_producer:
                yield from (("topic", topic, operation) for operation in PRODUCER)
            if self.is_consumer:
                yield from (("topic", topic, operation) for operation in CONSUMER)
        if self.is_producer:
            for name in self.transactional_ids:
                yield from (("transactional-id", name, operation) for operation in ("Write", "Describe"))
            if self.is_idempotent:
                yield "cluster", CLUSTER_NAME, "IdempotentWrite"
        if self.is_consumer:
            yield from (("group", name, "Read") for name in self.groups)


def _principal(text: str) -> str:
    if ":" not in text:
        raise typer.BadParameter(f"{text!r} is no principal; write it as User:{text}")
    return text
