"""The wire dialect: APIs with their versions, and what is private, from the declarations of the messages."""

import dataclasses
import inspect
from collections.abc import Iterator

from docs._site.pages.markdown import head, page, table
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import APIS, FIRST_PRIVATE_KEY
from quorum_node.protocol.errors import ErrorCode
from quorum_node.schema.schema import NEVER, Array, FieldSpec, Fixed, Message, Variable, WireType

_ABOUT = f"""Nodes speak Kafka's protocol as shipped with Kafka 4.3: framing, request headers, versions and tagged fields (KIP-482).
Features that exist only in drafts of KIPs use private API keys and private tags, from {FIRST_PRIVATE_KEY} on. A stock client ignores private API keys in
ApiVersions, and a stock reader skips private tagged fields. So the behaviour of stock clients and brokers does not change.
[Differences from the drafts](../explanation/raft-decisions.md) explains why there are private APIs."""
_CODES = {
    "?": "bool",
    "b": "int8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "q": "int64",
    "d": "float64",
    "16s": "uuid",
}


def markdown() -> str:
    """docs/reference/wire.md."""
    lines = head("Wire dialect", "`node/quorum_node/protocol`", _ABOUT)
    lines += ["## APIs", ""]
    lines += table(
        ("key", "API", "versions", "flexible from", "forwarded by brokers"),
        map(_api, APIS.values()),
    )
    lines += ["## Private APIs", ""]
    for api in APIS.values():
        if api.key >= FIRST_PRIVATE_KEY:
            lines += _private_api(api)
    lines += ["## Private tagged fields of Kafka's messages", ""]
    rows = [
        row for api in APIS.values() if api.key < FIRST_PRIVATE_KEY for row in _private_fields(api)
    ]
    lines += table(("message", "tag", "field", "type", "versions"), rows)
    lines += ["## Error codes", "", "Error codes that a node sends, with Kafka's numbers.", ""]
    lines += table(("code", "name"), [(str(int(each)), each.name) for each in ErrorCode])
    return page(lines)


def _api(api: Api) -> tuple[str, ...]:
    flexible = "never" if api.flexible_since == NEVER else str(api.flexible_since)
    return (
        str(api.key),
        api.name,
        _span(api.min_version, api.max_version),
        flexible,
        "yes" if api.is_forwardable else "",
    )


def _private_api(api: Api) -> Iterator[str]:
    yield f"### {api.name} ({api.key})"
    yield ""
    module = inspect.getmodule(api.request)
    yield " ".join((inspect.getdoc(module) or "").split("\n\n")[0].split())
    yield ""
    for message in (api.request, api.response):
        rows = [
            (f"`{path}`", _type(spec.type), "" if spec.tag is None else str(spec.tag))
            for path, spec in _fields(message)
        ]
        yield f"**{message.__name__}**"
        yield ""
        yield from table(("field", "type", "tag"), rows)


def _private_fields(api: Api) -> Iterator[tuple[str, ...]]:
    for message in (api.request, api.response):
        for path, spec in _fields(message):
            if spec.tag is not None and spec.tag >= FIRST_PRIVATE_KEY:
                until = min(spec.until, api.max_version)
                since = max(spec.since, api.min_version)
                yield (
                    message.__name__,
                    str(spec.tag),
                    f"`{path}`",
                    _type(spec.type),
                    _span(since, until),
                )


def _fields(message: type[Message], path: str = "") -> Iterator[tuple[str, FieldSpec]]:
    for each in dataclasses.fields(message):
        spec = each.metadata.get("wire")
        if not isinstance(spec, FieldSpec):
            continue
        own = f"{path}{each.name}"
        yield own, spec
        inner = spec.type
        if isinstance(inner, Array):
            own, inner = f"{own}[]", inner.element
        if isinstance(inner, type):
            yield from _fields(inner, f"{own}.")


def _type(kind: WireType) -> str:
    match kind:
        case Fixed():
            return _CODES[kind.code]
        case Variable():
            return kind.name
        case Array():
            return f"array of {_type(kind.element)}"
    return kind.__name__


def _span(since: int, until: int) -> str:
    return str(since) if since == until else f"{since}–{until}"
