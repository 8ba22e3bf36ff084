"""A port where clients log in without TLS, over real sockets: how many may begin, and who waits for whom."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from quorum_node.configuration.listener_config import SaslConfig
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.protocol.frames import encode_request
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.security.scram.sasl_session import Credentials
from quorum_node.server.listener.kafka_listener import KafkaListener
from quorum_node.server.observing.metrics import Metrics
from support.listener_settings import listener_settings
from support.ports import free_ports

RATE = 5
HELLO = encode_request(API_VERSIONS, 3, 1, "me", ApiVersionsRequest())


class Stored:
    """Nobody logs in here."""

    are_loaded = False
    version = object()

    def key_of(self, mechanism: ScramMechanism, user: str) -> None: ...

    def credentials(self) -> Credentials:
        raise AssertionError("nobody logs in")


@asynccontextmanager
async def port(*, most: int, rate: int) -> AsyncIterator[KafkaListener]:
    (number,) = free_ports(1)
    sasl = SaslConfig((ScramMechanism.SHA_512,), logins_max=most, logins_rate=rate)
    made = KafkaListener(
        replace(listener_settings("TOOLS", port=number), sasl=sasl),
        lambda inbound: inbound.reply(ApiVersionsResponse(error_code=0, api_keys=())),
        Metrics(),
        lambda why, detail, peer: None,
        stored=Stored(),
    )
    await made.start()
    yield made
    await made.close(1.0)


def come_from(address: str, listener: KafkaListener) -> socket.socket:
    to = ("127.0.0.1", listener.settings.address.port)
    return socket.create_connection(to, source_address=(address, 0))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what changes is in the code under test
            await asyncio.sleep(0.01)


def allowed(began: float, rate: int) -> float:
    """How many logins may have begun since then: a second's at once, and two more for what is under way."""
    return rate * (1 + asyncio.get_running_loop().time() - began) + 2


async def test_logins_begin_at_a_bounded_rate_with_fair_turns_per_address() -> None:
    """A flood waits for itself: who comes from elsewhere is next, though many wait already."""
    async with port(most=64, rate=RATE) as listener:
        began = asyncio.get_running_loop().time()
        flood = [come_from("127.0.0.9", listener) for _ in range(20)]
        await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(sock=come_from("127.0.0.1", listener))
        writer.write(HELLO)
        async with asyncio.timeout(10):
            await reader.readexactly(4)
        assert len(listener.connections) <= allowed(began, RATE), "the flood has begun at once"
        writer.close()
        for each in flood:
            each.close()


async def test_clients_that_wait_for_their_turn_are_limited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The oldest one of the address with the most is closed, and reported."""
    async with port(most=4, rate=1) as listener:
        began = asyncio.get_running_loop().time()
        flood = [come_from("127.0.0.9", listener) for _ in range(8)]
        closed = listener._metrics.labelled["connections_closed"]
        await until(lambda: closed.get("tools login", 0) >= 3)
        assert len(listener.connections) <= allowed(began, 1)
        for each in flood:
            each.close()
    assert "quorum.handshakes.max" in "".join(capsys.readouterr())
