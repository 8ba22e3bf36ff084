"""Each refusal of a whole request can be encoded in the version of the request, whatever the request contains.

A refusal that can't be encoded would end the node: any client could stop it with one request.
"""

import dataclasses
import random
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import pytest

from quorum_node.protocol import apis, broker_apis
from quorum_node.protocol.api import Api
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import decode_response, encode_response_body
from quorum_node.schema.schema import Message
from quorum_node.server.broker import refusals as of_brokers
from quorum_node.server.controller.controller_api import ControllerApi
from quorum_node.server.process.broker_process import refuse_forwarded
from quorum_node.server.wire import refusals as of_controllers
from support.random_messages import RandomMessages

ERROR, TEXT = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not permitted"
REQUESTS_PER_VERSION = 20
KNOWN: dict[str, list[Any]] = {"topic_id": [UUID(int=7)], "topic": ["t"], "name": ["t"]}
Refuse = Callable[[Message, ErrorCode, str], Message]


def refused_by(refuse: Refuse, among: Iterable[Api]) -> list[tuple[Api, Refuse]]:
    """The APIs that the function rejects."""
    rng = random.Random(0)
    found = []
    for api in among:
        body = RandomMessages(rng, KNOWN).message(api.request, api.max_version)
        try:
            refuse(body, ERROR, TEXT)
        except (KeyError, AssertionError):
            continue
        found.append((api, refuse))
    return found


CASES = [
    *refused_by(ControllerApi.refuse, apis.APIS.values()),
    *refused_by(of_controllers.refuse_request, apis.APIS.values()),
    *refused_by(of_brokers.refuse, broker_apis.BROKER_APIS.values()),
    *refused_by(refuse_forwarded, (apis.APIS[key] for key in broker_apis.FORWARDED)),
]


def errors_in(message: object) -> set[int]:
    """All error codes of an answer, at any depth."""
    if isinstance(message, tuple):
        return {code for each in message for code in errors_in(each)}
    if not isinstance(message, Message):
        return set()
    found: set[int] = set()
    for each in dataclasses.fields(message):
        value = getattr(message, each.name)
        found |= {int(value)} if each.name == "error_code" else errors_in(value)
    return found


@pytest.mark.parametrize(
    ("api", "refuse"), CASES, ids=[f"{api.name}-{refuse.__module__}" for api, refuse in CASES]
)
def test_rejection_can_be_encoded_in_each_version(api: Api, refuse: Refuse) -> None:
    rng = random.Random(api.key)
    messages = RandomMessages(rng, KNOWN)
    for version in range(api.min_version, api.max_version + 1):
        for _ in range(REQUESTS_PER_VERSION):
            body = messages.message(api.request, version)
            answer = refuse(body, ERROR, TEXT)
            data = encode_response_body(api, version, 1, answer)
            received = decode_response(api, version, data)
            assert errors_in(received) <= {0, ERROR}, (version, body)


def test_every_controller_api_can_be_rejected() -> None:
    refusable = {api.key for api, _ in CASES}
    unauthenticated = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
    left = {api.name for api in apis.APIS.values() if api.key not in refusable} - unauthenticated
    assert all("DelegationToken" in each for each in left), left
