"""ACLs: creating, listing and deleting them. Who may do so is for the edges to ask (`services.access`).

Filters are applied in turns, outside of the commit: so an ACL whose creation was answered is found, and one that is
being created meanwhile may be or not. What was found is deleted by its id, if it is still there then.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final
from uuid import UUID

from barnabas.core.access.acls import Acl, AclFilter
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.metadata.acls import create_acls, delete_acls
from barnabas.core.metadata.records import AclRecord
from barnabas.runtime.cluster_metadata import ClusterMetadata
from barnabas.runtime.turns import in_turns, pieces

PER_COMMIT: Final = 200
COMPARED_PER_TURN: Final = 500
MAX_SEARCHES: Final = 1000
"""The most filters of one request that select more than one ACL can: each is compared with all there are."""
MAX_FOUND: Final = 100_000
"""The most ACLs in one answer, in which an ACL is once for each filter that selects it."""

Deleted = Sequence[AclRecord] | BarnabasError


class Acls:
    """The verbs on ACLs."""

    def __init__(self, metadata: ClusterMetadata, *, max_count: int) -> None:
        self._metadata = metadata
        self._max_count = max_count

    async def create(self, acls: Sequence[Acl]) -> list[BarnabasError | None]:
        """Create ACLs; the refusal of each, or None, in their order."""
        refusals: list[BarnabasError | None] = []
        valid: list[AclRecord] = []
        async for acl in in_turns(acls):
            try:
                acl.check()
            except BarnabasError as refusal:
                refusals.append(refusal.with_traceback(None))
            else:
                valid.append(AclRecord(acl.acl_id, *acl))
                refusals.append(None)
        decided: list[BarnabasError | None] = []
        async for some in pieces(valid, per_turn=PER_COMMIT):
            try:
                decided += await self._metadata.commit(partial(create_acls, acls=some, max_count=self._max_count))
            except BarnabasError as refusal:  # what was committed before stays
                decided += [refusal] * (len(valid) - len(decided))
                break
        rest = iter(decided)
        return [next(rest) if refusal is None else refusal for refusal in refusals]

    async def find(self, wanted: AclFilter) -> list[AclRecord]:
        """The ACLs that a filter selects, in the order of their resources."""
        wanted.check()
        return sorted(await self._matching(wanted), key=_order)

    async def delete(self, filters: Sequence[AclFilter]) -> list[Deleted]:
        """Delete the ACLs that filters select; what each has deleted, or why it is refused, in their order."""
        found: list[list[UUID] | BarnabasError] = []
        total = searches = 0
        async for wanted in in_turns(filters):
            try:
                wanted.check()
                searches += wanted.single is None
                if searches > MAX_SEARCHES:
                    raise InvalidRequest(
                        f"more than {MAX_SEARCHES} filters that select more than one ACL; use several requests"
                    )
                matching = await self._matching(wanted)
            except BarnabasError as refusal:
                found.append(refusal.with_traceback(None))
                continue
            total += len(matching)
            if total > MAX_FOUND:
                too_many = InvalidRequest(f"one request cannot delete more than {MAX_FOUND} ACLs; use several")
                return [too_many] * len(filters)
            found.append([acl.acl_id for acl in matching])
        return await self._delete(found)

    async def _delete(self, found: Sequence[list[UUID] | BarnabasError]) -> list[Deleted]:
        ids = list(dict.fromkeys(acl_id for each in found if not isinstance(each, BarnabasError) for acl_id in each))
        deleted: dict[UUID, AclRecord] = {}
        failure: BarnabasError | None = None
        async for some in pieces(ids, per_turn=PER_COMMIT):
            try:
                gone = await self._metadata.commit(partial(delete_acls, acl_ids=some))
            except BarnabasError as refusal:
                failure = refusal
                break
            deleted.update((acl.acl_id, acl) for acl in gone)
        answers: list[Deleted] = []
        async for each in in_turns(found):
            if isinstance(each, BarnabasError):
                answers.append(each)
            elif failure is not None and not all(acl_id in deleted for acl_id in each):
                answers.append(failure)
            else:
                answers.append([deleted[acl_id] for acl_id in each if acl_id in deleted])
        return answers

    async def _matching(self, wanted: AclFilter) -> list[AclRecord]:
        single = wanted.single
        if single is not None:
            acl = self._metadata.image.acls.get(single.acl_id)
            return [] if acl is None else [acl]
        acls = list(self._metadata.image.acls.values())
        return [acl async for acl in in_turns(acls, per_turn=COMPARED_PER_TURN) if wanted.matches(acl)]


def _order(acl: AclRecord) -> tuple[int, str, int]:
    return acl.resource_type, acl.resource_name, acl.pattern_type
