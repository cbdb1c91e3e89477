"""The authorizer of a node, and its audit log: loaded where `authorizer.class.name` is set."""

from barnabas.core.access.rules import Rules
from barnabas.runtime.metadata_log import MetadataLog
from barnabas.services.access import Access
from barnabas.services.acl_authorizer import AclAuthorizer
from barnabas.services.acls import Acls
from barnabas.services.audit import Audit, Audited
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.access_settings import AccessSettings
from barnabas.services.settings.live_config import LiveConfig


def use_acls(access: Access, settings: AccessSettings, metadata: MetadataLog, live: LiveConfig) -> Acls:
    """Have the ACLs in the metadata decide what clients may do; returns how they are changed."""
    rules = Rules(super_users=settings.super_user_names, allows_unlisted=settings.allow_everyone_if_no_acl_found)
    authorizer = AclAuthorizer(rules, metadata)
    metadata.subscribe(authorizer.apply)
    access.use(authorizer)

    def follow(config: BrokerConfig) -> None:
        audited = config.access.audited
        access.audit = None if audited is Audited.NONE else Audit(audited)

    live.subscribe(follow)
    return Acls(metadata, max_count=settings.authorizer_max_acls)
