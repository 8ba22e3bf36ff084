"""Checks, before a founder formats an empty directory, whether the cluster exists already.

A founder whose disk was emptied after the formation must not found a second quorum under the same name, nor continue its old identity
with an empty log (KIP-595, the guard of `--bootstrap`). Every bootstrap server is queried once; if one reports a cluster, founding is
refused. A server that can't be reached is ignored: at a first formation the others may not be running yet.
"""

import threading
from collections.abc import Sequence

from quorum_node.host_port import HostPort
from quorum_node.protocol.apis import DESCRIBE_CLUSTER
from quorum_node.protocol.describe import (
    ENDPOINTS_OF_CONTROLLERS,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from quorum_node.protocol.frames import decode_response, encode_request, read_frame
from quorum_node.schema.schema import MalformedMessage
from quorum_node.server.starting.startup_connections import Dial, dial_in_clear_text

_ONE_SECONDS = 1.0
_ALL_SECONDS = 2.0
_VERSION = 1
_MAX_ANSWER_BYTES = 1 << 20


def existing_cluster(
    servers: Sequence[HostPort], dial: Dial = dial_in_clear_text
) -> tuple[HostPort, str] | None:
    """The first server that reports a cluster, and the cluster's id; None if none does."""
    found = known_clusters(servers, dial)
    return found[0] if found else None


def known_clusters(
    servers: Sequence[HostPort], dial: Dial = dial_in_clear_text
) -> list[tuple[HostPort, str]]:
    """The servers that report a cluster, with its id, in the order of their answers. All are queried in parallel."""
    found: list[tuple[HostPort, str]] = []

    def ask(server: HostPort) -> None:
        cluster_id = _ask(server, dial)
        if cluster_id:
            found.append((server, cluster_id))

    threads = [threading.Thread(target=ask, args=(s,), daemon=True) for s in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_ALL_SECONDS)
    return list(found)


def _ask(server: HostPort, dial: Dial) -> str | None:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=ENDPOINTS_OF_CONTROLLERS
    )
    frame = encode_request(DESCRIBE_CLUSTER, _VERSION, 1, "founding-guard", request)
    try:
        with dial(server, _ONE_SECONDS) as connection:
            connection.sendall(frame)
            answer = read_frame(connection.recv, _MAX_ANSWER_BYTES)
        body = decode_response(DESCRIBE_CLUSTER, _VERSION, answer)
    except (OSError, MalformedMessage):
        return None
    assert isinstance(body, DescribeClusterResponse)
    return body.cluster_id or None
