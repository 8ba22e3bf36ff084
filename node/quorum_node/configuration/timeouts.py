"""The timeouts of the Raft protocol, and checks of their combinations.

Some combinations of valid values can't work: a quorum would form and then elect leaders
endlessly. Such a combination is refused at start, with the rule in the message. Must not know the core's
use of the timeouts.
"""

from dataclasses import dataclass

from quorum_node.configuration.key import Key
from quorum_node.configuration.keys import quorum
from quorum_node.configuration.properties import ConfigError, Properties
from quorum_node.raft.config import RaftConfig

_STOCK_FETCH_WAIT_MS = 500
"""Maximum wait of a Fetch of stock Kafka's replicas; it can't be configured there."""
_MARGIN_MS = 100
"""Margin for the network and a busy event loop."""
FETCH_WAIT_MS = max(RaftConfig(endpoints=()).fetch_max_wait_ms, _STOCK_FETCH_WAIT_MS)
"""Longest regular silence of a follower, of this software or stock."""
_MIN_ELECTION_MS = 50
_MIN_ELECTION_BACKOFF_MS = 10


@dataclass(frozen=True, slots=True)
class QuorumTimeouts:
    """Milliseconds, all > 0. `election_backoff_max_ms` is "election jitter max" in the KIP."""

    election_timeout_ms: int
    fetch_timeout_ms: int
    election_backoff_max_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


def read_timeouts(properties: Properties) -> QuorumTimeouts:
    """The checked timeouts. Raises ConfigError."""
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
    waits = f"a follower's Fetch waits for records up to {FETCH_WAIT_MS} ms, plus {_MARGIN_MS} ms for the network"
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
        "votes are synced to the disk before they are sent; with less a candidate gives up before they arrive",
    )
    _at_least(
        quorum.ELECTION_BACKOFF_MAX,
        timeouts.election_backoff_max_ms,
        _MIN_ELECTION_BACKOFF_MS,
        "candidates wait for a random fraction of it after a split vote; with less votes are likely to split again",
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
            f"must be at most half of {quorum.FETCH_TIMEOUT.name}={timeouts.fetch_timeout_ms}: otherwise a failed Fetch is not repeated before the follower's fetch timeout",
        )


def _at_least(key: Key[int], value: int, minimum: int, why: str) -> None:
    if value < minimum:
        raise _wrong(key, value, f"must be at least {minimum}: {why}")


def _wrong(key: Key[int], value: int, why: str) -> ConfigError:
    return ConfigError(f"{key.name}={value}: {why}")
