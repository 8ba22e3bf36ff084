"""The timeouts of the Raft protocol, checked against each other.

Each of them alone may have any value in its range; together some can't work: a quorum would start, and then
elect leaders without end. Such a combination is refused at start, with the rule in the message. Knows
properties, not the core's use of them.
"""

from dataclasses import dataclass

from quorum_node.configuration.key import Key
from quorum_node.configuration.keys import quorum
from quorum_node.configuration.properties import ConfigError, Properties
from quorum_node.raft.config import RaftConfig

_STOCK_FETCH_WAIT_MS = 500
"""For so long a Fetch of stock Kafka's replicas waits for records; it can't be set there."""
_MARGIN_MS = 100
"""For the way there and back, and for a loop that is busy."""
FETCH_WAIT_MS = max(RaftConfig(endpoints=()).fetch_max_wait_ms, _STOCK_FETCH_WAIT_MS)
"""The longest that a follower of this quorum, ours or stock, is silent while nothing is wrong."""
_MIN_ELECTION_MS = 50
_MIN_ELECTION_BACKOFF_MS = 10


@dataclass(frozen=True, slots=True)
class QuorumTimeouts:
    """Milliseconds, all > 0. `election_backoff_max_ms` is the draft's election jitter max."""

    election_timeout_ms: int
    fetch_timeout_ms: int
    election_backoff_max_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


def read_timeouts(properties: Properties) -> QuorumTimeouts:
    """The timeouts, which work together. Raises ConfigError."""
    timeouts = QuorumTimeouts(
        election_timeout_ms=properties.get(quorum.ELECTION_TIMEOUT),
        fetch_timeout_ms=properties.get(quorum.FETCH_TIMEOUT),
        election_backoff_max_ms=properties.get(quorum.ELECTION_BACKOFF_MAX),
        request_timeout_ms=properties.get(quorum.REQUEST_TIMEOUT),
        retry_backoff_ms=properties.get(quorum.RETRY_BACKOFF),
        retry_backoff_max_ms=properties.get(quorum.RETRY_BACKOFF_MAX),
    )
    _check(timeouts)
    return timeouts


def _check(timeouts: QuorumTimeouts) -> None:
    wait_ms = FETCH_WAIT_MS + _MARGIN_MS
    waits = f"a follower's Fetch waits for records up to {FETCH_WAIT_MS} ms, and needs {_MARGIN_MS} ms for its way"
    _at_least(
        quorum.FETCH_TIMEOUT,
        timeouts.fetch_timeout_ms,
        wait_ms,
        f"{waits}; with less an idle quorum elects a new leader again and again",
    )
    _at_least(
        quorum.REQUEST_TIMEOUT,
        timeouts.request_timeout_ms,
        wait_ms,
        f"{waits}; with less every Fetch of an idle quorum times out, and its connection is closed",
    )
    _at_least(
        quorum.ELECTION_TIMEOUT,
        timeouts.election_timeout_ms,
        _MIN_ELECTION_MS,
        "votes are written to the disk before they are given; with less a candidate gives up before they arrive",
    )
    _at_least(
        quorum.ELECTION_BACKOFF_MAX,
        timeouts.election_backoff_max_ms,
        _MIN_ELECTION_BACKOFF_MS,
        "candidates wait for a random part of it after a split vote; with less they go on splitting it",
    )
    if timeouts.retry_backoff_ms > timeouts.retry_backoff_max_ms:
        raise _wrong(
            quorum.RETRY_BACKOFF,
            timeouts.retry_backoff_ms,
            f"exceeds {quorum.RETRY_BACKOFF_MAX.name}={timeouts.retry_backoff_max_ms}",
        )
    if 2 * timeouts.retry_backoff_ms > timeouts.fetch_timeout_ms:
        raise _wrong(
            quorum.RETRY_BACKOFF,
            timeouts.retry_backoff_ms,
            f"must be at most half of {quorum.FETCH_TIMEOUT.name}={timeouts.fetch_timeout_ms}: with more one"
            " failed Fetch is not tried again before the follower gives its leader up",
        )


def _at_least(key: Key[int], value: int, minimum: int, why: str) -> None:
    if value < minimum:
        raise _wrong(key, value, f"must be at least {minimum}: {why}")


def _wrong(key: Key[int], value: int, why: str) -> ConfigError:
    return ConfigError(f"{key.name}={value}: {why}")
