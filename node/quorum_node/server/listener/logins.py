"""Clients of a SASL listener until they have logged in, and how long a login is good.

Owns the bounds of what strangers may cost: small requests of three APIs, a time to log in, so many at a time, and a late
answer to a wrong password. Who is let in is decided by `security/scram`; rights are asked afterwards, of every request.
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
_OTHER_USER = "a login that is renewed has to be the same user's"


class Guest(Protocol):
    """The connection of a client."""

    @property
    def address(self) -> str: ...

    def logged_in(self, caller: Caller) -> None:
        """Its requests are those of this caller from now on, and may be as large as others."""

    def unwatched(self, handler: Handler) -> None:
        """Its requests go straight to this handler from now on."""

    def end_after_answers(self) -> None:
        """Take no more requests, not even those that are here; close when everything is answered."""

    def drop(self, why: str) -> None:
        """Close at once."""


class StoredCredentials(Protocol):
    """The credentials that are committed."""

    @property
    def are_loaded(self) -> bool:
        """Whether they are all that is committed. Before that nobody can be told that a password is wrong."""

    @property
    def version(self) -> object:
        """The same object as long as nothing has changed."""

    def credentials(self) -> Credentials:
        """Of this moment."""

    def key_of(self, mechanism: ScramMechanism, user: str) -> object:
        """Equal as long as the user has the same password; None if there is no such user."""


class Logins:
    """Of one listener. `tell`: address and words, of each client that is not let in. `count`: told a reason."""

    def __init__(
        self,
        listener: str,
        config: SaslConfig,
        stored: StoredCredentials,
        handler: Handler,
        tell: Callable[[str, str], None],
        count: Callable[[str], None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.listener = listener
        self.config = config
        self.stored = stored
        self.handler = handler
        self.clock = clock
        self._tell = tell
        self._count = count
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Guest, float] = {}
        """Who has not logged in, and since when; the oldest first."""
        self._logins: dict[Guest, Login] = {}
        self._version = stored.version

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, guest: Guest) -> "Login":
        """Somebody has connected; for one too many somebody else has to go."""
        if len(self._waiting) >= self.config.logins_max:
            counts = Counter(each.address for each in self._waiting)
            most = max(counts.values())
            oldest = next(each for each in self._waiting if counts[each.address] == most)
            self.refuse(oldest, "too many logins at a time (quorum.handshakes.max)")
        self._waiting[guest] = self.clock()
        login = self._logins[guest] = Login(self, guest)
        return login

    def done(self, guest: Guest) -> None:
        """It has logged in."""
        self._waiting.pop(guest, None)

    def gone(self, guest: Guest) -> None:
        """Its connection is closed."""
        self._waiting.pop(guest, None)
        self._logins.pop(guest, None)

    def refuse(self, guest: Guest, why: str) -> None:
        """End a connection without an answer."""
        self.told(guest, why)
        self.gone(guest)
        guest.drop("login")

    def told(self, guest: Guest, why: str) -> None:
        """Somebody is not let in, or has to leave."""
        self._count("login")
        self._tell(guest.address, why)

    def later(self, act: Callable[[], None]) -> None:
        """What a failed login leads to is done after `connection.failed.authentication.delay.ms`."""
        self._loop.call_later(self.config.failed_delay_ms / 1000, act)

    def sweep(self) -> None:
        """Once a second: logins that take too long, and those that are good no more."""
        now = self.clock()
        late = now - self.config.timeout_ms / 1000
        for guest in [each for each, since in self._waiting.items() if since < late]:
            self.refuse(guest, "it did not log in in time (quorum.handshake.timeout.ms)")
        version = self.stored.version
        changed, self._version = version is not self._version, version
        if not changed and not self.config.max_reauth_ms:
            return
        for guest, login in list(self._logins.items()):
            why = login.why_over(now)
            if why is not None:
                self.told(guest, why)
                self.gone(guest)
                guest.end_after_answers()


class Login:
    """One connection. It knows the frames and the requests of its client until they are nobody's business here."""

    def __init__(self, logins: Logins, guest: Guest) -> None:
        self._logins = logins
        self._guest = guest
        self._session: SaslSession | None = SaslSession(logins.config.mechanisms)
        self._user: str | None = None
        self._key: object = None
        self._mechanism: ScramMechanism | None = None
        self._ends = float("inf")
        self._is_over = False

    @property
    def max_request_bytes(self) -> int:
        """Before the login."""
        return self._logins.config.max_request_bytes

    def decode(self, frame: Buffer) -> Request:
        """A request. Before the login nothing is read of others than those that belong to it. Raises MalformedMessage."""
        if self._is_over:
            raise UnsupportedRequest("a request after a failed login")
        if self._user is None:
            key = int.from_bytes(frame[:2], "big")
            if key not in _BEFORE_LOGIN:
                raise UnsupportedRequest(f"api key {key} before the client has logged in")
        return decode_request(frame)

    def handle(self, inbound: InboundRequest) -> None:
        """Of the client: answered here until it has logged in, and when it logs in again."""
        logins, body = self._logins, inbound.request.body
        session = self._session
        if session is None:
            renews = isinstance(body, SaslHandshakeRequest) and self._mechanism is not None
            if not renews or not logins.config.max_reauth_ms:
                if logins.clock() < self._ends:
                    logins.handler(inbound)
                else:
                    logins.refuse(self._guest, self._too_late)
                return
            assert self._mechanism is not None
            session = SaslSession((self._mechanism,))
        elif session.passes(body):
            logins.handler(inbound)
            return
        if not logins.stored.are_loaded:
            # It is told nothing: its password may be right.
            logins.refuse(self._guest, "the credentials are not loaded yet")
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
        """Why a login is good no more; None if it is, or if there is none."""
        if self._user is None or self._mechanism is None:
            return None
        if now >= self._ends:
            return self._too_late
        if self._logins.stored.key_of(self._mechanism, self._user) != self._key:
            return f"User:{self._user} has another password now, or none"
        return None

    @property
    def _too_late(self) -> str:
        return f"User:{self._user} has not logged in again in time (connections.max.reauth.ms)"

    def _entered(self, inbound: InboundRequest, session: SaslSession, found: LoggedIn) -> None:
        logins, guest, max_ms = self._logins, self._guest, self._logins.config.max_reauth_ms
        if self._user not in (None, found.user):
            error = ErrorCode.SASL_AUTHENTICATION_FAILED
            answer = SaslAuthenticateResponse(error_code=error, error_message=_OTHER_USER)
            self._ended(inbound, Ended(_OTHER_USER, answer))
            return
        assert session.chosen is not None
        if logins.stored.key_of(session.chosen, found.user) != self._key:
            logins.refuse(guest, f"User:{found.user} has got another password meanwhile")
            return
        first = self._user is None
        self._session, self._mechanism, self._user = None, session.chosen, found.user
        if max_ms:
            self._ends = logins.clock() + max_ms / 1000
        logins.done(guest)
        if first:
            guest.logged_in(Caller(f"User:{found.user}", guest.address, logins.listener))
            if not max_ms:
                guest.unwatched(logins.handler)
        assert isinstance(found.answer, SaslAuthenticateResponse)
        inbound.reply(replace(found.answer, session_lifetime_ms=max_ms))

    def _ended(self, inbound: InboundRequest, found: Ended) -> None:
        logins, guest, answer = self._logins, self._guest, found.answer
        if answer is None:
            logins.refuse(guest, found.reason)
            return
        self._is_over = True
        logins.told(guest, found.reason)
        guest.end_after_answers()
        logins.later(lambda: inbound.reply(answer))
