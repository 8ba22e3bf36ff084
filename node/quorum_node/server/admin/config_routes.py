"""Config values: put and append (through the leader, answered after the commit); get and list (on every replica).

A read is answered from the state of the replica that received it, and never forwarded. A linearizable read costs the leader
one small request, without the value, and can be sent to a replica that is not busy.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from quorum_node.api import (
    DEFAULT_TIMEOUT_MS,
    AppendRequest,
    AppendResult,
    ConfigEntry,
    ConfigList,
    ConfigValue,
    Consistency,
    ErrorCode,
    PutConfigRequest,
)
from quorum_node.controller.config_descriptions import is_secret
from quorum_node.controller.configs import cleared_eligible_replicas
from quorum_node.image.configs import ConfigKey
from quorum_node.image.resource_types import BROKER, resource_type_name, resource_type_number
from quorum_node.records.metadata import ConfigRecord, encode_metadata
from quorum_node.schema.decoder import MAX_STRING_BYTES
from quorum_node.server.admin.describe_routes import TimeoutMs
from quorum_node.server.admin.leader import await_leader
from quorum_node.server.admin.node_view import ChosenReplica, NodeView
from quorum_node.server.admin.pieced_document import PiecedDocument
from quorum_node.server.admin.problems import ApiProblem, invalid
from quorum_node.server.admin.replica_view import ReplicaView

CLUSTER_DEFAULT = "-"
"""Path element that stands for the empty resource name, the default of the cluster."""
KEY_PATH = "/configs/{resource_type}/{resource_name}/{name}"


def router(node: NodeView) -> APIRouter:
    """The routes over one node."""
    routes = APIRouter(prefix="/v1")
    _add_writes(routes, node)
    _add_reads(routes, node)
    return routes


def _add_writes(routes: APIRouter, node: NodeView) -> None:
    @routes.put(KEY_PATH, response_model=AppendResult)
    async def put(
        resource_type: str,
        resource_name: str,
        name: str,
        body: PutConfigRequest,
        replica: ChosenReplica,
    ) -> AppendResult:
        """Sets or deletes one configuration value. Answers when it is committed."""
        key = _key(resource_type, resource_name, name)
        return await _append_as_leader(replica, (_record(key, body.value),), body.timeout_ms)

    @routes.post("/append", response_model=AppendResult)
    async def append(body: AppendRequest, replica: ChosenReplica) -> AppendResult:
        """Sets and deletes several configuration values, all or none. Answers when they are committed."""
        records = tuple(
            _record(_key(e.resource_type, e.resource_name, e.name), e.value) for e in body.entries
        )
        return await _append_as_leader(replica, records, body.timeout_ms)


def _add_reads(routes: APIRouter, node: NodeView) -> None:
    @routes.get(KEY_PATH)
    async def get(
        resource_type: str,
        resource_name: str,
        name: str,
        replica: ChosenReplica,
        consistency: Consistency = Consistency.LINEARIZABLE,
        timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    ) -> ConfigValue:
        """One configuration value; 403 for a secret of brokers, such as a password. `linearizable`: not older than this request; `local`:
        the value that this node has, without waiting."""
        key = _key(resource_type, resource_name, name)
        age_ms = await _read(replica, consistency, timeout_ms)
        committed = replica.host.committed
        value = committed.image.configs.get(key)
        if value is None:
            text = (
                f"{resource_type}/{resource_name}/{name} is not set (offset {committed.end_offset})"
            )
            raise ApiProblem(404, ErrorCode.NOT_FOUND, text)
        if _is_secret(key):
            text = f"{name} is a secret, which is not returned; it is in the log (GET /v1/log)"
            raise ApiProblem(403, ErrorCode.UNAUTHORIZED, text)
        return ConfigValue(
            resource_type=resource_type_name(key.resource_type),
            resource_name=key.resource_name,
            name=key.name,
            value=value,
            offset=committed.end_offset,
            consistency=consistency,
            age_ms=age_ms,
        )

    @routes.get("/configs", response_model=ConfigList)
    async def list_configs(
        replica: ChosenReplica,
        prefix: Annotated[str, Query(max_length=1000)] = "",
        consistency: Consistency = Consistency.LOCAL,
        timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    ) -> Response:
        """Configuration values whose key begins with `prefix`; null for secrets of brokers, such as passwords."""
        age_ms = await _read(replica, consistency, timeout_ms)
        committed = replica.host.committed
        document = PiecedDocument("entries")
        async with node.pace.one_reader() as pace:
            async for found in pace.each(committed.image.configs.entries_with_pauses()):
                if found is None:
                    continue
                key, value = found
                entry = ConfigEntry(
                    resource_type=resource_type_name(key.resource_type),
                    resource_name=key.resource_name,
                    name=key.name,
                    value=None if _is_secret(key) else value,
                )
                if _path(entry).startswith(prefix):
                    document.add(entry.model_dump_json(by_alias=True).encode())
        rest = ConfigList(
            entries=[], offset=committed.end_offset, consistency=consistency, age_ms=age_ms
        )
        return document.response(rest)


async def _read(replica: ReplicaView, consistency: Consistency, timeout_ms: int) -> int | None:
    """Wait until the image may be read. Returns its maximum age in milliseconds for a local read, None for a linearizable one."""
    if consistency is Consistency.LINEARIZABLE:
        await replica.confirm_read(timeout_ms)
        return None
    replica.host.reads.count_local()
    return replica.state_age_ms()


async def _append_as_leader(
    replica: ReplicaView, records: tuple[ConfigRecord, ...], timeout_ms: int
) -> AppendResult:
    """A leader that has resigned in between has appended nothing, so the next one is awaited. Raises ApiProblem."""
    await await_leader(replica, timeout_ms)
    try:
        return await _append(replica, records, timeout_ms)
    except ApiProblem as problem:
        if problem.code not in (ErrorCode.NOT_LEADER, ErrorCode.NO_LEADER):
            raise
    await await_leader(replica, timeout_ms)
    return await _append(replica, records, timeout_ms)


async def _append(
    replica: ReplicaView, records: tuple[ConfigRecord, ...], timeout_ms: int
) -> AppendResult:
    cleared = cleared_eligible_replicas(replica.host.committed.image, records)
    values = tuple(map(encode_metadata, (*records, *cleared)))
    committed = await replica.append(values, timeout_ms)
    return AppendResult(
        offset=committed.base_offset, end_offset=committed.end_offset, epoch=committed.leader_epoch
    )


def _key(resource_type: str, resource_name: str, name: str) -> ConfigKey:
    try:
        number = resource_type_number(resource_type)
    except ValueError as error:
        raise invalid(str(error)) from error
    if not name:
        raise invalid("the name of the config is empty")
    return ConfigKey(number, "" if resource_name == CLUSTER_DEFAULT else resource_name, name)


def _is_secret(key: ConfigKey) -> bool:
    """Whether DescribeConfigs hides the value as well."""
    return key.resource_type == BROKER and is_secret(key.name)


def _record(key: ConfigKey, value: str | None) -> ConfigRecord:
    """The record. Raises ApiProblem for texts that a stock node could not replay from the log."""
    try:
        longest = max(len(text.encode()) for text in (key.resource_name, key.name, value or ""))
        if longest > MAX_STRING_BYTES:
            raise invalid(
                f"a name or value has {longest} bytes; Kafka's records have at most {MAX_STRING_BYTES}"
            )
    except UnicodeEncodeError as error:
        raise invalid(f"names and values must be valid UTF-8: {error}") from error
    return ConfigRecord(**key._asdict(), value=value)


def _path(entry: ConfigEntry) -> str:
    """type/name/key, the text that `prefix` is compared with."""
    return f"{entry.resource_type}/{entry.resource_name or CLUSTER_DEFAULT}/{entry.name}"
