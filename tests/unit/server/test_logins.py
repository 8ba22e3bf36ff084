"""Clients of a SASL listener, frame by frame: bounds before the login, late answers to failed ones, and how long a login is good."""

import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.configuration.listener_config import SaslConfig
from quorum_node.protocol import apis, elections
from quorum_node.protocol.api import Api
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.frames import SIZE_BYTES, decode_response, encode_request
from quorum_node.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.schema.schema import Message
from quorum_node.security.scram.credential import Decoy, made_from_password
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.security.scram.sasl_session import Credentials
from quorum_node.server.listener.fair_turns import FairTurns
from quorum_node.server.listener.kafka_connection import KafkaConnection
from quorum_node.server.listener.kafka_listener import KafkaListener, LoopShares
from quorum_node.server.listener.logins import MAX_VERSIONS_REQUESTS, Logins
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.observing.metrics import Metrics
from support.known_user import Known
from support.listener_settings import listener_settings
from support.scram_client import first_message, last_message

SHA_512 = ScramMechanism.SHA_512
DELAY_MS = 50
VERSIONS = ApiVersionsRequest(client_software_name="x", client_software_version="1")


class Stored:
    """alice and bob, with passwords that can be changed."""

    def __init__(self) -> None:
        self.are_loaded = True
        self.by_user: dict[str, UserScramCredentialRecord] = {}
        self.version: object = object()
        for user in ("alice", "bob"):
            self.set(user, user)

    def set(self, user: str, password: str) -> None:
        made = made_from_password(SHA_512, password, b"salt of " + password.encode(), 4096)
        self.by_user[user] = made.record(user, SHA_512)
        self.version = object()

    def key_of(self, mechanism: ScramMechanism, user: str) -> UserScramCredentialRecord | None:
        return self.by_user.get(user) if mechanism is SHA_512 else None

    def credentials(self) -> Credentials:
        return Credentials(self.key_of, Decoy(b"secret"), lambda: "0123456789abcdefghijklmnop")


class Wire(asyncio.Transport):
    """What a connection writes."""

    def __init__(self, host: str) -> None:
        super().__init__({"peername": (host, 1)})
        self.sent = bytearray()
        self.is_closed = False
        self.closed = asyncio.Event()

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.is_closed = True
        self.closed.set()

    abort = close

    def pause_reading(self) -> None: ...

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        return 0


class Env:
    """A listener with SASL and a clock of its own; who has logged in is answered by who it is."""

    def __init__(self, **changes: int) -> None:
        self.now = 0.0
        self.stored = Stored()
        self.served: list[InboundRequest] = []
        self.metrics = Metrics()
        self.malformed: list[str] = []
        settings = SaslConfig((SHA_512,), failed_delay_ms=DELAY_MS, **changes)
        self.listener = KafkaListener(
            replace(listener_settings("TOOLS"), sasl=settings),
            self._serve,
            self.metrics,
            lambda why, detail, peer: self.malformed.append(detail),
            # How long work takes is no matter here: see `test_fair_turns`.
            shares=LoopShares(FairTurns(asyncio.get_running_loop(), turn_seconds=math.inf)),
            stored=self.stored,
        )
        self.told: list[str] = []
        self.logins = self.listener.logins = Logins(
            "TOOLS",
            settings,
            self.stored,
            self._serve,
            lambda address, why: self.told.append(why),
            lambda why: None,
            lambda: self.now,
        )

    def _serve(self, inbound: InboundRequest) -> None:
        self.served.append(inbound)
        inbound.reply(ApiVersionsResponse(error_code=0, api_keys=()))

    def client(self, host: str = "10.0.0.1") -> "Client":
        return Client(self, host)


class Client:
    def __init__(self, env: Env, host: str) -> None:
        self.env, self.wire = env, Wire(host)
        self.connection = KafkaConnection(env.listener)
        self.connection.connection_made(self.wire)

    def send(self, api: Api, version: int, body: Message) -> None:
        self.connection.data_received(encode_request(api, version, 1, "me", body))

    def answer(self, api: Api, version: int) -> Any:
        """The last frame that came."""
        sent, found = bytes(self.wire.sent), b""
        while sent:
            size = int.from_bytes(sent[:SIZE_BYTES], "big")
            found, sent = sent[SIZE_BYTES : SIZE_BYTES + size], sent[SIZE_BYTES + size :]
        self.wire.sent.clear()
        return decode_response(api, version, found) if found else None

    def ask(self, api: Api, version: int, body: Message) -> Any:
        self.send(api, version, body)
        return self.answer(api, version)

    def begin(self, user: str = "alice", version: int = 2) -> bytes:
        self.ask(apis.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-512"))
        first = SaslAuthenticateRequest(auth_bytes=first_message(user))
        return bytes(self.ask(apis.SASL_AUTHENTICATE, version, first).auth_bytes)

    def end(self, challenge: bytes, user: str, password: str, version: int = 2) -> Any:
        last = last_message(SHA_512, user, challenge, password)
        return self.ask(apis.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=last))

    def log_in(self, user: str = "alice", password: str = "", version: int = 2) -> Any:
        return self.end(self.begin(user, version), user, password or user, version)

    def requests_own_principal(self) -> str | None:
        """The principal of a request, None if it was not served."""
        before = len(self.env.served)
        self.send(apis.API_VERSIONS, 3, VERSIONS)
        self.wire.sent.clear()
        found = self.env.served[before:]
        return found[0].caller.principal if found else None

    @property
    def is_closed(self) -> bool:
        return self.wire.is_closed


async def test_logins_over_connections_with_one_certificate_use_up_no_share_of_it() -> None:
    """Where the listener asks for certificates as well. A request that is answered after the login counts for the user."""
    env = Env()
    env.listener.authentication = Known("TOOLS")
    waiting = env.client()
    clients = [env.client() for _ in range(3)]
    for client in clients:
        assert client.log_in().error_code == 0
    callers = waiting.connection.caller, clients[0].connection.caller
    assert [each.principal for each in callers] == [Known.user.principal, "User:alice"]
    assert [env.listener.share_of(each).requests for each in callers] == [0, 0]
    assert waiting.requests_own_principal() == Known.user.principal


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_authenticated_client_is_served_as_its_user(version: int) -> None:
    client = Env().client()
    assert client.requests_own_principal() == "User:ANONYMOUS"
    found = client.log_in(version=version)
    assert (found.error_code, found.session_lifetime_ms) == (0, 0)
    assert client.requests_own_principal() == "User:alice"
    assert client.connection.caller.listener == "TOOLS"
    assert client.connection.caller.identity is None


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "wrong")])
async def test_failed_login_is_answered_with_a_delay_and_then_disconnected(
    user: str, password: str
) -> None:
    client = Env().client()
    challenge = client.begin(user)
    began = asyncio.get_running_loop().time()
    assert client.end(challenge, user, password) is None
    await asyncio.wait_for(client.wire.closed.wait(), 10)
    assert asyncio.get_running_loop().time() - began >= DELAY_MS / 1000
    assert client.answer(apis.SASL_AUTHENTICATE, 2).error_code == 58
    assert client.env.served == []


async def test_frames_after_a_failed_login_in_one_chunk_are_not_read() -> None:
    client = Env().client()
    challenge = client.begin("alice")
    wrong = last_message(SHA_512, "alice", challenge, "wrong")
    right = last_message(SHA_512, "alice", challenge, "alice")
    frames = [
        encode_request(
            apis.SASL_AUTHENTICATE, 2, number, "me", SaslAuthenticateRequest(auth_bytes=each)
        )
        for number, each in enumerate((wrong, right))
    ]
    client.connection.data_received(b"".join(frames))
    await asyncio.wait_for(client.wire.closed.wait(), 10)
    assert client.answer(apis.SASL_AUTHENTICATE, 2).error_code == 58
    assert client.connection.caller.principal == "User:ANONYMOUS"


async def test_only_small_login_requests_are_read_before_the_login() -> None:
    env = Env(max_request_bytes=2000)
    vote, large, later = env.client(), env.client(), env.client()
    vote.send(apis.VOTE, 0, elections.VoteRequest(cluster_id="x", topics=()))
    assert vote.is_closed
    long = SaslAuthenticateRequest(auth_bytes=b"x" * 2000)
    large.send(apis.SASL_AUTHENTICATE, 2, long)
    assert large.is_closed
    assert env.malformed == [
        "api key 52 before the client has logged in",
        "a frame of 2016 bytes, the limit is 2000",
    ]
    later.log_in()
    later.send(apis.SASL_AUTHENTICATE, 2, long)
    assert not later.is_closed
    assert len(env.served) == 1


async def test_only_a_few_api_versions_requests_are_served_before_the_login() -> None:
    """Each is answered with half a kibibyte, and a client may send thousands of them at once."""
    env = Env()
    flooding, other = env.client(), env.client()
    frames = encode_request(apis.API_VERSIONS, 3, 1, "me", VERSIONS) * 50
    flooding.connection.data_received(frames)
    assert flooding.is_closed
    assert len(env.served) == MAX_VERSIONS_REQUESTS
    assert env.told == ["it sent more than 4 ApiVersions requests before it logged in"]
    other.log_in()
    other.connection.data_received(frames)
    assert not other.is_closed
    assert len(env.served) == MAX_VERSIONS_REQUESTS + 50


async def test_login_that_takes_too_long_times_out() -> None:
    env = Env(timeout_ms=5000)
    slow, done = env.client(), env.client()
    slow.begin()
    done.log_in()
    env.now = 5.1
    env.logins.sweep()
    assert slow.is_closed
    assert not done.is_closed
    assert env.told == ["it did not log in in time (quorum.handshake.timeout.ms)"]


async def test_unauthenticated_connection_limit_closes_the_oldest_of_the_busiest_address() -> None:
    env = Env(logins_max=3)
    known = env.client("10.0.0.9")
    known.log_in()
    one = env.client("10.0.0.1")
    flood = [env.client("10.0.0.2") for _ in range(4)]
    assert [each.is_closed for each in (one, known)] == [False, False]
    assert [each.is_closed for each in flood] == [True, True, False, False]
    assert len(env.logins) == 3


async def test_password_change_closes_only_the_sessions_of_that_user() -> None:
    env = Env()
    alice, bob = env.client(), env.client()
    alice.log_in("alice")
    bob.log_in("bob")
    env.logins.sweep()
    env.stored.set("alice", "another")
    env.logins.sweep()
    assert [alice.is_closed, bob.is_closed] == [True, False]
    assert env.told == ["User:alice has a new password, or was deleted"]


async def test_password_changed_during_a_login_is_rejected() -> None:
    env = Env()
    client = env.client()
    challenge = client.begin()
    env.stored.set("alice", "another")
    client.end(challenge, "alice", "alice")
    assert client.is_closed
    assert client.requests_own_principal() is None


async def test_password_is_rejected_before_credentials_are_loaded() -> None:
    env = Env()
    env.stored.are_loaded = False
    client = env.client()
    client.send(apis.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-512"))
    assert client.is_closed
    assert client.answer(apis.SASL_HANDSHAKE, 1) is None


async def test_session_has_a_lifetime_and_is_renewed_by_the_same_user_only() -> None:
    env = Env(max_reauth_ms=10_000)
    renewing, silent, other = env.client(), env.client(), env.client()
    for client in (renewing, silent, other):
        assert client.log_in().session_lifetime_ms == 10_000
    env.now = 9.0
    assert renewing.log_in().error_code == 0
    assert renewing.requests_own_principal() == "User:alice"
    assert other.log_in("bob") is None
    await asyncio.wait_for(other.wire.closed.wait(), 10)
    assert other.answer(apis.SASL_AUTHENTICATE, 2).error_code == 58
    assert other.is_closed
    assert other.connection.caller.principal == "User:alice"
    env.now = 10.1
    env.logins.sweep()
    assert [each.is_closed for each in (renewing, silent)] == [False, True]
    env.now = 19.5
    env.logins.sweep()
    assert renewing.is_closed


async def test_expired_session_serves_nothing_before_the_sweep() -> None:
    env = Env(max_reauth_ms=10_000)
    client = env.client()
    client.log_in()
    env.now = 10.1
    assert client.requests_own_principal() is None
    assert client.is_closed


_GOOD = [
    encode_request(api, version, 1, "me", body)
    for api, version, body in (
        (apis.API_VERSIONS, 3, VERSIONS),
        (apis.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-512")),
        (apis.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=first_message("alice"))),
        (apis.SASL_AUTHENTICATE, 0, SaslAuthenticateRequest(auth_bytes=b"c=biws,r=x,p=AAAA")),
        (apis.VOTE, 0, elections.VoteRequest(cluster_id="x", topics=())),
    )
]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(_GOOD),
            st.tuples(st.sampled_from(_GOOD), st.integers(4, 40), st.integers(0, 255)).map(
                lambda each: each[0][: each[1]] + bytes([each[2]]) + each[0][each[1] + 1 :]
            ),
            st.binary(max_size=30),
        ),
        max_size=8,
    ),
    st.integers(1, 60),
)
@settings(max_examples=150, deadline=None)
def test_random_bytes_never_authenticate_without_the_password(
    frames: list[bytes], piece: int
) -> None:
    """For any bytes, in chunks of any size: no login succeeds, and only ApiVersions is served."""

    async def play() -> None:
        env = Env()
        client, stream = env.client(), b"".join(frames)
        for at in range(0, len(stream), piece):
            if client.is_closed:
                break
            client.connection.data_received(stream[at : at + piece])
        assert client.connection.caller.principal == "User:ANONYMOUS"
        assert {each.request.api for each in env.served} <= {apis.API_VERSIONS}

    asyncio.run(play())
