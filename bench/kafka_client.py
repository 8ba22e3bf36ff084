"""A blocking client for one request at a time, and the config write that all load consists of.

Owns what the benchmark says to a Kafka-protocol node; serves our nodes and Kafka's controllers alike.
"""

import socket
import struct
import time

from quorum_node.protocol.apis import DESCRIBE_QUORUM, INCREMENTAL_ALTER_CONFIGS, Api
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.describe import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
)
from quorum_node.protocol.frames import decode_response, encode_request
from quorum_node.protocol.schema import MalformedMessage, Message

METADATA_TOPIC = "__cluster_metadata"
BROKER = 4
WRITE_VERSION = 1
Address = tuple[str, int]


def ask(address: Address, api: Api, version: int, body: Message, timeout_seconds: float) -> Message:
    """One request on a connection of its own. Raises OSError, or MalformedMessage."""
    with socket.create_connection(address, timeout_seconds) as connection:
        connection.sendall(encode_request(api, version, 1, "bench", body))
        frame = b""
        size = None
        while size is None or len(frame) < size + 4:
            data = connection.recv(65536)
            if not data:
                raise ConnectionResetError("closed in the middle of an answer")
            frame += data
            if size is None and len(frame) >= 4:
                (size,) = struct.unpack_from(">i", frame)
    return decode_response(api, version, frame[4:])


def describe(
    address: Address, timeout_seconds: float = 1.0
) -> DescribeQuorumResponsePartition | None:
    """The quorum as this node's leader sees it, None when it can't be had there now."""
    partition = DescribeQuorumRequestPartition(partition_index=0)
    topic = DescribeQuorumRequestTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    try:
        answer = ask(
            address, DESCRIBE_QUORUM, 2, DescribeQuorumRequest(topics=(topic,)), timeout_seconds
        )
    except (OSError, MalformedMessage):
        return None
    assert isinstance(answer, DescribeQuorumResponse)
    if answer.error_code != 0 or not answer.topics:
        return None
    found = answer.topics[0].partitions[0]
    return found if found.error_code == 0 else None


def await_leader(
    addresses: list[Address], timeout_seconds: float = 60.0
) -> tuple[int, DescribeQuorumResponsePartition]:
    """Index of the node that describes the quorum as its leader, and the description."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        for index, address in enumerate(addresses):
            found = describe(address)
            if found is not None and found.high_watermark > 0:
                return index, found
        time.sleep(0.05)
    raise TimeoutError(f"no leader among {addresses}")


def write_request(key: str, value: str) -> IncrementalAlterConfigsRequest:
    """One config change of the cluster-wide broker default: needs no broker and no topic."""
    change = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(change,))
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def write_frame(key: str, value_bytes: int, correlation_id: int = 0) -> bytes:
    """The whole frame of a write; bytes 8 to 12 hold the correlation id."""
    body = write_request(key, "v" * value_bytes)
    return encode_request(INCREMENTAL_ALTER_CONFIGS, WRITE_VERSION, correlation_id, "bench", body)


def write_error(frame: bytes) -> int:
    """Error code of the answer to a write (frame without its size)."""
    answer = decode_response(INCREMENTAL_ALTER_CONFIGS, WRITE_VERSION, frame)
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code


def write_once(address: Address, key: str = "probe", timeout_seconds: float = 2.0) -> int | None:
    """Error code of one write to this node, None when there was no answer."""
    try:
        answer = ask(
            address,
            INCREMENTAL_ALTER_CONFIGS,
            WRITE_VERSION,
            write_request(key, "v"),
            timeout_seconds,
        )
    except (OSError, MalformedMessage):
        return None
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code
