"""Many brokers without data in one process: each registers, and renews its lease over its own connection.

A controller can't distinguish them from real brokers; our nodes and Kafka's controllers receive the same bytes. Real brokers also follow
the metadata log; here one connection does so for all (`followed_log.py`), because two cores could not run a hundred followers besides the
measured controllers.
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from kafka_client import Address
from time_limits import within

from quorum_node.protocol.api import Api
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS, BROKER_HEARTBEAT, BROKER_REGISTRATION
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegisteredListener,
    SupportedFeatureRange,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import SIZE_BYTES, decode_response, encode_request
from quorum_node.schema.schema import Message

FIRST_BROKER_ID = 101
"""Brokers and controllers share one id space."""
HEARTBEAT_SECONDS = 2.0
"""Kafka's default, `broker.heartbeat.interval.ms`."""
SESSION_SECONDS = 9.0
"""Both systems' default, `broker.session.timeout.ms`."""
HEARTBEAT_VERSION = 1
REGISTRATION_VERSION = 4
RETRY_SECONDS = 0.05
START_SECONDS = 60.0
APPLIED_ALL = 1 << 40
"""A metadata offset that counts as up to date: these brokers have no state that could be stale."""
_ANSWER_BYTES = 64 << 20
_TRY_AGAIN = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""Elsewhere, or when a stock controller has less to do."""


class Connection:
    """One request in flight, to one address."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0

    @classmethod
    async def open(cls, address: Address) -> "Connection":
        """Raises OSError."""
        return cls(*await asyncio.open_connection(*address, limit=_ANSWER_BYTES))

    async def ask(self, api: Api, version: int, body: Message) -> Message:
        """The response. Raises OSError or EOFError if the connection is closed."""
        self._correlation_id += 1
        frame = encode_request(api, version, self._correlation_id, "light-broker", body)
        return decode_response(api, version, await self.exchange(frame))

    async def exchange(self, frame: bytes) -> bytes:
        """The frame of the response without its size."""
        self._writer.write(frame)
        size = int.from_bytes(await self._reader.readexactly(SIZE_BYTES), "big")
        return await self._reader.readexactly(size)

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


@dataclass
class LightBroker:
    """One broker: its state and the durations of its heartbeats."""

    id: int
    addresses: list[Address]
    cluster_id: str
    epoch: int = -1
    unfenced: asyncio.Event = field(default_factory=asyncio.Event)
    latencies: list[tuple[float, float]] = field(default_factory=list)
    """When a heartbeat was answered, and after how many seconds."""
    _target: int = 0
    _spread: bool = False
    _task: asyncio.Task[None] | None = None

    @property
    def directory(self) -> UUID:
        """Id of its only log directory."""
        return UUID(int=(1 << 100) + self.id)

    def start(self) -> None:
        """Register, and send heartbeats from now on."""
        self._task = asyncio.create_task(self._live())

    def check(self) -> None:
        """Raise the exception that ended it, if there is one."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def fall_silent(self) -> float:
        """Send the last heartbeat; returns the time of its answer."""
        await self.stop()
        connection = await self._connected()
        await self._beat(connection)
        connection.close()
        return self.latencies[-1][0]

    async def ask_to_be_fenced(self) -> float:
        """Ask to be fenced, as in an uncontrolled shutdown; returns the time of the request."""
        await self.stop()
        connection = await self._connected()
        asked = time.perf_counter()
        await connection.ask(BROKER_HEARTBEAT, HEARTBEAT_VERSION, self._heartbeat(want_fence=True))
        connection.close()
        return asked

    async def stop(self) -> None:
        """No more heartbeats."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _live(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                try:
                    connection = connection or await self._connected()
                    if self.epoch < 0:
                        accepted = await self._register(connection)
                    else:
                        accepted = await self._beat(connection)
                except (OSError, EOFError):
                    accepted = False
                if accepted:
                    await asyncio.sleep(self._pause_seconds())
                    continue
                if connection is not None:
                    connection.close()
                    connection = None
                self._target = (self._target + 1) % len(self.addresses)
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            if connection is not None:
                connection.close()

    def _pause_seconds(self) -> float:
        """Pause before the next heartbeat: none until it is unfenced; then the brokers are spread over the heartbeat interval."""
        if not self.unfenced.is_set():
            return 0.0
        if self._spread:
            return HEARTBEAT_SECONDS
        self._spread = True
        return HEARTBEAT_SECONDS * (self.id % 100) / 100

    async def _connected(self) -> Connection:
        return await Connection.open(self.addresses[self._target])

    async def _register(self, connection: Connection) -> bool:
        request = BrokerRegistrationRequest(
            broker_id=self.id,
            cluster_id=self.cluster_id,
            incarnation_id=uuid4(),
            listeners=(
                RegisteredListener(
                    name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0
                ),
            ),
            features=await _features(connection),
            rack=None,
            log_dirs=(self.directory,),
        )
        answer = await connection.ask(BROKER_REGISTRATION, REGISTRATION_VERSION, request)
        assert isinstance(answer, BrokerRegistrationResponse)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.broker_epoch
        return self._accepted(answer.error_code)

    async def _beat(self, connection: Connection) -> bool:
        sent = time.perf_counter()
        answer = await connection.ask(BROKER_HEARTBEAT, HEARTBEAT_VERSION, self._heartbeat())
        assert isinstance(answer, BrokerHeartbeatResponse)
        if not self._accepted(answer.error_code):
            return False
        now = time.perf_counter()
        self.latencies.append((now, now - sent))
        if not answer.is_fenced:
            self.unfenced.set()
        return True

    def _heartbeat(self, *, want_fence: bool = False) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=APPLIED_ALL,
            want_fence=want_fence,
            want_shut_down=False,
        )

    def _accepted(self, error: int) -> bool:
        if error not in (ErrorCode.NONE, *_TRY_AGAIN):
            raise RuntimeError(f"broker {self.id}: error {error}")
        return error == ErrorCode.NONE


async def _features(connection: Connection) -> tuple[SupportedFeatureRange, ...]:
    """All features that the controller supports, in either system."""
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    answer = await connection.ask(API_VERSIONS, 4, request)
    assert isinstance(answer, ApiVersionsResponse)
    return tuple(
        SupportedFeatureRange(
            name=each.name,
            min_supported_version=each.min_version,
            max_supported_version=each.max_version,
        )
        for each in answer.supported_features
    )


class LightBrokers:
    """`count` brokers, from `FIRST_BROKER_ID` on. Use as an asynchronous context manager: inside, all of them are unfenced."""

    def __init__(self, addresses: list[Address], cluster_id: str, count: int) -> None:
        self.by_id = {
            each: LightBroker(each, addresses, cluster_id)
            for each in range(FIRST_BROKER_ID, FIRST_BROKER_ID + count)
        }

    async def __aenter__(self) -> "LightBrokers":
        for broker in self.by_id.values():
            broker.start()
        await self.all_unfenced()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for broker in self.by_id.values():
            await broker.stop()

    async def all_unfenced(self) -> None:
        """Wait until all are unfenced. Raises TimeoutError, or the exception that ended a broker."""
        async with within(START_SECONDS, "all brokers unfenced"):
            for broker in self.by_id.values():
                while not broker.unfenced.is_set():
                    broker.check()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(broker.unfenced.wait(), 1.0)

    def slowest_ms(self, since: float, until: float) -> float:
        """The longest duration of a heartbeat that was in flight between two times."""
        found = [
            took
            for broker in self.by_id.values()
            for at, took in broker.latencies
            if since <= at and at - took <= until
        ]
        return 1e3 * max(found, default=0.0)
