"""Kafka's command line tools, each run in a JVM of its own, and what users of them have in their client files."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.spark import find_java

TIMEOUT_S: Final = 300
LIMIT_MS: Final = "120000"
"""How long a tool waits for messages that come."""
# What a JVM spends on heap and compilation is not worth it for one call.
SMALL: Final = (
    "-Xmx160m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)

TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
ACLS: Final = "org.apache.kafka.tools.AclCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
PRODUCER: Final = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SHARE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
SHARE_GROUPS: Final = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
GROUPS: Final = "org.apache.kafka.tools.GroupsCommand"
QUORUM: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
CLUSTER: Final = "org.apache.kafka.tools.ClusterTool"
ELECTION: Final = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGNMENT: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
VERIFIABLE_PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER: Final = "org.apache.kafka.tools.VerifiableConsumer"
VERIFIABLE_SHARE_CONSUMER: Final = "org.apache.kafka.tools.VerifiableShareConsumer"


@dataclass(frozen=True, slots=True)
class Said:
    """How a tool ended, and all it printed."""

    code: int
    out: str
    errors: str

    @property
    def text(self) -> str:
        return self.out + self.errors

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def cells(self) -> list[list[str]]:
        """The rows of a table, without its head."""
        return [line.split() for line in self.lines if line.strip()][1:]


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools, for the brokers at `bootstrap` and with a client file."""

    jars: Path
    bootstrap: str
    config: Path

    def of(self, config: Path, bootstrap: str = "") -> "Tools":
        """The same for another user."""
        return Tools(self.jars, bootstrap or self.bootstrap, config)

    def run(self, tool: str, *arguments: str, text: str = "", may_fail: bool = False) -> Said:
        """Run a tool to its end."""
        java = str(find_java().path / "bin" / "java")
        whom = ["--bootstrap-server", self.bootstrap, "--command-config", str(self.config)]
        # This one has commands of its own, with options after them.
        ordered = [arguments[0], *whom, *arguments[1:]] if tool == CLUSTER else [*whom, *arguments]
        done = subprocess.run(
            [java, *SMALL, "-cp", f"{self.jars}/*", tool, *ordered],
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert may_fail or done.returncode == 0, done.stdout + done.stderr
        return Said(done.returncode, done.stdout, done.stderr)

    def configs(self, *arguments: str) -> str:
        return self.run(CONFIGS, *arguments).out

    def acls(self, *arguments: str) -> str:
        return self.run(ACLS, *arguments).out

    def produce(self, topic: str, *values: str) -> Said:
        return self.run(PRODUCER, "--topic", topic, text="".join(f"{value}\n" for value in values))

    def consume(self, topic: str, count: int, *options: str) -> Said:
        counted = ["--max-messages", str(count), "--timeout-ms", LIMIT_MS]
        return self.run(CONSUMER, "--topic", topic, "--from-beginning", *counted, *options)

    def share(self, topic: str, count: int, *options: str) -> Said:
        counted = ["--max-messages", str(count), "--timeout-ms", LIMIT_MS]
        return self.run(SHARE_CONSUMER, "--topic", topic, *counted, *options)


def login(mechanism: str, user: str, password: str) -> dict[str, str]:
    """What says in a client file who somebody is."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    who = f'org.apache.kafka.common.security.{module} required username="{user}" password="{password}";'
    return {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": who}


def write_properties(file: Path, settings: dict[str, str]) -> Path:
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    return file
