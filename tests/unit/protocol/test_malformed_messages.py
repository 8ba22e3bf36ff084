"""Bytes that are no message: one kind of error, and memory in proportion to the input."""

import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_node.protocol.apis import API_VERSIONS, APIS, FETCH
from quorum_node.protocol.broker_apis import BROKER_APIS
from quorum_node.protocol.configs import DescribeConfigsResponse, DescribeConfigsResult
from quorum_node.protocol.fetch import FetchRequest
from quorum_node.protocol.frames import (
    UnsupportedRequest,
    decode_request,
    decode_response,
    encode_request,
    read_size,
)
from quorum_node.protocol.heartbeat import HeartbeatRequest
from quorum_node.protocol.metadata import MetadataRequest
from quorum_node.schema.codec import decode, encode
from quorum_node.schema.encoder import FieldNotInVersion
from quorum_node.schema.primitives import encode_uvarint
from quorum_node.schema.schema import MalformedMessage, Message
from support.wire_messages import messages

SERVED = [
    (api, version, cls)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
    for cls in (api.request, api.response)
]
# What only many inputs find is looked for by tests/fuzz.
ENTIRE = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def decodes_or_is_refused(cls: type[Message], version: int, data: bytes) -> None:
    """What decodes, encodes and decodes to the same; the rest is MalformedMessage and nothing else."""
    try:
        message = decode(cls, version, data)
    except MalformedMessage:
        return
    assert decode(cls, version, encode(message, version)) == message


@ENTIRE
@given(st.sampled_from(SERVED), st.binary(max_size=300))
def test_random_bytes_are_rejected(served: Any, data: bytes) -> None:
    _, version, cls = served
    decodes_or_is_refused(cls, version, data)


@ENTIRE
@given(st.sampled_from(SERVED), st.data())
def test_mutated_and_truncated_messages_are_rejected(served: Any, data: Any) -> None:
    _, version, cls = served
    whole = bytearray(encode(data.draw(messages(cls, version)), version))
    for _ in range(data.draw(st.integers(0, 3))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(0, len(whole)))
    decodes_or_is_refused(cls, version, bytes(whole[:size]))


@ENTIRE
@given(st.sampled_from(SERVED), st.data())
def test_every_message_survives_a_round_trip_with_private_and_unknown_tags(
    served: Any, data: Any
) -> None:
    api, version, cls = served
    message = data.draw(messages(cls, version))
    if version >= api.flexible_since:
        unknown = ((900, b"unknown"), (30000, b""))
        message = replace(message, tagged_fields=unknown)
    assert decode(cls, version, encode(message, version)) == message


@pytest.mark.parametrize("served", SERVED, ids=lambda s: f"{s[0].name}-{s[1]}-{s[2].__name__}")
def test_every_strict_prefix_is_rejected(served: Any) -> None:
    """Nothing is read beyond the end, and nothing missing is made up."""
    _, version, cls = served
    whole = _example(cls, version)
    for size in range(len(whole)):
        with pytest.raises(MalformedMessage):
            decode(cls, version, whole[:size])
    with pytest.raises(MalformedMessage):
        decode(cls, version, whole + b"\0")


def _example(cls: type[Message], version: int) -> bytes:
    """The longest of a few, the same in every run: the last of many would be shorter, and drawing takes longer than decoding."""
    found: list[bytes] = []

    @settings(max_examples=5, deadline=None, derandomize=True, database=None)
    @given(messages(cls, version))
    def draw(message: Message) -> None:
        found.append(encode(message, version))

    draw()
    return max(found, key=len)


@ENTIRE
@given(st.binary(max_size=200))
def test_frames_of_random_bytes_are_rejected(data: bytes) -> None:
    try:
        decode_request(data)
    except MalformedMessage:
        pass
    for api in (API_VERSIONS, FETCH):
        try:
            decode_response(api, api.max_version, data)
        except MalformedMessage:
            pass


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SERVED), st.binary(min_size=50, max_size=2000))
def test_memory_is_proportional_to_the_input(served: Any, data: bytes) -> None:
    """A length that promises gigabytes is compared with what is there before anything is made."""
    _, version, cls = served
    decodes_or_is_refused(cls, version, b"")  # compiled outside of the measurement
    tracemalloc.start()
    try:
        decode(cls, version, data)
    except MalformedMessage:
        pass
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < 64 * 1024 + 300 * len(data)


_LARGEST = 8 << 20
_DESCRIBE = struct.pack(">hhih", 55, 0, 7, -1)
_TOPIC = b"\1\1\0"
"""Three bytes that would become an object: an empty name, no partitions, no tagged fields."""


def _tags(count: int) -> bytes:
    return encode_uvarint(count) + b"".join(encode_uvarint(n + 1) + b"\0" for n in range(count))


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(
            lambda: struct.pack(">hhihiiiibi", 1, 4, 7, -1, 0, 0, 0, 0, 0, 1_300_000) + b"\0" * 7_800_000,
            id="topics-before-compact-forms",
        ),
        pytest.param(
            lambda: _DESCRIBE + b"\0" + encode_uvarint(2_700_001) + _TOPIC * 2_700_000 + b"\0", id="topics"
        ),
        pytest.param(
            lambda: _DESCRIBE + b"\0" + encode_uvarint(49_001) + _TOPIC * 49_000 + b"\0", id="as-many-as-go"
        ),
        pytest.param(lambda: _DESCRIBE + _tags(500_000), id="tags-of-the-header"),
        pytest.param(lambda: _DESCRIBE + b"\0\1" + _tags(500_000), id="tags-of-the-body"),
        pytest.param(
            lambda: struct.pack(">hhihb", 18, 4, 7, -1, 0) + encode_uvarint(_LARGEST - 100)
            + "😀".encode() + b"a" * (_LARGEST - 105) + b"\2x\0",
            id="a-string-of-wide-characters",
        ),
    ],
)  # fmt: skip
def test_frame_memory_stays_within_the_connection_limit(made: Callable[[], bytes]) -> None:
    """64 MiB, of which the frame itself takes eight."""
    frame = made()
    assert len(frame) <= _LARGEST
    try:
        decode_request(b"")
    except MalformedMessage:
        pass
    tracemalloc.start()
    try:
        decode_request(memoryview(frame))  # as a connection gives it
    except MalformedMessage:
        pass
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < (64 << 20) - _LARGEST


def test_array_longer_than_the_remaining_input_is_rejected_before_allocation() -> None:
    huge = b"\0" * 4 + b"\0" * 4 + b"\0" * 4 + b"\0" + b"\0" * 8 + b"\xff\xff\xff\xff\x07"
    with pytest.raises(MalformedMessage, match="too long"):
        decode(FetchRequest, 18, huge + b"\0" * 1000)


def test_frame_size_outside_the_limit_is_rejected() -> None:
    assert read_size(b"\0\0\0\x07", 100) == 7
    for size in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"):
        with pytest.raises(MalformedMessage, match="limit"):
            read_size(size, 100)


def test_unknown_apis_and_versions_are_distinguished_from_invalid_bytes() -> None:
    for head in (
        b"\x03\xe7\0\0",
        b"\0\x01\0\x03",
        b"\0\x01\0\x13",
        b"\0\x34\0\x03",
        b"\0\x12\xff\xff",
    ):
        with pytest.raises(UnsupportedRequest):
            decode_request(head + b"\0\0\0\x01\xff\xff\0")


def test_future_api_versions_request_is_answered() -> None:
    """KIP-511: the answer has version 0, so the header alone must do."""
    request = decode_request(b"\0\x12\0\x63\0\0\0\x07\0\x01x\xde\xad\xbe\xef")
    assert (request.api, request.correlation_id, request.client_id) == (API_VERSIONS, 7, "x")
    assert request.body is None


@ENTIRE
@given(st.sampled_from(SERVED), st.data())
def test_request_frames_are_parsed(served: Any, data: Any) -> None:
    api, version, _ = served
    body = data.draw(messages(api.request, version))
    frame = encode_request(api, version, 42, "tester", body)
    assert read_size(frame, 1 << 20) == len(frame) - 4
    request = decode_request(memoryview(frame)[4:])
    assert (request.api, request.version, request.correlation_id) == (api, version, 42)
    assert (request.client_id, request.body) == ("tester", body)


def test_string_length_limit_is_that_of_kafka() -> None:
    """Longer ones could not be written into the records of a group, which have no flexible format."""
    longest = HeartbeatRequest(group_id="é" * 16_383 + "a", member_id="m", generation_id=1)
    assert decode(HeartbeatRequest, 4, encode(longest, 4)) == longest
    for version in (3, 4):
        with pytest.raises((MalformedMessage, FieldNotInVersion)):
            decode(HeartbeatRequest, version, encode(replace(longest, member_id="m" * 32_768), version))  # fmt: skip


@pytest.mark.parametrize("member", [{"member_id": "m" * 32_768}, {"generation_id": 1 << 31}])
def test_value_that_does_not_fit_into_its_field_is_named(member: dict[str, Any]) -> None:
    """The connection of the request is closed then; a struct.error would end the node."""
    body = HeartbeatRequest(**{"group_id": "g", "member_id": "m", "generation_id": 1, **member})
    with pytest.raises(FieldNotInVersion, match="HeartbeatRequest version 3"):
        encode(body, 3)


@pytest.mark.parametrize("version", [0, 4])
def test_error_message_is_truncated(version: int) -> None:
    """It quotes names of the request, which alone can be as long as a string may be."""
    text = "é" * 32_767
    answer = DescribeConfigsResponse(
        results=(
            DescribeConfigsResult(
                error_code=1, error_message=text, resource_type=2, resource_name="t", configs=()
            ),
        )
    )
    (found,) = decode(DescribeConfigsResponse, version, encode(answer, version)).results
    assert found.error_message == text[:8_000]
    empty = replace(answer, results=(replace(found, error_message=None),))
    assert decode(DescribeConfigsResponse, version, encode(empty, version)) == empty


def test_metadata_request_of_librdkafka_for_all_topics_is_read() -> None:
    """As librdkafka 2.16.0 sends it: the first byte of its array is the whole null array, and three more bytes follow."""
    frame = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    body = decode_request(frame, BROKER_APIS).body
    assert isinstance(body, MetadataRequest)
    assert body.topics is None
    assert not body.include_topic_authorized_operations
