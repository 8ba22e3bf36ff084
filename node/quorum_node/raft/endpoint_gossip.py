"""Addresses of voters as reported by peers; the address of a voter's latest boot is valid.

Owns the known addresses and which one is tried next. Must not know how they are exchanged
(`discover_brokers.py`). They are not durable, and neither votes nor commits depend on them:
requests to an address carry the voter's key.
Source: KIP-595, "DiscoverBrokers": "update its local cache of connection information ...
corresponding to the largest observed BootTimestamp".

The voters record has an address too, without a boot timestamp, so either can be newer. The reported
one is tried first. If it does not respond, the other one is tried.
"""

from collections.abc import Container
from dataclasses import dataclass

from quorum_node.records.identity import Endpoint, ReplicaKey

LATEST_BOOT_MS = (1 << 53) - 1
"""Largest boot timestamp that is accepted."""
NOT_RECEIVED_MS = -1
"""Boot timestamp of an address from a voters record or the configuration."""


@dataclass(frozen=True, slots=True)
class ReceivedEndpoint:
    """A voter's controller listener, as of its start at `boot_timestamp_ms` (wall clock of the voter)."""

    key: ReplicaKey
    boot_timestamp_ms: int
    endpoint: Endpoint


class EndpointGossip:
    """Addresses by replica key.

    `unannounced`: voters that have not received this replica's address in this run. `strangers`:
    addresses of unknown owners that may know the leader, while no voters are known.
    """

    __slots__ = ("_doubted", "_heard", "_told", "failures", "next_ms", "strangers", "unannounced")

    def __init__(self) -> None:
        self._heard: dict[ReplicaKey, ReceivedEndpoint] = {}
        self._doubted: set[ReplicaKey] = set()
        self._told: set[ReplicaKey] = set()
        self.unannounced: tuple[ReplicaKey, ...] = ()
        self.strangers: list[Endpoint] = []
        self.failures = 0
        self.next_ms = 0.0

    def hear(self, heard: ReceivedEndpoint) -> bool:
        """Store an address if its boot is later than the known one; True if it was stored.

        No boot is later than LATEST_BOOT_MS, so of those the last one counts: a false address must
        not be the last word.
        """
        known = self._heard.get(heard.key)
        newest_ms = NOT_RECEIVED_MS if known is None else known.boot_timestamp_ms
        boot_ms = heard.boot_timestamp_ms
        if boot_ms < newest_ms or boot_ms == newest_ms < LATEST_BOOT_MS:
            return False
        self._heard[heard.key] = heard
        self._doubted.discard(heard.key)
        return True

    def get(self, key: ReplicaKey) -> ReceivedEndpoint | None:
        """Newest reported address of that key."""
        return self._heard.get(key)

    def address_of(self, key: ReplicaKey, recorded: Endpoint | None) -> Endpoint | None:
        """The address to try next; `recorded` is that of the voters record."""
        heard = self._heard.get(key)
        if heard is None or (recorded is not None and key in self._doubted):
            return recorded
        return heard.endpoint

    def address_failed(self, key: ReplicaKey, at: Endpoint) -> None:
        """The address did not respond: try the other one next time, if there are two."""
        heard = self._heard.get(key)
        if heard is None:
            return
        if at == heard.endpoint:
            self._doubted.add(key)
        else:
            self._doubted.discard(key)

    def was_announced(self, key: ReplicaKey) -> None:
        """The voter has received this replica's address, or does not support the RPC."""
        self._told.add(key)
        self.unannounced = tuple(each for each in self.unannounced if each != key)

    def announce_again(self) -> None:
        """The address that was sent is outdated: send it again to all voters."""
        self.unannounced = (*self.unannounced, *self._told)
        self._told = set()

    def announce_soon(self, now_ms: float) -> None:
        """A voter that could not be reached is available again."""
        self.failures, self.next_ms = 0, now_ms

    def learn_target(self, heard: ReceivedEndpoint, voters: Container[ReplicaKey]) -> bool:
        """Store the address of a target voter, of which an AlterQuorum may have given the id alone.

        One address per id: of several keys that are not in `voters`, the one with the latest boot.
        """
        for known in [each for each in self._heard.values() if each.key.id == heard.key.id]:
            if known.key != heard.key and known.key not in voters:
                if known.boot_timestamp_ms >= heard.boot_timestamp_ms:
                    return False
                del self._heard[known.key]
        return self.hear(heard)

    def use_voters(
        self,
        voters: tuple[ReplicaKey, ...],
        own: ReplicaKey,
        now_ms: float,
        targets: tuple[ReplicaKey, ...] = (),
    ) -> None:
        """Keep only addresses of `voters` and `targets`.

        New voters get this replica's address if it is a voter.
        """
        for gone in self._heard.keys() - set(voters):
            if not is_target(gone, targets):
                del self._heard[gone]
        self._doubted.intersection_update(voters)
        self._told.intersection_update(voters)
        self.strangers = []
        others = tuple(key for key in voters if key != own and key not in self._told)
        self.unannounced = others if own in voters else ()
        self.announce_soon(now_ms)


def is_target(key: ReplicaKey, targets: tuple[ReplicaKey, ...]) -> bool:
    """Whether a target names this key, or its id without a UUID."""
    return key in targets or ReplicaKey(key.id) in targets
