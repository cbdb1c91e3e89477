"""kafka-acls, and kafka-configs for users and quotas."""

import re

from tests.conformance.java.conftest import Secured
from tests.conformance.java.tools import ACLS, CONSUMER, PRODUCER, TOPICS


def test_kafka_configs_makes_users_who_log_in_and_removes_them(secured: Secured) -> None:
    admin, whom = secured.admin, ("--entity-type", "users", "--entity-name", "dave")
    both = "SCRAM-SHA-256=[iterations=8192,password=dave-1],SCRAM-SHA-512=[password=dave-2]"
    admin.configs("--alter", *whom, "--add-config", both)
    assert "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096" in admin.configs("--describe", *whom)
    dave = secured.user("SCRAM-SHA-512", "dave", "dave-2")
    assert dave.run(TOPICS, "--list").out.split() == []
    admin.configs("--alter", *whom, "--delete-config", "SCRAM-SHA-512")
    assert "SCRAM-SHA-512" not in admin.configs("--describe", *whom)
    assert "SaslAuthenticationException" in dave.run(TOPICS, "--list", may_fail=True).text
    assert secured.user("SCRAM-SHA-256", "dave", "dave-1").run(TOPICS, "--list").out.split() == []


def test_kafka_configs_sets_shows_and_removes_quotas(secured: Secured) -> None:
    admin = secured.admin
    user, client = (
        ("--entity-type", "users", "--entity-name", "eve"),
        ("--entity-type", "clients", "--entity-name", "app"),
    )
    every_user, every_client = (
        ("--entity-type", "users", "--entity-default"),
        ("--entity-type", "clients", "--entity-default"),
    )
    address, every_address = (
        ("--entity-type", "ips", "--entity-name", "127.0.0.9"),
        ("--entity-type", "ips", "--entity-default"),
    )
    for whom, quota, shown in (
        (
            user,
            "producer_byte_rate=1024,consumer_byte_rate=2048",
            "'eve' are consumer_byte_rate=2048.0, producer_byte_rate=1024.0",
        ),
        ((*user, *client), "request_percentage=50", "'eve', client-id 'app' are request_percentage=50.0"),
        (client, "producer_byte_rate=4096", "client-id 'app' are producer_byte_rate=4096.0"),
        (every_user, "controller_mutation_rate=500", "the default user-principal are controller_mutation_rate=500.0"),
        (every_client, "consumer_byte_rate=9000000", "the default client-id are consumer_byte_rate=9000000.0"),
        (address, "connection_creation_rate=200", "ip '127.0.0.9' are connection_creation_rate=200.0"),
        (every_address, "connection_creation_rate=3000", "the default ip are connection_creation_rate=3000.0"),
    ):
        admin.configs("--alter", *whom, "--add-config", quota)
        assert shown in admin.configs("--describe", *whom)
        admin.configs("--alter", *whom, "--delete-config", re.sub("=[0-9]+", "", quota))
    assert "byte_rate" not in admin.configs("--describe", *user)
    assert admin.configs("--describe", "--entity-type", "ips").strip() == ""


def test_kafka_acls_grants_lists_and_revokes(secured: Secured) -> None:
    admin = secured.admin
    admin.configs(
        "--alter", "--entity-type", "users", "--entity-name", "ann", "--add-config", "SCRAM-SHA-512=[password=ann]"
    )
    ann = secured.user("SCRAM-SHA-512", "ann", "ann")
    admin.run(TOPICS, "--create", "--topic", "invoices")
    refused = ann.run(
        PRODUCER, "--topic", "invoices", "--command-property", "max.block.ms=20000", text="x\n", may_fail=True
    )
    assert "TopicAuthorizationException" in refused.text

    admin.acls("--add", "--allow-principal", "User:ann", "--producer", "--topic", "invoices", "--transactional-id", "t")
    prefixed = ["--consumer", "--topic", "inv", "--group", "bill", "--resource-pattern-type", "prefixed"]
    admin.acls("--add", "--allow-principal", "User:ann", *prefixed)
    admin.acls(
        "--add", "--deny-principal", "User:ann", "--deny-host", "10.0.0.9", "--operation", "Write", "--topic", "*"
    )
    matching = admin.acls("--list", "--topic", "invoices", "--resource-pattern-type", "match")
    for pattern in (
        "name=invoices, patternType=LITERAL",
        "name=inv, patternType=PREFIXED",
        "name=*, patternType=LITERAL",
    ):
        assert pattern in matching
    assert "(principal=User:ann, host=10.0.0.9, operation=WRITE, permissionType=DENY)" in matching
    assert "TRANSACTIONAL_ID, name=t" in admin.acls("--list", "--principal", "User:ann")

    ann.produce("invoices", "one")
    assert ann.consume("invoices", 1, "--group", "billing").lines == ["one"]
    other = ann.run(CONSUMER, "--topic", "invoices", "--group", "other", "--timeout-ms", "60000", may_fail=True)
    assert "GroupAuthorizationException" in other.text
    assert "ClusterAuthorizationException" in ann.run(ACLS, "--list", may_fail=True).text

    admin.acls("--remove", "--force", "--allow-principal", "User:ann", "--producer", "--topic", "invoices")
    admin.acls("--remove", "--force", "--topic", "inv", "--resource-pattern-type", "prefixed")
    left = admin.acls("--list", "--topic", "invoices", "--resource-pattern-type", "match")
    assert "name=*" in left
    assert "name=inv" not in left
