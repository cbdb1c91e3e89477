"""Decisions about ACLs: create and delete. What an ACL says is checked by the caller; its id is made of that.

An ACL that is there already is created all the same, and one that is gone is deleted: neither changes anything.
"""

from collections.abc import Sequence
from uuid import UUID

from barnabas.core.errors import BarnabasError, PolicyViolation
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import AclRecord, RemoveAclRecord


def create_acls(
    image: Image, acls: Sequence[AclRecord], *, max_count: int
) -> MetadataDecision[list[BarnabasError | None]]:
    """Create ACLs, no more than `max_count` in the cluster; what is refused of them, in their order."""
    new: dict[UUID, AclRecord] = {}
    refusals: list[BarnabasError | None] = []
    for acl in acls:
        refusal = None
        if acl.acl_id not in image.acls and acl.acl_id not in new:
            if len(image.acls) + len(new) < max_count:
                new[acl.acl_id] = acl
            else:
                refusal = PolicyViolation(
                    f"the cluster has {len(image.acls) + len(new)} ACLs, and authorizer.max.acls={max_count}; delete "
                    "some, or use prefixed ones"
                )
        refusals.append(refusal)
    return MetadataDecision(list(new.values()), refusals)


def delete_acls(image: Image, acl_ids: Sequence[UUID]) -> MetadataDecision[list[AclRecord]]:
    """Delete those of these ACLs that exist; returns them."""
    found = [image.acls[acl_id] for acl_id in dict.fromkeys(acl_ids) if acl_id in image.acls]
    return MetadataDecision([RemoveAclRecord(acl.acl_id) for acl in found], found)
