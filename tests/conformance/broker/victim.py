"""A member of a group, to be killed: joins, says so, and goes on polling. For test_groups."""

import sys

from tests.conformance.broker.group_members import LibrdkafkaMember, poll_until


def main(bootstrap: str, topic: str, protocol: str) -> None:
    member = LibrdkafkaMember(bootstrap, topic, topic, **{"group.protocol": protocol})
    poll_until([member], lambda: bool(member.assignment()), what="it joined")
    print("joined", flush=True)
    poll_until([member], lambda: False, what="it was killed", wait_s=60)


if __name__ == "__main__":
    main(*sys.argv[1:])
