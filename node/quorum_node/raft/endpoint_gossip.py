"""Where voters listen, by hearsay: the newest boot of a voter knows best.

Owns what was heard and which address is tried next. Must not know how it is asked for
(`discover_brokers.py`). Nothing here is durable, and no vote and no commit depends on it: whoever
listens at an address is asked under the voter's key.
Source: KIP-595, "DiscoverBrokers": "update its local cache of connection information ... corresponding
to the largest observed BootTimestamp".

The voters record has an address too, without a boot timestamp, so neither is always the newer one: what
was heard goes first, and an address at which nobody answered gives way to the other one.
"""

from collections.abc import Container
from dataclasses import dataclass

from quorum_node.records.identity import Endpoint, ReplicaKey

NOT_HEARD_MS = -1
"""Boot timestamp of an address that comes from a voters record or a configuration."""


@dataclass(frozen=True, slots=True)
class HeardEndpoint:
    """A voter's controller listener, as of its start at `boot_timestamp_ms` (its own wall clock)."""

    key: ReplicaKey
    boot_timestamp_ms: int
    endpoint: Endpoint


class EndpointGossip:
    """Per replica key. `untold` voters don't know yet where this replica listens in this run of it.

    `strangers`: where someone may know the leader, while no voters are known to whom addresses belong.
    """

    __slots__ = ("_doubted", "_heard", "_told", "failures", "next_ms", "strangers", "untold")

    def __init__(self) -> None:
        self._heard: dict[ReplicaKey, HeardEndpoint] = {}
        self._doubted: set[ReplicaKey] = set()
        self._told: set[ReplicaKey] = set()
        self.untold: tuple[ReplicaKey, ...] = ()
        self.strangers: list[Endpoint] = []
        self.failures = 0
        self.next_ms = 0.0

    def hear(self, heard: HeardEndpoint) -> bool:
        """Take it if it is of a later boot than what is known of that key; True if it was."""
        known = self._heard.get(heard.key)
        newest_ms = NOT_HEARD_MS if known is None else known.boot_timestamp_ms
        if heard.boot_timestamp_ms <= newest_ms:
            return False
        self._heard[heard.key] = heard
        self._doubted.discard(heard.key)
        return True

    def get(self, key: ReplicaKey) -> HeardEndpoint | None:
        """What was heard of that key last."""
        return self._heard.get(key)

    def address_of(self, key: ReplicaKey, recorded: Endpoint | None) -> Endpoint | None:
        """The address to try; `recorded` is that of the voters record."""
        heard = self._heard.get(key)
        if heard is None or (recorded is not None and key in self._doubted):
            return recorded
        return heard.endpoint

    def nobody_answered(self, key: ReplicaKey, at: Endpoint) -> None:
        """Try the other address next time, if there are two."""
        heard = self._heard.get(key)
        if heard is None:
            return
        if at == heard.endpoint:
            self._doubted.add(key)
        else:
            self._doubted.discard(key)

    def was_told(self, key: ReplicaKey) -> None:
        """It knows where this replica listens, or never will."""
        self._told.add(key)
        self.untold = tuple(each for each in self.untold if each != key)

    def tell_again(self) -> None:
        """What was told turned out to be too old."""
        self.untold = (*self.untold, *self._told)
        self._told = set()

    def tell_soon(self, now_ms: float) -> None:
        """Someone who could not be told is there again."""
        self.failures, self.next_ms = 0, now_ms

    def hear_of_target(self, heard: HeardEndpoint, voters: Container[ReplicaKey]) -> bool:
        """The same for a target voter, of which an AlterQuorum may have told the id alone.

        One address for each id: of several keys that are no `voters` the one with the latest boot.
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
        """Nobody else is remembered but `targets`; new voters are told, if this replica is one of them."""
        for gone in self._heard.keys() - set(voters):
            if not is_target(gone, targets):
                del self._heard[gone]
        self._doubted.intersection_update(voters)
        self._told.intersection_update(voters)
        self.strangers = []
        others = tuple(key for key in voters if key != own and key not in self._told)
        self.untold = others if own in voters else ()
        self.tell_soon(now_ms)


def is_target(key: ReplicaKey, targets: tuple[ReplicaKey, ...]) -> bool:
    """Whether a target names this key, or its id without a UUID."""
    return key in targets or ReplicaKey(key.id) in targets
