"""Every API and every route, requested from a running node by every identity, beside the documented table."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import (
    APIS,
    BROKER_REGISTRATION,
    CREATE_TOPICS,
    ENVELOPE,
    FETCH,
    FETCH_SNAPSHOT,
    FORWARDABLE,
)
from quorum_node.protocol.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.envelope import EnvelopeRequest
from quorum_node.protocol.envelope_principal import DefaultPrincipal, encode_principal
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import SIZE_BYTES, decode_response, encode_request
from quorum_node.schema.schema import Message
from quorum_node.security.authorizer import STANDARD_AUTHORIZER
from quorum_node.security.caller import Caller
from quorum_node.security.certificate_identity import CertificateIdentity, Role
from quorum_node.security.rights.api_table import RULES
from quorum_node.security.rights.http_table import ROUTES
from quorum_node.server.admin.health_app import HealthApp
from support.broker_requests import registration
from support.hosted_node import Node, OneConnection, running_node
from support.request_samples import request_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "api-permissions.md"
AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
BOUND = frozenset({"CONTROLLER"})
REFUSALS = frozenset(
    (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    )
)
TOKEN = "a token"


def who(principal: str, role: Role | None = None, node_id: int | None = None) -> Caller:
    identity = None if role is None else CertificateIdentity("ns", "demo", role, node_id)
    return Caller(principal, "10.0.0.9", "CONTROLLER", identity)


CALLERS = {
    "nobody": who("User:ANONYMOUS"),
    "stranger": who("User:CN=x"),
    "super user": who("User:root"),
    "member": who("User:CN=m", Role.MEMBER, 1),
    "broker": who("User:CN=b", Role.BROKER, 1),
    "operator": who("User:CN=o", Role.OPERATOR),
    "admin": who("User:CN=a", Role.ADMIN),
    "reader": who("User:CN=r", Role.READER),
    "archiver": who("User:CN=v", Role.ARCHIVER),
}
"""The requests are those of node 1."""
ROLES = frozenset(role.value for role in Role)
EVERYBODY = frozenset(CALLERS)
NAMED = "super user"


def cells(first: str) -> Mapping[str, list[str]]:
    """Rows of the table with such a header, by their first cell."""
    found, inside = {}, False
    for line in PAGE.read_text().splitlines():
        row = [cell.strip() for cell in line.strip("| ").split(" | ")]
        inside = line.startswith(f"| {first} |") or (inside and line.startswith("|"))
        if inside:
            found[row[0]] = row
    return found


def by_default(cell: str) -> frozenset[str]:
    """Who is meant by a cell of the column "by default"."""
    if cell == "every caller":
        return EVERYBODY
    return ROLES if cell == "every role" else frozenset(re.sub(r" \(.*?\)", "", cell).split(", "))


def expected_of(row: list[str], node_id: int) -> frozenset[str]:
    """Super users lack nothing, but they have no certificate of a node."""
    allowed = by_default(row[5])
    limited = {name for name in ROLES if f"{name} (" in row[5]}
    claims = "own id" in row[4] and node_id != -1
    return (allowed - limited) | (frozenset() if claims else {NAMED})


def refuses(answer: Any) -> bool:
    """Whether it holds the error of a missing right, wherever."""
    if isinstance(answer, tuple):
        return any(map(refuses, answer))
    if not isinstance(answer, Message):
        return False
    values = [getattr(answer, name) for name in answer.__dataclass_fields__]
    return getattr(answer, "error_code", 0) in REFUSALS or any(map(refuses, values))


@asynccontextmanager
async def active_node(
    folder: Path, bound: frozenset[str] = BOUND, **properties: str
) -> AsyncIterator[Node]:
    async with running_node(folder, AUTHORIZER | properties, bound) as node:
        for _ in range(1000):  # it takes over when its first record is applied
            if node.controller.controller.is_active:
                break
            await asyncio.sleep(0.01)
        yield node


async def allowed(node: Node, api: Api, body: Message) -> frozenset[str]:
    """The identities that the node serves, requested twice on one connection: the second decision is cached."""
    found = set()
    for name, caller in CALLERS.items():
        connection = OneConnection(caller)
        answers = [await connection.ask(node.api, api, body, None) for _ in range(2)]
        assert refuses(answers[0]) is refuses(answers[1]), (api.name, name)
        if not refuses(answers[0]):
            found.add(name)
    return frozenset(found)


@pytest.mark.requirement("K631-12", "K595-24")
async def test_every_api_is_allowed_directly_to_the_documented_callers(tmp_path: Path) -> None:
    rows = cells("API")
    assert len(rows) == len(APIS) + 4
    async with active_node(tmp_path) as node:
        for api in APIS.values():
            requested = await allowed(node, api, request_of(api))
            assert requested == expected_of(rows[api.name], 1), api.name
        for api in (FETCH, FETCH_SNAPSHOT):
            requested = await allowed(node, api, request_of(api, -1))
            assert requested == expected_of(rows[f"{api.name}, reading"], -1), api.name


@pytest.mark.requirement("K631-12")
async def test_caller_without_the_right_is_rejected_and_nothing_changes(tmp_path: Path) -> None:
    async with active_node(tmp_path, frozenset()) as node:
        requested = registration(7, cluster_id="c")
        refused = await node.ask(CALLERS["stranger"], BROKER_REGISTRATION, requested)
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        pending = node.controller.controller.pending
        assert pending is not None
        assert pending.brokers.get(7) is None
        taken = await node.ask(CALLERS["super user"], BROKER_REGISTRATION, requested)
        assert taken.error_code == ErrorCode.NONE


def envelope(api: Api, body: Message, principal: str) -> EnvelopeRequest:
    kind, _, name = principal.partition(":")
    reported = DefaultPrincipal(type=kind, name=name, token_authenticated=False)
    return EnvelopeRequest(
        request_data=encode_request(api, api.max_version, 3, "a client", body)[SIZE_BYTES:],
        request_principal=encode_principal(reported),
        client_host_address=bytes((10, 1, 1, 1)),
    )


@pytest.mark.requirement("K631-12", "K595-24")
async def test_envelope_uses_the_forwarded_principal_without_the_role_of_the_broker(
    tmp_path: Path,
) -> None:
    """What the broker of the connection may itself does not count either, not even right after it used it."""
    async with active_node(tmp_path) as node:
        broker = OneConnection(CALLERS["broker"])
        for api in (APIS[key] for key in sorted(FORWARDABLE)):
            body = request_of(api)
            await broker.ask(node.api, api, body, None)
            for name, inside in CALLERS.items():
                passed_on = envelope(api, body, inside.principal)
                answer = await broker.ask(node.api, ENVELOPE, passed_on, None)
                assert answer.error_code == ErrorCode.NONE
                served = not refuses(decode_response(api, api.max_version, answer.response_data))
                assert served is (name == NAMED or not RULES[api.key].needs), (api.name, name)


@pytest.mark.requirement("K631-12")
async def test_brokers_may_create_internal_topics_and_their_clients_may_not(tmp_path: Path) -> None:
    async with active_node(tmp_path) as node:
        broker = OneConnection(CALLERS["broker"])
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in ("__consumer_offsets", "orders")
        ]
        body = CreateTopicsRequest(topics=tuple(topics))
        answer = await broker.ask(node.api, CREATE_TOPICS, body, None)
        no_broker, denied = (each.error_code for each in answer.topics)
        assert denied == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert no_broker == ErrorCode.INVALID_REPLICATION_FACTOR, "there is none to hold it"
        passed_on = envelope(CREATE_TOPICS, body, "User:CN=b")
        answer = await broker.ask(node.api, ENVELOPE, passed_on, None)
        inside = decode_response(CREATE_TOPICS, CREATE_TOPICS.max_version, answer.response_data)
        assert isinstance(inside, CreateTopicsResponse)
        assert {each.error_code for each in inside.topics} == {denied}


@pytest.mark.requirement("K631-12", "K595-24")
async def test_only_brokers_and_super_users_may_forward_requests(tmp_path: Path) -> None:
    async with active_node(tmp_path) as node:
        for api in (APIS[key] for key in sorted(FORWARDABLE)):
            passed_on = envelope(api, request_of(api), "User:root")
            for name, caller in CALLERS.items():
                answer = await node.ask(caller, ENVELOPE, passed_on)
                if name not in ("broker", NAMED):
                    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, name
                    assert answer.response_data is None
                else:
                    assert answer.error_code == ErrorCode.NONE, name


@pytest.mark.requirement("K631-12", "K595-24")
async def test_every_route_is_allowed_to_the_documented_callers(tmp_path: Path) -> None:
    rows = cells("route")

    async def statuses(node: Node, caller: Caller | None, token: str) -> dict[str, int]:
        """For a missing partition, so that an allowed request has no effect."""
        found = {}
        async with node.client(TOKEN, caller) as client:
            for method, path in ROUTES:
                url = re.sub(r"\{.*?\}", "7", path)
                answer = await client.request(
                    method,
                    f"{url}?partition=99",
                    content=b"[]" if method != "GET" else None,
                    headers={"authorization": f"Bearer {token}"} if token else {},
                )
                found[f"`{method} {path}`"] = answer.status_code
        return found

    async with active_node(tmp_path) as node:
        anonymous = await statuses(node, None, "")
        by_name = {name: await statuses(node, caller, "") for name, caller in CALLERS.items()}
        by_name["nobody"] = anonymous
        held = await statuses(node, None, TOKEN)
        wrong = await statuses(node, None, "another token")
        for route, row in list(rows.items())[2:]:
            served = {name for name, found in by_name.items() if found[route] not in (401, 403)}
            assert served == by_default(row[2]) | {NAMED}, route
            for name, found in by_name.items():
                expected = {401} if name == "nobody" else {403}
                assert name in served or found[route] in expected, (route, name)
            assert held[route] not in (401, 403), route
            assert wrong[route] == anonymous[route], route


async def test_metrics_can_be_restricted_on_both_ports_and_probes_stay_open(tmp_path: Path) -> None:
    async with active_node(tmp_path, **{"admin.metrics.open": "false"}) as node:
        for caller, metrics in ((None, 401), (CALLERS["stranger"], 403), (CALLERS["reader"], 200)):
            async with node.client(TOKEN, caller) as client:
                assert (await client.get("/metrics")).status_code == metrics
                assert (await client.get("/livez")).status_code == 200
        async with node.client(TOKEN) as client:
            assert isinstance(client._transport, httpx.ASGITransport)
            health = httpx.ASGITransport(HealthApp(client._transport.app))
        async with httpx.AsyncClient(transport=health, base_url="http://node") as probe:
            assert (await probe.get("/metrics")).status_code == 401
            assert (await probe.get("/livez")).status_code == 200
            assert (await probe.get("/v1/node")).status_code == 404


async def test_unknown_route_returns_not_found_to_every_caller(tmp_path: Path) -> None:
    async with active_node(tmp_path) as node:
        for caller in (None, CALLERS["admin"]):
            async with node.client(TOKEN, caller) as client:
                for path in ("/docs", "/v1/log/", "/v1//log", "/v1/%6cog/", "/"):
                    answer = await client.get(path)
                    assert answer.status_code == 404, path
                    assert answer.json()["leaderId"] is None
                assert (await client.patch("/v1/log")).status_code == 404
