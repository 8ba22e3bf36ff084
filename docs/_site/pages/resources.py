"""Fields of the custom resources, from the models that the definitions are made from."""

from collections.abc import Iterator
from typing import Any

from docs._site.pages.markdown import head, page, table
from quorum_operator.crd import GROUP, SERVED_VERSIONS, VERSION
from quorum_operator.crd_document import DEFINITIONS, Definition, structural

_ABOUT = """Paths are written as in `kubectl explain`: `members[].id` is the field `id` of each entry of the list `members`. A field without a default
may be left out unless it says that it is required."""


def markdown() -> str:
    """docs/reference/resources.md."""
    lines = head(
        "Fields of the resources", "`operator/quorum_operator/crd.py` and its neighbours", _ABOUT
    )
    for definition in DEFINITIONS.values():
        lines += _resource(definition)
    return page(lines)


def _resource(definition: Definition) -> Iterator[str]:
    yield f"## {definition.kind}"
    yield ""
    yield f"`apiVersion: {GROUP}/{SERVED_VERSIONS[0]}`, and `{VERSION}` with the same fields; short name `{definition.short_name}`. {definition.description}"
    yield ""
    for part, model in (("spec", definition.spec), ("status", definition.status)):
        yield f"### {part} of a {definition.kind}"
        yield ""
        rows = _fields(structural(model), "")
        if part == "spec":
            yield from table(("field", "type", "default", "meaning"), rows)
        else:
            told = ((path, kind, meaning) for path, kind, _, meaning in rows)
            yield from table(("field", "type", "meaning"), told)
        rules = structural(model).get("x-kubernetes-validations", [])
        if part == "spec" and rules:
            yield "Rules that concern several fields:"
            yield ""
            yield from (f"- {' '.join(rule['message'].split())}" for rule in rules)
            yield ""


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str, str, str]]:
    required = schema.get("required", [])
    for name, each in schema.get("properties", {}).items():
        own = f"{path}.{name}" if path else name
        meaning = each.get("description", "")
        if name in required and "default" not in each:
            meaning = f"Required. {meaning}"
        yield f"`{own}`", _type(each), _default(each), meaning
        yield from _fields(each, own)
        items = each.get("items")
        if isinstance(items, dict):
            yield from _fields(items, f"{own}[]")
        values = each.get("additionalProperties")
        if isinstance(values, dict):
            yield from _fields(values, f"{own}.KEY")


def _type(schema: dict[str, Any]) -> str:
    kind = str(schema.get("type", "any"))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "number or string"
    if kind == "array":
        return f"list of {_type(schema['items'])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_type(schema['additionalProperties'])}"
    bounds = [
        words.format(schema[key])
        for key, words in (
            ("minimum", "from {}"),
            ("maximum", "to {}"),
            ("minLength", "at least {} characters"),
            ("maxLength", "at most {} characters"),
        )
        if key in schema
    ]
    return " ".join([kind, *bounds])


def _default(schema: dict[str, Any]) -> str:
    if "default" not in schema:
        return ""
    value = schema["default"]
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "" if value in ({}, [], "") else f"`{value}`"
