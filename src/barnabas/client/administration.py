"""What a bus is asked of its cluster: topics, groups and transactions, settings, features, ACLs and quotas.

Each question makes contact with the cluster first. What brings kio is loaded when it is first asked for.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from barnabas.client.contact import Contact
from barnabas.client.group_infos import GroupDetails, GroupInfo, OffsetChange
from barnabas.client.groups import Groups, Offsets, To
from barnabas.client.settings import Settings
from barnabas.client.topics import TopicDetails, TopicInfo, Topics
from barnabas.client.transaction_infos import HANGING_S, HangingTransaction, TransactionDetails, TransactionInfo
from barnabas.core.model import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.acl_admin import AclAdmin
    from barnabas.client.config_admin import ConfigAdmin
    from barnabas.client.feature_admin import FeatureAdmin
    from barnabas.client.quota_admin import QuotaAdmin
    from barnabas.client.share_groups import ShareGroups
    from barnabas.client.transaction_admin import TransactionAdmin
    from barnabas.core.records.unread import Unread

Asked = TypeVar("Asked")


class Administration:
    """The part of a `Bus` that sends and reads no records."""

    def __init__(self, settings: Settings, contact: Contact, timeout: float) -> None:
        self._settings = settings
        self._contact = contact
        self._timeout = timeout
        admin = settings.admin()
        self._known_topics = Topics(admin, timeout)
        self._known_groups = Groups(admin, self._known_topics, self._measure_lag, self._share_groups, timeout)

    @property
    def _topics(self) -> Topics:
        self._contact.make()
        return self._known_topics

    @property
    def _groups(self) -> Groups:
        self._contact.make()
        return self._known_groups

    def _asking(self, kind: Callable[[Settings, float], Asked]) -> Asked:
        self._contact.make()
        return kind(self._settings, self._timeout)

    def _share_groups(self) -> "ShareGroups":
        from barnabas.client.share_groups import ShareGroups  # noqa: PLC0415 - brings kio, for few

        return ShareGroups(self._settings, self._timeout)

    def _measure_lag(self, offsets: Offsets, starts: Offsets, ends: Offsets) -> "Mapping[TopicPartition, Unread]":
        from barnabas.client.lag import measure  # noqa: PLC0415 - brings kio, for few

        return measure(self._settings.reading("committed"), offsets, starts, ends)

    # Topics

    def list_topics(self) -> list[TopicInfo]:
        """All topics, by name."""
        return self._topics.list_all()

    def describe_topic(self, name: str) -> TopicDetails:
        """A topic's partitions with their offsets, and its own settings."""
        return self._topics.describe(name)

    def alter_topic(self, name: str, *, set_: Mapping[str, str] | None = None, unset: Iterable[str] = ()) -> None:
        """Change a topic's settings; those in `unset` go back to the broker's default."""
        self._topics.alter(name, set_=set_, unset=unset)

    def truncate(self, topic: str, partition: int | None = None, *, before: int | None = None) -> dict[int, int]:
        """Delete the records before an offset, all of them if it is None; returns each partition's new start offset."""
        return self._topics.truncate(topic, partition, before)

    # Transactions

    def transactions(
        self, *, states: Iterable[str] = (), longer_than: float | None = None, pattern: str | None = None
    ) -> list[TransactionInfo]:
        """The transactional ids of all coordinators: in one of `states` (such as "Ongoing"), open for `longer_than`
        seconds, matching a regular expression.
        """
        return self._transaction_admin.list_all(tuple(states), longer_than, pattern)

    def describe_transaction(self, transactional_id: str) -> TransactionDetails:
        """A transactional id: its producer, and its open or last transaction."""
        return self._transaction_admin.describe(transactional_id)

    def hanging_transactions(
        self, topic: str | None = None, *, older_than: float = HANGING_S
    ) -> list[HangingTransaction]:
        """Transactions that are open in a partition for longer than `older_than` seconds and that no coordinator will
        end. They block `read_committed` readers; see `abort_hanging_transaction`.
        """
        return self._transaction_admin.find_hanging(topic, older_than)

    def abort_transaction(self, transactional_id: str) -> TransactionDetails:
        """Take over a transactional id: its open transaction is aborted, and its producer is fenced."""
        return self._transaction_admin.abort(transactional_id)

    def abort_hanging_transaction(self, topic: str, partition: int, start_offset: int) -> HangingTransaction:
        """Abort a transaction in a partition that no coordinator will end; refused if one will."""
        return self._transaction_admin.abort_hanging(TopicPartition(topic, partition), start_offset)

    # Groups

    def groups(self) -> list[GroupInfo]:
        """All groups, by name."""
        return self._groups.list_all()

    def describe_group(self, name: str) -> GroupDetails:
        """A group's members, and its lag in each partition, in records and in seconds; of a share group in records."""
        return self._groups.describe(name)

    def reset_group(
        self,
        name: str,
        *,
        to: To | None = None,
        timestamp_ms: int | None = None,
        shift_by: int | None = None,
        topic: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> list[OffsetChange]:
        """Move the committed offsets of a group without members: `to` "earliest", "latest" or an offset, to the first
        record at or after `timestamp_ms`, or by `shift_by` records. Offsets are limited to the range of the log.
        Applies to `topic`, or to all topics the group has committed for. With `dry_run` nothing is changed; the changes
        are only returned.
        """
        topics = [topic] if isinstance(topic, str) else topic
        return self._groups.reset(
            name, to=to, timestamp_ms=timestamp_ms, shift_by=shift_by, topics=topics, dry_run=dry_run
        )

    def delete_group(self, name: str) -> None:
        """Delete a group without members, and its offsets."""
        self._groups.delete(name)

    @property
    def acls(self) -> "AclAdmin":
        """The ACLs of the cluster: `create`, `find`, `delete`."""
        from barnabas.client.acl_admin import AclAdmin  # noqa: PLC0415 - brings kio, for few

        return self._asking(AclAdmin)

    @property
    def quotas(self) -> "QuotaAdmin":
        """The quotas of the cluster's clients: to list, set and remove them."""
        from barnabas.client.quota_admin import QuotaAdmin  # noqa: PLC0415 - brings kio, for few

        return self._asking(QuotaAdmin)

    @property
    def configs(self) -> "ConfigAdmin":
        """The settings of topics, groups, brokers and loggers: `describe` and `alter`."""
        from barnabas.client.config_admin import ConfigAdmin  # noqa: PLC0415 - brings kio, for few

        return self._asking(ConfigAdmin)

    @property
    def features(self) -> "FeatureAdmin":
        """The features of the cluster: `find` and `upgrade`."""
        from barnabas.client.feature_admin import FeatureAdmin  # noqa: PLC0415 - brings kio, for few

        return self._asking(FeatureAdmin)

    @property
    def _transaction_admin(self) -> "TransactionAdmin":
        from barnabas.client.transaction_admin import TransactionAdmin  # noqa: PLC0415 - brings kio, for few

        return self._asking(TransactionAdmin)
