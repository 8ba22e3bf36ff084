"""Bodies of HTTP requests: those that only read may be small only, because a body is parsed at once in the node's loop."""

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import Headers

from quorum_node.image.committed import CommittedImage
from quorum_node.security.authorizer import AuthorizerSettings
from quorum_node.security.caller import Caller
from quorum_node.security.certificate_identity import CertificateIdentity, Role
from quorum_node.security.rights.request_authorizer import AccessSettings
from quorum_node.server.admin.authorization import (
    MAX_BODY_BYTES,
    MAX_READ_BODY_BYTES,
    refusal_by_authorizer,
)
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.rights.denials import Denials
from quorum_node.server.rights.guard import CachingGuard

DESCRIBE, CHANGE = "/v1/reassignments/describe", "/v1/reassignments"


def status(role: Role, path: str, size_bytes: int) -> int:
    """Status of the refusal of a POST; 0 if it is allowed."""
    replica: Any = SimpleNamespace(
        committed=CommittedImage(), high_watermark=0, knows_commits=lambda: True
    )
    guard = CachingGuard(
        AccessSettings(AuthorizerSettings(enabled=True)), replica, frozenset, Denials(Metrics())
    )
    caller = Caller("User:x", "10.0.0.1", "ADMIN", CertificateIdentity("n", "q", role))
    headers = Headers({"content-length": str(size_bytes)})
    refused = refusal_by_authorizer(guard, {"method": "POST", "path": path}, headers, caller)
    return 0 if refused is None else refused.status


@pytest.mark.parametrize("role", [Role.READER, Role.ARCHIVER, Role.ADMIN])
def test_large_body_of_a_request_that_only_reads_is_refused(role: Role) -> None:
    assert status(role, DESCRIBE, MAX_READ_BODY_BYTES) == 0
    assert status(role, DESCRIBE, MAX_READ_BODY_BYTES + 1) == 413


def test_description_of_the_largest_number_of_partitions_fits_into_the_limit() -> None:
    one = f'{{"topic": "{"t" * 249}", "partition": {2**31 - 1}}}, '
    assert 1000 * len(one) < MAX_READ_BODY_BYTES


def test_changes_may_be_large() -> None:
    assert status(Role.OPERATOR, CHANGE, MAX_BODY_BYTES) == 0
    assert status(Role.OPERATOR, CHANGE, MAX_BODY_BYTES + 1) == 413
    assert status(Role.READER, CHANGE, 1) == 403
