"""What the API answers and takes of users, ACLs and quotas; as `models`, of which it is a part."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from barnabas.core.access.scram import DEFAULT_ITERATIONS

Name = Annotated[str, Meta(min_length=1, max_length=1024)]
Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
ResourceType = Literal["topic", "group", "cluster", "transactional_id", "delegation_token", "user"]
PatternType = Literal["literal", "prefixed"]
Operation = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
    "create_tokens",
    "describe_tokens",
    "two_phase_commit",
]
Permission = Literal["allow", "deny"]


class User(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    mechanisms: dict[str, int]
    """By which mechanism with how many iterations it can log in."""


class Users(msgspec.Struct, frozen=True, kw_only=True):
    users: list[User]
    total: int


class NewUser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    password: Annotated[str, Meta(min_length=1, max_length=1024)]
    mechanisms: tuple[Mechanism, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512")
    iterations: int = DEFAULT_ITERATIONS
    validate_only: bool = False


class Acl(msgspec.Struct, frozen=True, kw_only=True):
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class Acls(msgspec.Struct, frozen=True, kw_only=True):
    acls: list[Acl]
    total: int


class NewAcl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: Operation
    pattern_type: PatternType = "literal"
    host: str = "*"
    permission: Permission = "allow"
    validate_only: bool = False


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    entity: dict[str, str | None]
    """Names by type (user, client-id, ip); null: all that have no quota of their own."""
    quotas: dict[str, float]


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    quotas: list[Quota]
    total: int


class AlterQuotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    entity: dict[Literal["user", "client-id", "ip"], str | None]
    quotas: dict[str, float | None]
    """Null removes one."""
    validate_only: bool = False
