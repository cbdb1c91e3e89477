"""The one line of Spark's long error text that says what failed."""

import re
from typing import Final

_REFUSED: Final = re.compile(r"\bbarnabas(?:\.\w+)+: (.+)")
_RAISED: Final = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|[a-z][A-Z]\w+)): (.+)$", re.MULTILINE)
_THROWN: Final = re.compile(r"^: (?:[\w$]+\.)+([\w$]+)(?:: (.+))?$", re.MULTILINE)
_MISSING: Final = re.compile(r"\bModuleNotFoundError: No module named '([\w.]+)'")
# Those whose name says nothing that their message does not.
_PLAIN: Final = ("SparkException", "AnalysisException", "SQLException", "RuntimeException", "ExecutionException")


def reason_of(text: str) -> str:
    """Our refusal, what a Python part raised, what a Java part threw, or the first line."""
    refusals: list[str] = _REFUSED.findall(text)
    if refusals:
        return refusals[-1]
    missing = _MISSING.search(text)
    if missing is not None:
        return _not_installed(missing[1])
    _, traceback, raised = text.partition("Traceback (most recent call last)")
    if traceback:
        found = _RAISED.findall(raised)
        if found:
            kind, message = found[-1]
            return f"{kind}: {message}" if kind.endswith(("Error", "Exception")) else message
    thrown = _THROWN.search(text)
    if thrown is not None:
        return _in_words(thrown[1], (thrown[2] or "").partition(" SQLSTATE:")[0])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].partition(" SQLSTATE:")[0] if lines else "failed"


def _not_installed(module: str) -> str:
    """What Spark's Python lacks: what it runs for tasks need not be the Python that started the query."""
    if module.partition(".")[0] in ("barnabas", "pyspark_barnabas", "pyspark_barnabas_table"):
        return (
            "the Python of Spark's workers does not have barnabas: install it there, in the Python that PYSPARK_PYTHON "
            "names, or send it along; docs/spark.md says how"
        )
    return f"the Python of Spark's workers has no module {module!r}: install it there, or send it along"


def _in_words(kind: str, message: str) -> str:
    if kind == "SQLException" and message == "No suitable driver":
        return "there is no JDBC driver for this URL: check the URL, and add the JAR with spark.jars"
    if kind == "ClassNotFoundException":
        return f"there is no class {message}: add its JAR with spark.jars"
    return message if message and kind in _PLAIN else f"{kind}: {message}".removesuffix(": ")
