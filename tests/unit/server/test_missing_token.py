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


def status_of(method: str, host: str, *tokens: str, headers: Headers = NO_HEADERS) -> int | None:
    """The status with which a request without a token is refused by a node that has these tokens; None: it is allowed."""
    scope: dict[str, Any] = {
        "type": "http", "method": method, "path": "/v1/append", "client": (host, 1),
    }  # fmt: skip
    caller: Caller = caller_of(scope, headers, tokens)
    found = refusal_without_authorizer(scope, headers, tokens, caller)
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


@pytest.mark.parametrize("origin", ["https://other.example", "http://127.0.0.1:8080", "null"])
def test_change_by_a_web_page_in_a_browser_on_the_own_host_is_refused(origin: str) -> None:
    """Browsers send this header with each change, also if the page's host name leads to this node by now."""
    headers = Headers({"content-length": "0", "origin": origin})
    assert status_of("POST", "127.0.0.1", headers=headers) == 403
    assert status_of("GET", "127.0.0.1", headers=headers) is None


def test_missing_token_is_logged_at_start() -> None:
    with capture_logs() as logs:
        assert read_token(check_config(BASE)) is None
    (entry,) = logs
    assert entry["log_level"] == "warning"
    assert "admin.token.file is not set" in entry["event"]
