"""A node without an admin token and without an authorizer: it says so at start, and takes changes from its own host only."""

from typing import Any

import pytest
from starlette.datastructures import Headers
from structlog.testing import capture_logs

from quorum_node.configuration.node_config import check_config
from quorum_node.security.caller import Caller
from quorum_node.server.admin.authorization import caller_of, refusal_without_authorizer
from quorum_node.server.starting.startup import read_token

BASE = {
    "node.id": "1",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "metadata.log.dir": "/tmp/x",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "admin.listener": "http://127.0.0.1:8080",
}
NO_HEADERS = Headers({"content-length": "0"})


def status_of(method: str, host: str, *tokens: str) -> int | None:
    """The status with which a request without a token is refused by a node that has these tokens; None: it is allowed."""
    scope: dict[str, Any] = {
        "type": "http", "method": method, "path": "/v1/append", "client": (host, 1),
    }  # fmt: skip
    caller: Caller = caller_of(scope, NO_HEADERS, tokens)
    found = refusal_without_authorizer(scope, NO_HEADERS, tokens, caller)
    return None if found is None else found.status


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
@pytest.mark.parametrize("host", ["10.0.0.1", "fd00::1", "not-an-address"])
def test_change_from_another_host_is_refused_without_a_token(method: str, host: str) -> None:
    assert status_of(method, host) == 403
    assert status_of(method, host, "a-token") == 401


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_change_from_the_own_host_needs_a_token_only_if_there_is_one(host: str) -> None:
    assert status_of("PUT", host) is None
    assert status_of("PUT", host, "a-token") == 401


def test_missing_token_is_logged_at_start() -> None:
    with capture_logs() as logs:
        assert read_token(check_config(BASE)) is None
    (entry,) = logs
    assert entry["log_level"] == "warning"
    assert "admin.token.file is not set" in entry["event"]
