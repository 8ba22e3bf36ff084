"""Config values: put and append (after commit), get (linearizable or local), list (local)."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from quorum_node.api import (
    DEFAULT_TIMEOUT_MS,
    AppendRequest,
    AppendResult,
    ConfigEntry,
    ConfigList,
    ConfigValue,
    ErrorCode,
    PutConfigRequest,
)
from quorum_node.records.metadata import ConfigRecord, encode_metadata
from quorum_node.server.admin.authorization import require_token
from quorum_node.server.admin.describe_routes import TimeoutMs
from quorum_node.server.admin.node_view import NodeView
from quorum_node.server.admin.problems import ApiProblem, invalid
from quorum_node.state.image import ConfigKey
from quorum_node.state.resource_types import resource_type_name, resource_type_number

CLUSTER_DEFAULT = "-"
"""Path text for the empty resource name."""
KEY_PATH = "/configs/{resource_type}/{resource_name}/{name}"


def router(node: NodeView) -> APIRouter:
    """The routes over one node."""
    routes = APIRouter(prefix="/v1")

    @routes.put(KEY_PATH, response_model=AppendResult)
    async def put(
        resource_type: str, resource_name: str, name: str, body: PutConfigRequest, request: Request
    ) -> AppendResult | Response:
        require_token(node, request)
        key = _key(resource_type, resource_name, name)
        if not node.is_leader():
            return await node.forwarder.forward(request, node.describe(), body.timeout_ms)
        return await _append(node, (_record(key, body.value),), body.timeout_ms)

    @routes.post("/append", response_model=AppendResult)
    async def append(body: AppendRequest, request: Request) -> AppendResult | Response:
        require_token(node, request)
        values = tuple(
            _record(_key(e.resource_type, e.resource_name, e.name), e.value) for e in body.entries
        )
        if not node.is_leader():
            return await node.forwarder.forward(request, node.describe(), body.timeout_ms)
        return await _append(node, values, body.timeout_ms)

    @routes.get(KEY_PATH, response_model=ConfigValue)
    async def get(
        resource_type: str,
        resource_name: str,
        name: str,
        request: Request,
        consistency: Literal["linearizable", "local"] = "linearizable",
        timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    ) -> ConfigValue | Response:
        key = _key(resource_type, resource_name, name)
        if consistency == "linearizable":
            if not node.is_leader():
                return await node.forwarder.forward(request, node.describe(), timeout_ms)
            await node.confirm_read(timeout_ms)
        image = node.host.applier.image
        value = image.get(key)
        if value is None:
            text = f"{resource_type}/{resource_name}/{name} is not set (offset {image.end_offset})"
            raise ApiProblem(404, ErrorCode.NOT_FOUND, text)
        return ConfigValue(
            resource_type=resource_type_name(key.resource_type),
            resource_name=key.resource_name,
            name=key.name,
            value=value,
            offset=image.end_offset,
            consistency=consistency,
        )

    @routes.get("/configs")
    async def list_configs(prefix: Annotated[str, Query(max_length=1000)] = "") -> ConfigList:
        image = node.host.applier.image
        entries = [
            ConfigEntry(
                resource_type=resource_type_name(key.resource_type),
                resource_name=key.resource_name,
                name=key.name,
                value=value,
            )
            for key, value in image.entries()
        ]
        wanted = [entry for entry in entries if _path(entry).startswith(prefix)]
        return ConfigList(entries=wanted, offset=image.end_offset)

    return routes


async def _append(node: NodeView, values: tuple[bytes, ...], timeout_ms: int) -> AppendResult:
    committed = await node.append(values, timeout_ms)
    return AppendResult(
        offset=committed.base_offset, end_offset=committed.end_offset, epoch=committed.leader_epoch
    )


def _key(resource_type: str, resource_name: str, name: str) -> ConfigKey:
    try:
        number = resource_type_number(resource_type)
    except ValueError as error:
        raise invalid(str(error)) from error
    if not name:
        raise invalid("a config needs a name")
    return ConfigKey(number, "" if resource_name == CLUSTER_DEFAULT else resource_name, name)


def _record(key: ConfigKey, value: str | None) -> bytes:
    try:
        return encode_metadata(ConfigRecord(key.resource_type, key.resource_name, key.name, value))
    except UnicodeEncodeError as error:
        raise invalid(f"names and values must be text that UTF-8 can hold: {error}") from error


def _path(entry: ConfigEntry) -> str:
    """type/name/key, which `prefix` is compared with."""
    return f"{entry.resource_type}/{entry.resource_name or CLUSTER_DEFAULT}/{entry.name}"
