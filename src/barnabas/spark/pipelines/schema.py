"""The JSON Schema of a pipeline file, for editors: ``python -m barnabas.spark.pipelines.schema > docs/...``."""

import json
from typing import Any

import msgspec

from barnabas.spark.pipelines.model import PipelineModel


def pipeline_schema() -> dict[str, Any]:
    """The schema of `model`, under the name that editors know it by."""
    schema = msgspec.json.schema(PipelineModel)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A Barnabas pipeline", **schema}


def schema_text() -> str:
    return json.dumps(pipeline_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
