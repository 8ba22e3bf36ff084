"""Frames of the config write that is used as load on nodes with Kafka's protocol."""

from quorum_node.protocol.apis import INCREMENTAL_ALTER_CONFIGS
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.frames import decode_response, encode_request
from quorum_node.schema.schema import Message

BROKER = 4
WRITE_VERSION = 1


def write_request(key: str, value: str) -> IncrementalAlterConfigsRequest:
    """One change of the cluster-wide broker default, which needs no broker and no topic."""
    change = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(change,))
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def write_many(prefix: str, count: int) -> IncrementalAlterConfigsRequest:
    """Many config changes of 256 bytes in one request."""
    changes = tuple(
        AlterableConfig(name=f"{prefix}-{number}", config_operation=0, value="v" * 256)
        for number in range(count)
    )
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=changes)
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def write_frame(key: str, value_bytes: int, correlation_id: int = 0) -> bytes:
    """The whole frame of a write; bytes 8 to 12 hold the correlation id."""
    body = write_request(key, "v" * value_bytes)
    return encode_request(INCREMENTAL_ALTER_CONFIGS, WRITE_VERSION, correlation_id, "bench", body)


def write_error(frame: bytes) -> int:
    """Error code of the answer to a write (frame without its size)."""
    return write_error_of(decode_response(INCREMENTAL_ALTER_CONFIGS, WRITE_VERSION, frame))


def write_error_of(answer: Message) -> int:
    """Error code of a decoded answer to a write."""
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code
