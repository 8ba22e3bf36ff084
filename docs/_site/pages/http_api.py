"""The admin API: an OpenAPI document from the routes' declarations, and the same as a page."""

import ast
import inspect
import itertools
import json
from collections.abc import Iterator
from typing import Any, cast

from docs._site.pages.markdown import head, page, table
from quorum_node import api_error_code
from quorum_node.api_error_code import ErrorCode
from quorum_node.security.rights.http_table import ROUTES
from quorum_node.server.admin.app import create_app
from quorum_node.server.admin.node_view import NodeView

_ABOUT = """Every node serves this API on its admin listener, and the document itself at `/openapi.json`. [The document](http-api.json) can be read by
any tool for OpenAPI. `quorumctl` and the operator use nothing else."""
_ERRORS = """Every answer that is not 2xx has the body [ErrorBody](#errorbody) with one of the [codes](#error-codes), and names the leader if one is known. `partition` chooses the quorum partition
where a node hosts several. Who may call a route is in [the table of rights](api-permissions.md)."""


def _openapi() -> dict[str, Any]:
    # The routes are declared without a node: nothing is called.
    return create_app(cast(NodeView, None)).openapi()


def document() -> str:
    """docs/reference/http-api.json."""
    return json.dumps(_openapi(), indent=1, sort_keys=True) + "\n"


def markdown() -> str:
    """docs/reference/http-api.md."""
    found = _openapi()
    lines = head("HTTP API", "`node/quorum_node/server/admin`", _ABOUT, _ERRORS)
    operations = {
        (method.upper(), path): operation
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
    }
    rows = [
        (f"`{method} {path}`", operation.get("description", ""))
        for (method, path), operation in operations.items()
    ]
    lines += table(("route", "what it does"), rows)
    for (method, path), operation in operations.items():
        lines += _operation(method, path, operation)
    lines += ["## Error codes", "", "An answer with status 409 means that nothing was changed.", ""]
    lines += table(("code", "status and meaning"), _codes())
    lines += ["## Bodies", ""]
    for name, schema in sorted(found["components"]["schemas"].items()):
        if "Validation" not in name:
            lines += _schema(name, schema)
    return page(lines)


def _codes() -> Iterator[tuple[str, str]]:
    """Each error code with the text below it in the enumeration, which can be read only from the source."""
    (declared,) = (
        each
        for each in ast.parse(inspect.getsource(api_error_code)).body
        if isinstance(each, ast.ClassDef) and each.name == ErrorCode.__name__
    )
    for assigned, text in itertools.pairwise(declared.body):
        if isinstance(assigned, ast.Assign) and isinstance(text, ast.Expr):
            assert isinstance(text.value, ast.Constant)
            yield f"`{ast.literal_eval(assigned.value)}`", " ".join(str(text.value.value).split())


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"## {method} {path}"
    yield ""
    yield operation.get("description", "")
    yield ""
    rule = ROUTES[method, path]
    needs = " or ".join(need.text for need in rule.needs)
    if needs:
        yield f"Needs {needs}."
        yield ""
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    if body:
        yield f"Body: {_type(body['schema'])}."
        yield ""
    parameters = operation.get("parameters", [])
    if parameters:
        rows = [
            (f"`{each['name']}`", each["in"], _type(each["schema"]), _default(each["schema"]))
            for each in parameters
        ]
        yield from table(("parameter", "in", "type", "default"), rows)
    answer = operation["responses"]["200"].get("content", {}).get("application/json", {})
    if answer.get("schema"):
        yield f"Answer: {_type(answer['schema'])}."
        yield ""


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield " ".join(schema.get("description", "").split())
    yield ""
    if "enum" in schema:
        yield "One of " + ", ".join(f"`{each}`" for each in schema["enum"]) + "."
        yield ""
    required = schema.get("required", [])
    rows = [
        (
            f"`{field}`",
            _type(each),
            "required" if field in required else _default(each),
            each.get("description", ""),
        )
        for field, each in schema.get("properties", {}).items()
    ]
    if rows:
        yield from table(("field", "type", "default", "meaning"), rows)


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    return "" if value is None else f"`{json.dumps(value)}`"
