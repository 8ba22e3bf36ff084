"""Keys of the quorum: formation, and the timeouts of the Raft protocol (KIP-595 "Configurations",
KIP-853).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quorum_node.configuration.key import REQUIRED, Key, Owner
from quorum_node.configuration.value_kinds import (
    HOUR_MS,
    MANY,
    AbsolutePath,
    Boolean,
    HostPorts,
    Integer,
    ReplicaUuid,
    Voters,
)
from quorum_node.host_port import HostPort, VoterAddress


def _timeout(name: str, default: int, doc: str) -> Key[int]:
    """A timeout of the Raft protocol, in milliseconds."""
    return Key(f"controller.quorum.{name}", Integer(1, HOUR_MS), default, doc)


BOOTSTRAP_SERVERS: Key[tuple[HostPort, ...]] = Key(
    "controller.quorum.bootstrap.servers",
    HostPorts(),
    (),
    "addresses at which the node looks for the quorum; either this key or `controller.quorum.voters` is required",
    Owner.OPERATOR,
    shown="",
)
STATIC_VOTERS: Key[tuple[VoterAddress, ...]] = Key(
    "controller.quorum.voters",
    Voters(),
    (),
    "the voters of a static quorum, which they form together",
    shown="",
)
AUTO_JOIN = Key(
    "controller.quorum.auto.join.enable",
    Boolean(),
    False,
    "whether an observer that has caught up becomes a voter automatically",
)
FOUNDER_ID: Key[int | None] = Key(
    "formation.founder.id",
    Integer(0, MANY),
    None,
    "id of the node that may form the quorum on an empty directory; can't be combined with `controller.quorum.voters`",
    Owner.OPERATOR,
)
FOUNDER_UUID = Key(
    "formation.founder.uuid",
    ReplicaUuid(),
    REQUIRED,
    "replica UUID of the founder; required with `formation.founder.id`",
    Owner.OPERATOR,
    shown="",
)
INITIAL_VOTERS = Key(
    "formation.initial.voters",
    Integer(1, 99),
    1,
    "number of voters that the quorum needs before it accepts writes; requires the founder's keys",
    Owner.OPERATOR,
)
MAY_BOOTSTRAP = Key(
    "formation.bootstrap",
    Boolean(),
    True,
    "`false`: this node never takes part in the formation of a new quorum",
)
FIRST_SCRAM: Key[Path | None] = Key(
    "formation.scram.file",
    AbsolutePath(),
    None,
    "ours: file with the first users of a new quorum, one per line, as `kafka-storage format --add-scram` takes it: `SCRAM-SHA-512=[name=alice,password=…]`. The first leader writes them to the log; after that the file is not needed",
)

FETCH_TIMEOUT = _timeout(
    "fetch.timeout.ms",
    2000,
    "time without a successful Fetch after which a follower looks for another leader, and a leader resigns that no majority fetches from; voters start pre-votes after half of it. At least 600: the longest wait of a Fetch (500 ms) plus 100 ms for the network; with less an idle quorum elects leaders repeatedly",
)
REQUEST_TIMEOUT = _timeout(
    "request.timeout.ms",
    2000,
    "time after which a request to another replica without an answer has failed. At least 600, as for the fetch timeout: with less every Fetch of an idle quorum times out",
)
ELECTION_TIMEOUT = _timeout(
    "election.timeout.ms",
    1000,
    "time a candidate waits for votes before it begins another election. At least 50: a vote is synced to the disk before it is sent",
)
ELECTION_BACKOFF_MAX = _timeout(
    "election.backoff.max.ms",
    1000,
    "maximum of the random wait of a candidate after an election without a winner. At least 10",
)
RETRY_BACKOFF = _timeout(
    "retry.backoff.ms",
    20,
    "pause before a failed request to another replica is first repeated; it grows exponentially. At most `controller.quorum.retry.backoff.max.ms`, and at most half of `controller.quorum.fetch.timeout.ms`",
)
RETRY_BACKOFF_MAX = _timeout("retry.backoff.max.ms", 1000, "the longest pause between two attempts")

SECTIONS: Mapping[str, tuple[Key[Any], ...]] = {
    "The quorum": (
        BOOTSTRAP_SERVERS,
        STATIC_VOTERS,
        AUTO_JOIN,
        FOUNDER_ID,
        FOUNDER_UUID,
        INITIAL_VOTERS,
        MAY_BOOTSTRAP,
        FIRST_SCRAM,
    ),
    "Timeouts": (
        FETCH_TIMEOUT,
        REQUEST_TIMEOUT,
        ELECTION_TIMEOUT,
        ELECTION_BACKOFF_MAX,
        RETRY_BACKOFF,
        RETRY_BACKOFF_MAX,
    ),
}
