"""Large requests are decoded and answered on a thread: the loop goes on, and the order of answers stays."""

import asyncio
import threading
from collections.abc import Callable

from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS, DESCRIBE_CONFIGS
from quorum_node.protocol.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from quorum_node.protocol.frames import Request, encode_request, encode_response_parts
from quorum_node.schema.primitives import Buffer
from quorum_node.schema.schema import Message
from quorum_node.server.listener.kafka_connection import KafkaConnection
from quorum_node.server.listener.kafka_listener import KafkaListener
from quorum_node.server.listener.large_messages import (
    LARGE_FETCH_BYTES,
    LARGE_MESSAGE_BYTES,
    may_take_long,
)
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.observing.metrics import Metrics
from support.kept_bytes import Wire
from support.listener_settings import listener_settings

RESOURCES = 4000
SMALL_ANSWER = ApiVersionsResponse(error_code=0, api_keys=())


def small(number: int) -> bytes:
    body = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    return encode_request(API_VERSIONS, 3, number, "me", body)


def large(number: int) -> bytes:
    names = (f"topic-{each}" for each in range(RESOURCES))
    resources = tuple(
        DescribeConfigsResource(resource_type=2, resource_name=each) for each in names
    )
    body = DescribeConfigsRequest(resources=resources)
    return encode_request(DESCRIBE_CONFIGS, 4, number, "me", body)


def description(body: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=tuple(
            DescribeConfigsResult(
                error_code=0, resource_type=2, resource_name=each.resource_name, configs=()
            )
            for each in body.resources
        )
    )


class Env:
    """A connection whose decoding of large requests waits until it is allowed. Threads are noted by what they did."""

    def __init__(self) -> None:
        self.threads: dict[str, threading.Thread] = {}
        self.may_decode = threading.Event()
        self.refused: list[str] = []
        self.listener = KafkaListener(
            listener_settings(max_request_bytes=1 << 20),
            self._handle,
            Metrics(),
            lambda why, detail, peer: self.refused.append(why),
        )
        decode = self.listener.decode
        self.listener.decode = lambda frame: self._decode(decode, frame)
        self.wire = Wire()
        self.connection = KafkaConnection(self.listener)
        self.connection.connection_made(self.wire)

    def _decode(self, decode: Callable[[Buffer], Request], frame: Buffer) -> Request:
        if len(frame) > 1000:
            self.threads["decoded"] = threading.current_thread()
            assert self.may_decode.wait(10)
        return decode(frame)

    def _handle(self, inbound: InboundRequest) -> None:
        body = inbound.request.body
        if not isinstance(body, DescribeConfigsRequest):
            inbound.reply(SMALL_ANSWER)
            return
        self.threads["handled"] = threading.current_thread()

        def make() -> Message:
            self.threads["made"] = threading.current_thread()
            return description(body)

        inbound.reply_made(make)

    async def answers(self, count: int) -> list[int]:
        """Correlation ids, once there are so many answers."""
        await self.wire.until(lambda: len(self.wire.correlation_ids()) >= count)
        return self.wire.correlation_ids()


async def test_large_request_is_decoded_and_answered_on_a_thread_and_handled_on_the_loop() -> None:
    env = Env()
    env.connection.data_received(large(1))
    assert env.connection.in_flight == 1
    env.may_decode.set()
    assert await env.answers(1) == [1]
    loop_thread = threading.current_thread()
    assert env.threads["handled"] is loop_thread
    assert loop_thread not in (env.threads["decoded"], env.threads["made"])
    assert env.connection.in_flight == 0


async def test_requests_after_a_large_one_wait_for_it_and_others_do_not() -> None:
    env = Env()
    other, its_wire = KafkaConnection(env.listener), Wire()
    other.connection_made(its_wire)
    env.connection.data_received(small(1) + large(2) + small(3))
    env.connection.data_received(small(4))
    assert not env.wire.reads
    other.data_received(small(9))
    await its_wire.until(lambda: its_wire.correlation_ids() == [9])
    assert env.wire.correlation_ids() == [1]
    env.may_decode.set()
    assert await env.answers(4) == [1, 2, 3, 4]
    assert env.wire.reads


async def test_large_request_that_is_malformed_closes_the_connection() -> None:
    env = Env()
    whole = large(1)
    size_bytes = len(whole) - 4 - 100
    env.connection.data_received(size_bytes.to_bytes(4, "big") + whole[4 : 4 + size_bytes])
    env.may_decode.set()
    await env.wire.until(lambda: env.wire.is_closed)
    assert env.refused == ["malformed"]


async def test_connection_that_is_lost_meanwhile_is_not_answered() -> None:
    env = Env()
    env.connection.data_received(large(1))
    env.connection.connection_lost(None)
    env.may_decode.set()
    done = asyncio.Event()
    env.listener.large_messages.run(env, lambda: None, lambda made, seconds: done.set())
    await asyncio.wait_for(done.wait(), 10)
    assert "handled" not in env.threads
    assert not env.wire.written


async def test_retired_connection_is_closed_after_the_answer_to_a_large_request() -> None:
    env = Env()
    env.connection.data_received(large(1))
    env.connection.retire()
    assert not env.wire.is_closed
    env.may_decode.set()
    assert await env.answers(1) == [1]
    await env.wire.until(lambda: env.wire.is_closed)


async def test_answers_after_the_listeners_are_closed_are_dropped() -> None:
    """A commit may fail during the stop of a node, which answers its request."""
    env = Env()
    env.listener.large_messages.run("owner", lambda: None, lambda made, seconds: None)
    env.listener.large_messages.close()
    env.listener.large_messages.run("owner", lambda: None, lambda made, seconds: None)


def test_many_items_make_few_parts_and_large_records_are_not_copied() -> None:
    body = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(resource_type=2, resource_name=f"t{each}")
            for each in range(RESOURCES)
        )
    )
    answer = description(body)
    parts = encode_response_parts(DESCRIBE_CONFIGS, 4, 1, answer)
    assert len(parts) == 1
    assert int.from_bytes(parts[0][:4], "big") == len(parts[0]) - 4


async def test_owners_take_turns_on_the_thread() -> None:
    env = Env()
    messages = env.listener.large_messages
    begun, order, done = threading.Event(), list[str](), asyncio.Event()

    def note(name: str) -> Callable[[], None]:
        return lambda: order.append(name)

    def ended(made: object, seconds: float) -> None:
        if len(order) == 4:
            done.set()

    messages.run("first", begun.wait, ended)
    for name in ("a1", "a2", "a3"):
        messages.run("a", note(name), ended)
    messages.run("b", note("b1"), ended)
    begun.set()
    await asyncio.wait_for(done.wait(), 10)
    assert order == ["a1", "b1", "a2", "a3"]


def test_fetches_and_short_requests_are_decoded_at_once() -> None:
    produce, fetch, other = b"\0\0", b"\0\1", b"\0\x13"
    assert not may_take_long(other + bytes(LARGE_MESSAGE_BYTES - 3))
    assert may_take_long(other + bytes(LARGE_MESSAGE_BYTES))
    assert not may_take_long(fetch + bytes(LARGE_MESSAGE_BYTES))
    assert may_take_long(fetch + bytes(LARGE_FETCH_BYTES))
    assert not may_take_long(produce + bytes(LARGE_FETCH_BYTES))
