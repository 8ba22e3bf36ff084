"""Calls of the admin API of a quorum, on the first node that responds.

Owns the choice of the node and the retries. Requests that only the leader can serve are sent to the
leader: another node names the leader's URL, which is used if `trust` covers it. Must know the
models of the API only.
"""

import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from quorum_node.api import ErrorBody, ErrorCode
from quorum_node.client_tls import ClientTls, ClientTlsError
from quorum_node.quorumctl.answers import (
    advice_on_repeating,
    no_answer,
    unexpected,
    unknown_outcome,
    unreadable,
)
from quorum_node.quorumctl.trust import Trust, uses_tls

M = TypeVar("M", bound=BaseModel)

_CONNECT_SECONDS = 1.0
_PAUSE_SECONDS = 0.1
_TRY_AGAIN = frozenset(
    {
        ErrorCode.NO_LEADER,
        ErrorCode.NOT_LEADER,
        ErrorCode.REPLICA_BEHIND,
        ErrorCode.OWN_EPOCH_NOT_COMMITTED,
    }
)
"""Error codes after which a retry may succeed. Nothing was changed."""


_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)
"""Errors before a request is sent."""
_SECRETS_IN_URLS = ("@", "?", "#")
_NOT_IN_URLS = (
    "an admin URL has a user, a password or a query in it, which is not shown here and is not sent: write http://host:8080 or"
    " https://host:8443, and put the token into a file for --token-file"
)


class CommandFailed(Exception):
    """The call failed and is not retried further; the message states what to do.

    `code`: code of the API, if there was a response. `leader_url`: URL of the leader, as the
    refusing node named it.
    """

    def __init__(
        self, message: str, code: str | None = None, leader_url: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.leader_url = leader_url


class WrongUsage(CommandFailed):
    """An argument or a property is malformed, missing, or contradicts another one."""


class AdminClient:
    """Client for one or more admin URLs of one quorum.

    `partition`: the quorum partition; None: the first. `trusted_hosts`: hosts besides the given
    URLs that may receive the token, see `trust`. `tls`: certificate and trusted authorities for
    https URLs; None: the authorities of the operating system.
    """

    def __init__(
        self,
        urls: list[str],
        token: str | None,
        timeout_ms: int,
        partition: int | None = None,
        trusted_hosts: Iterable[str] = (),
        tls: ClientTls | None = None,
    ) -> None:
        self.urls = [url.rstrip("/") for url in urls]
        self._trust = Trust(self.urls, trusted_hosts)
        self.timeout_ms = timeout_ms
        self._partition = partition
        self._has_token = bool(token)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._verify = True if tls is None else _context(tls)
        self._clients: dict[bool, httpx.Client] = {}
        """By whether they use TLS."""

    def __enter__(self) -> "AdminClient":
        return self

    def __exit__(self, *exc: object) -> None:
        for client in self._clients.values():
            client.close()

    def call(
        self, model: type[M], method: str, path: str, body: BaseModel | None = None, **query: Any
    ) -> M:
        """The first successful response of any node. Raises CommandFailed after the timeout."""
        deadline = time.monotonic() + self.timeout_ms / 1000

        def ask(url: str) -> M:
            return self.call_one(url, model, method, path, body, **query)

        while True:
            failures: list[CommandFailed] = []
            for url in self.urls:
                try:
                    return self._ask_leader(url, ask)
                except CommandFailed as error:
                    if error.code is not None and error.code not in _TRY_AGAIN:
                        raise
                    failures.append(error)
            hopeless = all(self._is_out_of_reach(each) for each in failures)
            if hopeless or time.monotonic() > deadline:
                raise _most_helpful(failures)
            time.sleep(_PAUSE_SECONDS)

    def _ask_leader(self, url: str, ask: Callable[[str], M]) -> M:
        """The response of the node at `url`, or of the leader that it names if that URL is trusted."""
        try:
            return ask(url)
        except CommandFailed as error:
            leader = error.leader_url
            if error.code != ErrorCode.NOT_LEADER or leader is None or leader == url:
                raise
            if not self._may_follow(leader):
                text = f"{error}; if that address is right, name it with --admin, or its host with --trust"
                raise CommandFailed(text, error.code, leader) from error
        return _ask_named(url, leader, ask)

    def _may_follow(self, leader_url: str) -> bool:
        if not uses_tls(leader_url) and all(uses_tls(url) for url in self.urls):
            return False  # A request that was sent over TLS is never repeated in clear text.
        return not self._has_token or self._trust.covers(leader_url)

    def _is_out_of_reach(self, error: CommandFailed) -> bool:
        """Whether the leader is known but not trusted, so that a retry would not help."""
        leader = error.leader_url
        refused = error.code == ErrorCode.NOT_LEADER and leader is not None
        return refused and not self._may_follow(leader or "")

    def call_one(
        self,
        url: str,
        model: type[M],
        method: str,
        path: str,
        body: BaseModel | None = None,
        **query: Any,
    ) -> M:
        """The response of one node. Raises CommandFailed, without a code if there was no response."""
        if any(each in url for each in _SECRETS_IN_URLS):
            raise WrongUsage(_NOT_IN_URLS, ErrorCode.INVALID_REQUEST)
        content = None if body is None else body.model_dump_json(by_alias=True)
        query["partition"] = self._partition
        params = {key: value for key, value in query.items() if value is not None}
        try:
            answer = self._client(url).request(
                method,
                url + path,
                params=params,
                content=content,
                headers={"Content-Type": "application/json"} if content else None,
            )
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, UnicodeError) as error:
            # UnicodeError: of a host whose name has an empty or too long label
            raise WrongUsage(
                f"{url!r} is not an admin URL: write http://host:8080 or https://host:8443",
                ErrorCode.INVALID_REQUEST,
            ) from error
        except httpx.TransportError as error:
            if method != "GET" and not isinstance(error, _NOT_SENT):
                # Repeated by itself, the change could be made twice, the second time over one of another client.
                raise CommandFailed(
                    unknown_outcome(url, path, error), ErrorCode.TIMED_OUT
                ) from error
            raise CommandFailed(no_answer(url, error, alone=len(self.urls) == 1)) from error
        except httpx.RequestError as error:  # of a body in an encoding that it does not have
            raise CommandFailed(unreadable(url, error), ErrorCode.INTERNAL) from error
        if answer.is_success:
            try:
                return model.model_validate_json(answer.content)
            except ValidationError as error:
                raise CommandFailed(unreadable(url, error), ErrorCode.INTERNAL) from error
        raise self._refusal(url, answer)

    def log_pages(self, model: type[M], from_offset: int | None, max_records: int) -> Iterator[M]:
        """Pages of the committed log of the first node that answers.

        A start offset of None: from the start of its log.
        """
        while True:
            page = self.call(
                model, "GET", "/v1/log", fromOffset=from_offset, maxRecords=max_records
            )
            yield page
            next_offset = int(page.model_dump()["next_offset"])
            if next_offset == from_offset:
                return
            from_offset = next_offset

    def _refusal(self, url: str, answer: httpx.Response) -> CommandFailed:
        try:
            body = ErrorBody.model_validate_json(answer.content)
        except ValidationError:
            return CommandFailed(unexpected(url, answer), ErrorCode.INTERNAL)
        advice = self._advice(body, answer.request)
        return CommandFailed(body.message + advice, body.code, body.leader_url)

    def _advice(self, body: ErrorBody, request: httpx.Request) -> str:
        if body.code == ErrorCode.UNAUTHORIZED:
            if self._has_token:
                return "; the given token is not the admin token of this quorum"
            return (
                "; specify the admin token with --token-file or QUORUMCTL_TOKEN_FILE (in a member's pod:"
                " /etc/metadataquorum-token/token)"
            )
        if body.code in _OUTCOME_UNKNOWN and request.method != "GET":
            return f"; {advice_on_repeating(request.url.path)}"
        return _ADVICE.get(body.code, "")

    def _client(self, url: str) -> httpx.Client:
        """The client for `http` or `https`, made at first use: loading the certificates of the operating system takes
        longer than a command over plain HTTP. A leader, or a node to add, may use another scheme than the given URLs.
        """
        secure = uses_tls(url)
        if secure not in self._clients:
            seconds = self.timeout_ms / 1000 + 2
            self._clients[secure] = httpx.Client(
                headers=self._headers,
                timeout=httpx.Timeout(seconds, connect=_CONNECT_SECONDS),
                trust_env=False,
                verify=self._verify if secure else False,
            )
        return self._clients[secure]


def _context(tls: ClientTls) -> ssl.SSLContext:
    try:
        return tls.context()
    except ClientTlsError as error:
        raise CommandFailed(str(error)) from error


def _ask_named(url: str, leader: str, ask: Callable[[str], M]) -> M:
    """The response of the leader that the node at `url` names, which may have failed since."""
    try:
        return ask(leader)
    except CommandFailed as error:
        if error.code is not None:
            raise
        text = f"{url} names a leader, but {error}"
        raise CommandFailed(text, ErrorCode.NOT_LEADER, leader) from error


def _most_helpful(failures: list[CommandFailed]) -> CommandFailed:
    """The failure to report after one of each node: what a node said comes before silence."""
    if not failures:
        return CommandFailed("no admin URL is given")
    answered = [each for each in failures if each.code is not None]
    silent = len(failures) - len(answered)
    if not silent or len(failures) == 1:
        return failures[-1]
    if not answered:
        return CommandFailed(f"none of {silent} nodes answers; {failures[-1]}")
    shown = answered[-1]
    return CommandFailed(
        f"{shown}; {silent} of {len(failures)} nodes do not answer. What the others know is in"
        " 'quorumctl describe --unconfirmed'",
        shown.code,
        shown.leader_url,
    )


_OUTCOME_UNKNOWN = (ErrorCode.TIMED_OUT.value, ErrorCode.LEADERSHIP_LOST.value)
"""Error codes of a change that may still be made."""
_ADVICE = {
    ErrorCode.NOT_FORMED.value: "; 'quorumctl describe status' shows which voters are missing",
    ErrorCode.CHANGE_PENDING.value: "; try again when it is done",
    ErrorCode.ALTERATION_PENDING.value: " (quorumctl alter --cancel, or quorumctl alter --voters ...)",
    ErrorCode.LEADER_IS_STOCK.value: "; for the node's own, unconfirmed view use 'describe status"
    " --unconfirmed', 'describe local', 'list', 'get --consistency local'",
    ErrorCode.STALE_POSITION.value: "; check the present voters before you repeat the command",
    ErrorCode.NOT_CAUGHT_UP.value: "; see its lag with 'quorumctl describe replication'",
    ErrorCode.DUPLICATE_VOTER.value: "; nothing to do",
    ErrorCode.VOTER_NOT_FOUND.value: "; 'quorumctl describe replication' lists the voters",
    ErrorCode.DISK_LOW.value: "; give the leader's volume more space",
    ErrorCode.NOT_CONFIRMED.value: "; too few voters respond to the leader",
    ErrorCode.REPLICA_BEHIND.value: "; ask another node",
    ErrorCode.READS_UNSUPPORTED.value: "; read a node's own state with --consistency local",
}
