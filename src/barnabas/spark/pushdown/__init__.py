"""Conditions on partition, offset and timestamp become offsets that are read: the part of it that is in Spark's JVM.

A rule of Spark's optimizer (`ConditionsIntoReads.java`) that is installed in sessions of ours. It is compiled by
Janino, which Spark brings along for its own code, once for each version of Spark, and kept. `source.conditions` is the
other end.
"""

import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.made_once import made_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("barnabas.spark")

_SOURCE: Final = Path(__file__).with_name("ConditionsIntoReads.java")
_CLASS: Final = "barnabas.spark.ConditionsIntoReads"


def push_down_conditions(spark: "SparkSession", environment: Mapping[str, str] = os.environ) -> bool:
    """Have a classic session read only what conditions on partition, offset and timestamp leave; whether it does.

    Nothing depends on it but speed: where Spark is of another kind than this was written for, it is left alone.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        rules = spark._jsparkSession.experimental()
        installed = list(_as_java(spark, rules.extraOptimizations()))
        if not any(each.getClass().getName() == _CLASS for each in installed):
            _set_rules(spark, rules, [*installed, _new_rule(spark, environment)])
    except (Py4JError, AttributeError, OSError) as problem:
        _log.info("conditions are not pushed down into reads of topics: %s", str(problem).partition("\n")[0])
        return False
    return True


def _new_rule(spark: "SparkSession", environment: Mapping[str, str]) -> Any:
    gateway, jvm = _gateway(spark), _gateway(spark).jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    source = _SOURCE.read_text(encoding="utf-8")
    identity = hashlib.sha256(f"{spark.version}\n{source}".encode()).hexdigest()[:16]

    def compile_to(folder: Path) -> None:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(source)
        for entry in compiler.getBytecodes().entrySet():
            file = folder / (entry.getKey().replace(".", "/") + ".class")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(entry.getValue())

    classes = made_once(f"rules-{identity}", compile_to, environment)
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(classes)).toURI().toURL()
    found = jvm.java.net.URLClassLoader(urls, loader).loadClass(_CLASS)
    constructor = found.getDeclaredConstructor(gateway.new_array(jvm.java.lang.Class, 0))
    return constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))


def _set_rules(spark: "SparkSession", rules: Any, wanted: list[Any]) -> None:
    jvm = _gateway(spark).jvm
    listed = jvm.java.util.ArrayList()
    for each in wanted:
        listed.add(each)
    replace = getattr(rules, "extraOptimizations_$eq")
    replace(jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq())


def _as_java(spark: "SparkSession", values: Any) -> Any:
    return _gateway(spark).jvm.scala.jdk.javaapi.CollectionConverters.asJava(values)


def _gateway(spark: "SparkSession") -> Any:
    return spark.sparkContext._gateway
