"""The description of the API (OpenAPI 3.1), made of the routes and of the types that they take and give."""

import re
from typing import Any, Final

import msgspec

from barnabas.edge.http.calling import Route
from barnabas.edge.http.problems import Problem

PREFIX: Final = "/api/v1"
_IN_PATH: Final = re.compile(r"\{(\w+)\}")
_REF: Final = "#/components/schemas/{name}"


def describe(routes: tuple[Route, ...], *, version: str) -> dict[str, Any]:
    """The whole description."""
    types = [each for route in routes for each in (route.takes, route.gives) if each is not None]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    by_type = {repr(kind): schema for kind, schema in zip([*types, Problem], schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Barnabas", "version": version, "description": "One node, answering for its cluster."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _IN_PATH.findall(route.path)
    ]
    in_query = [
        {
            "name": each.name,
            "in": "query",
            "description": each.doc,
            "schema": {"type": each.kind, "items": {"type": "string"}} if each.kind == "array" else {"type": each.kind},
        }
        for each in route.params
    ]
    content: dict[str, Any] = {}
    if route.gives is not None:
        content = {"content": {"application/json": {"schema": schemas[repr(route.gives)]}}}
    problem = {"application/json": {"schema": schemas[repr(Problem)]}}
    operation: dict[str, Any] = {
        "operationId": route.handle.__name__,
        "summary": route.doc,
        "parameters": [*in_path, *in_query],
        "responses": {
            str(route.status): {"description": "Done.", **content},
            "default": {"description": "Refused: Kafka's code, its name, and a sentence.", "content": problem},
        },
    }
    if not route.is_open:
        operation["security"] = [{}, {"token": []}]
    if route.takes is not None:
        schema = schemas[repr(route.takes)]
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation
