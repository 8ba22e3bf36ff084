"""Finds the leader of our nodes or of Kafka's controllers, by DescribeQuorum."""

import ssl
import time

from quorum_node.protocol.describe import (
    DescribeQuorumResponsePartition,
)
from support.quorum_description import describe_quorum

Address = tuple[str, int]


def await_leader(
    addresses: list[Address], timeout_seconds: float = 60.0, tls: ssl.SSLContext | None = None
) -> tuple[int, DescribeQuorumResponsePartition]:
    """Wait for the leader; returns its index and its description of the quorum."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        for index, address in enumerate(addresses):
            found = describe_quorum(address, tls=tls)
            if found is not None and found.high_watermark > 0:
                return index, found
        time.sleep(0.05)
    raise TimeoutError(f"no leader among {addresses}")
