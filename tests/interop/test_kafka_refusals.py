"""Requests of somebody without any right: a stock controller and ours get the same bytes and refuse with the same codes, in the
same places."""

from collections.abc import Iterator
from typing import Any

import pytest

from quorum_node.protocol.api import Api
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS, APIS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import encode_request
from quorum_node.schema.encoder import FieldNotInVersion
from quorum_node.schema.schema import MalformedMessage
from quorum_node.security.authorizer import STANDARD_AUTHORIZER
from quorum_node.security.rights.api_table import STOCK
from support.answered_codes import codes
from support.asked_bodies import request_of
from support.java_quorum import START_SECONDS, JavaQuorum
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

AUTHORIZER = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:admin"}
REFUSALS = frozenset((ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
TOKENS = frozenset((38, 39, 40, 41))
"""Of delegation tokens: off here, and refused by the token manager there."""
JUDGED = [api for key, api in sorted(APIS.items()) if STOCK[key] and key not in TOKENS]


class Shut(JavaQuorum):
    """A stock controller that refuses everything to everybody on its only listener, itself included."""

    def describe(self, timeout_seconds: float = START_SECONDS) -> Any:
        """Nobody may: until it answers."""
        (controller,) = self.controllers.values()
        wait_until(lambda: announced(controller.port), "it answers", timeout_seconds)


def announced(port: int) -> dict[int, tuple[int, int]] | None:
    """Versions by API; None while it does not answer."""
    body = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    try:
        answer = ask(("127.0.0.1", port), API_VERSIONS, 4, body)
    except (OSError, MalformedMessage):
        return None
    assert isinstance(answer, ApiVersionsResponse)
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


Ports = tuple[int, int]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """Of a stock controller and of ours, where everybody is User:ANONYMOUS."""
    root = tmp_path_factory.mktemp("shut")
    with (
        Shut(root / "stock", **AUTHORIZER) as java,
        LocalQuorum(root / "ours", 1, properties=dict(AUTHORIZER)) as quorum,
    ):
        java.start()
        quorum.form()
        (controller,) = java.controllers.values()
        yield controller.port, quorum.nodes[1].port


def versions(api: Api, ports: Ports) -> Iterator[int]:
    """Those that both announce, and in which the request can be written."""
    known = [announced(port) for port in ports]
    assert known[0]
    assert known[1]
    lowest = max(each[api.key][0] for each in known if each)
    highest = min(each[api.key][1] for each in known if each)
    for version in range(lowest, highest + 1):
        try:
            encode_request(api, version, 1, "x", request_of(api))
        except FieldNotInVersion:
            continue
        yield version


@pytest.mark.requirement("K631-12")
@pytest.mark.parametrize("name", [api.name for api in JUDGED])
def test_a_refusal_has_the_form_of_stock_kafkas(ports: Ports, name: str) -> None:
    (api,) = (each for each in JUDGED if each.name == name)
    compared = 0
    for version in versions(api, ports):
        theirs, ours = [
            codes(ask(("127.0.0.1", port), api, version, request_of(api))) for port in ports
        ]
        assert ours == theirs, (name, version)
        assert {code for _, code in theirs} & REFUSALS, (name, version, theirs)
        compared += 1
    assert compared
