"""The settings of authorization: a part of `BrokerConfig`."""

from typing import Annotated, Final

import msgspec

from barnabas.services.audit import Audited
from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import InvalidSetting, SettingType

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class AccessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of who may do what."""

    authorizer_class_name: Annotated[
        str | None,
        About(
            SettingType.STRING,
            "What decides who may do what: acl, which Kafka calls its StandardAuthorizer, does by the ACLs of the "
            "cluster. Unset: everybody may do everything. Set it to the same on all nodes.",
            choices=("acl", STANDARD_AUTHORIZER),
        ),
    ] = None
    super_users: Annotated[
        str | None,
        About(
            SettingType.STRING,
            "The principals that may do everything, separated by semicolons, as in User:admin;User:ops.",
        ),
    ] = None
    allow_everyone_if_no_acl_found: Annotated[
        bool,
        About(SettingType.BOOLEAN, "Whether everybody may use a resource that no ACL is for."),
    ] = False
    authorizer_max_acls: Annotated[
        int,
        About(
            SettingType.INT,
            "Barnabas only. The most ACLs that the cluster has; the creation of any more is refused.",
            at_least=0,
            at_most=1_000_000,
        ),
    ] = 100_000
    authorizer_audit_log: Annotated[
        str,
        About(
            SettingType.STRING,
            "Barnabas only. What the logger barnabas.audit writes: nothing, denied requests, or all of them. It needs "
            "an authorizer.",
            choices=tuple(each.value for each in Audited),
            is_dynamic=True,
        ),
    ] = Audited.NONE.value

    def __post_init__(self) -> None:
        for name in self.super_user_names:
            if ":" not in name:
                raise InvalidSetting(
                    "super.users",
                    f"super.users has {name!r}, which is no principal; allowed: User: and a name, separated by ;",
                )
        if self.super_users is not None and self.authorizer_class_name is None:
            raise InvalidSetting(
                "super.users", "super.users has no effect without an authorizer; set authorizer.class.name=acl as well"
            )

    @property
    def super_user_names(self) -> frozenset[str]:
        """The principals that may do everything."""
        return frozenset(name.strip() for name in (self.super_users or "").split(";") if name.strip())

    @property
    def audited(self) -> Audited:
        """What the audit log has."""
        return Audited(self.authorizer_audit_log)
