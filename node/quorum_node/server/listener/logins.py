"""Clients of a SASL listener until they have logged in, and the lifetime of a login.

Owns the limits before the login: small requests of three APIs only, a timeout, a maximum number of clients, and a delayed answer to a
wrong password. `security/scram` decides whether a login succeeds; rights are checked later, for every request.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Protocol

from quorum_node.configuration.listener_config import SaslConfig
from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import Request, UnsupportedRequest, decode_request
from quorum_node.protocol.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from quorum_node.schema.primitives import Buffer
from quorum_node.security.caller import Caller
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.security.scram.sasl_session import Credentials, Ended, LoggedIn, SaslSession, step
from quorum_node.server.listener.port import Handler, InboundRequest

_BEFORE_LOGIN = frozenset({API_VERSIONS.key, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})
MAX_VERSIONS_REQUESTS = 4
"""ApiVersions requests of a connection before its client has logged in. Clients send one, and another one if its version is too new."""
_OTHER_USER = "re-authentication must use the same user"


class LoginConnection(Protocol):
    """The connection of a client."""

    @property
    def address(self) -> str: ...

    def logged_in(self, caller: Caller) -> None:
        """Its next requests are those of this caller; the size limit before the login no longer applies."""

    def unwatched(self, handler: Handler) -> None:
        """Its next requests go directly to this handler."""

    def end_after_answers(self) -> None:
        """Accept no more requests, not even received ones; close when everything is answered."""

    def drop(self, why: str) -> None:
        """Close at once."""


class StoredCredentials(Protocol):
    """The committed credentials."""

    @property
    def are_loaded(self) -> bool:
        """Whether all committed credentials are loaded. Before that, a password can't be judged wrong."""

    @property
    def version(self) -> object:
        """An object that stays the same as long as nothing has changed."""

    def credentials(self) -> Credentials:
        """The current credentials."""

    def key_of(self, mechanism: ScramMechanism, user: str) -> object:
        """A value that stays equal as long as the user has the same password; None if the user does not exist."""


class Logins:
    """The logins of one listener. `report_refused`: called with the address and the reason for each refused client. `count`: called with a reason."""

    def __init__(
        self,
        listener: str,
        config: SaslConfig,
        stored: StoredCredentials,
        handler: Handler,
        report_refused: Callable[[str, str], None],
        count: Callable[[str], None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.listener = listener
        self.config = config
        self.stored = stored
        self.handler = handler
        self.clock = clock
        self._report_refused = report_refused
        self._count = count
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[LoginConnection, float] = {}
        """Clients that have not logged in, and the time in seconds when they connected; the oldest first."""
        self._logins: dict[LoginConnection, Login] = {}
        self._version = stored.version

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, connection: LoginConnection) -> "Login":
        """A client has connected. If there are too many, the oldest one of the address with the most is closed."""
        if len(self._waiting) >= self.config.logins_max:
            counts = Counter(each.address for each in self._waiting)
            most = max(counts.values())
            oldest = next(each for each in self._waiting if counts[each.address] == most)
            self.refuse(oldest, "too many logins at a time (quorum.handshakes.max)")
        self._waiting[connection] = self.clock()
        login = self._logins[connection] = Login(self, connection)
        return login

    def done(self, connection: LoginConnection) -> None:
        """The client has logged in."""
        self._waiting.pop(connection, None)

    def gone(self, connection: LoginConnection) -> None:
        """The client's connection is closed."""
        self._waiting.pop(connection, None)
        self._logins.pop(connection, None)

    def refuse(self, connection: LoginConnection, why: str) -> None:
        """Close a connection without an answer."""
        self.report(connection, why)
        self.gone(connection)
        connection.drop("login")

    def report(self, connection: LoginConnection, why: str) -> None:
        """Report that a client is refused, or that its login has ended."""
        self._count("login")
        self._report_refused(connection.address, why)

    def later(self, act: Callable[[], None]) -> None:
        """Call `act` after `connection.failed.authentication.delay.ms`: the consequence of a failed login."""
        self._loop.call_later(self.config.failed_delay_ms / 1000, act)

    def sweep(self) -> None:
        """Close logins that take too long, and those that have expired. To be called once a second."""
        now = self.clock()
        late = now - self.config.timeout_ms / 1000
        for connection in [each for each, since in self._waiting.items() if since < late]:
            self.refuse(connection, "it did not log in in time (quorum.handshake.timeout.ms)")
        version = self.stored.version
        changed, self._version = version is not self._version, version
        if not changed and not self.config.max_reauth_ms:
            return
        for connection, login in list(self._logins.items()):
            why = login.why_over(now)
            if why is not None:
                self.report(connection, why)
                self.gone(connection)
                connection.end_after_answers()


class Login:
    """The login of one connection. It handles the client's frames and requests until the login is complete."""

    def __init__(self, logins: Logins, connection: LoginConnection) -> None:
        self._logins = logins
        self._connection = connection
        self._session: SaslSession | None = SaslSession(logins.config.mechanisms)
        self._user: str | None = None
        self._key: object = None
        self._mechanism: ScramMechanism | None = None
        self._ends = float("inf")
        self._is_over = False
        self._versions_requests = 0

    @property
    def max_request_bytes(self) -> int:
        """Limit before the login."""
        return self._logins.config.max_request_bytes

    def decode(self, frame: Buffer) -> Request:
        """Decode a request. Before the login, requests of other APIs are not decoded. Raises MalformedMessage."""
        if self._is_over:
            raise UnsupportedRequest("a request after a failed login")
        if self._user is None:
            key = int.from_bytes(frame[:2], "big")
            if key not in _BEFORE_LOGIN:
                raise UnsupportedRequest(f"api key {key} before the client has logged in")
        return decode_request(frame)

    def handle(self, inbound: InboundRequest) -> None:
        """A request of the client: answered here before the login, and when it logs in again."""
        logins, body = self._logins, inbound.request.body
        session = self._session
        if session is None:
            renews = isinstance(body, SaslHandshakeRequest) and self._mechanism is not None
            if not renews or not logins.config.max_reauth_ms:
                if logins.clock() < self._ends:
                    logins.handler(inbound)
                else:
                    logins.refuse(self._connection, self._too_late)
                return
            assert self._mechanism is not None
            session = SaslSession((self._mechanism,))
        elif session.passes(body):
            self._versions_requests += 1
            if self._versions_requests <= MAX_VERSIONS_REQUESTS:
                logins.handler(inbound)
            else:
                why = f"it sent more than {MAX_VERSIONS_REQUESTS} ApiVersions requests before it logged in"
                logins.refuse(self._connection, why)
            return
        if not logins.stored.are_loaded:
            # No answer: its password may be correct.
            logins.refuse(self._connection, "the credentials are not loaded yet")
            return
        found = step(session, inbound.request.version, body, logins.stored.credentials())
        if isinstance(found, LoggedIn):
            self._entered(inbound, session, found)
        elif isinstance(found, Ended):
            self._ended(inbound, found)
        else:
            self._session, given = found.session, found.session.given
            if given is not None:
                self._key = logins.stored.key_of(given.mechanism, given.user)
            inbound.reply(found.answer)

    def why_over(self, now: float) -> str | None:
        """Why the login has expired; None if it is valid, or if there is none."""
        if self._user is None or self._mechanism is None:
            return None
        if now >= self._ends:
            return self._too_late
        if self._logins.stored.key_of(self._mechanism, self._user) != self._key:
            return f"User:{self._user} has a new password, or was deleted"
        return None

    @property
    def _too_late(self) -> str:
        return f"User:{self._user} did not re-authenticate in time (connections.max.reauth.ms)"

    def _entered(self, inbound: InboundRequest, session: SaslSession, found: LoggedIn) -> None:
        logins, connection, max_ms = (
            self._logins,
            self._connection,
            self._logins.config.max_reauth_ms,
        )
        if self._user not in (None, found.user):
            error = ErrorCode.SASL_AUTHENTICATION_FAILED
            answer = SaslAuthenticateResponse(error_code=error, error_message=_OTHER_USER)
            self._ended(inbound, Ended(_OTHER_USER, answer))
            return
        assert session.chosen is not None
        if logins.stored.key_of(session.chosen, found.user) != self._key:
            logins.refuse(connection, f"User:{found.user} has a new password meanwhile")
            return
        first = self._user is None
        self._session, self._mechanism, self._user = None, session.chosen, found.user
        if max_ms:
            self._ends = logins.clock() + max_ms / 1000
        logins.done(connection)
        if first:
            connection.logged_in(Caller(f"User:{found.user}", connection.address, logins.listener))
            if not max_ms:
                connection.unwatched(logins.handler)
        assert isinstance(found.answer, SaslAuthenticateResponse)
        inbound.reply(replace(found.answer, session_lifetime_ms=max_ms))

    def _ended(self, inbound: InboundRequest, found: Ended) -> None:
        logins, connection, answer = self._logins, self._connection, found.answer
        if answer is None:
            logins.refuse(connection, found.reason)
            return
        self._is_over = True
        logins.report(connection, found.reason)
        connection.end_after_answers()
        logins.later(lambda: inbound.reply(answer))
