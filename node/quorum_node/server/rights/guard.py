"""The door, with the entries and the voters of this moment, and what was decided before.

Owns when a decision is made again: once the committed entries, or the voters, are others. Until then a connection that
repeats what it was allowed costs a look into a table. Must not know the rules (`security/rights/door.py`).
"""

from collections.abc import Callable
from typing import Protocol

from quorum_node.image.committed import CommittedImage
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.broker_apis import BROKER_APIS
from quorum_node.schema.schema import Message
from quorum_node.security.caller import Caller
from quorum_node.security.rights.claims import IDS_OF
from quorum_node.security.rights.door import Asked, Denial, Door, DoorSettings
from quorum_node.security.rights.http_table import route_name
from quorum_node.server.rights.denials import Denials
from quorum_node.server.rights.port import Asking

MAX_DECIDED = 64
"""Decisions that one connection keeps: more than a member or a broker ever needs."""
_NAMES = {api.request: api.name for api in (*APIS.values(), *BROKER_APIS.values())}


class JudgedReplica(Protocol):
    """The replica whose committed entries count."""

    @property
    def committed(self) -> CommittedImage:
        """What is committed and applied."""

    def knows_commits(self) -> bool:
        """Whether this process has learned how far the log is committed."""

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""


class DoorGuard:
    """`Guard`. Made only where something is asked: with an authorizer, or with ids bound to certificates."""

    def __init__(
        self,
        settings: DoorSettings,
        replica: JudgedReplica,
        voter_ids: Callable[[], frozenset[int]],
        denials: Denials,
    ) -> None:
        self._replica = replica
        self._committed = replica.committed
        self._voter_ids = voter_ids
        self._denials = denials
        self._door = Door(settings, self._committed.image.acls, loaded=False)
        self._is_current = False

    @property
    def is_on(self) -> bool:
        """See `Guard`."""
        return self._door.settings.authorizer.enabled

    def voters_changed(self) -> None:
        """What was decided before is decided anew."""
        self._is_current = False

    def request(self, asking: Asking, body: Message) -> Asked | Denial:
        """See `Guard`."""
        # This is the path of every Fetch: few calls.
        door = self._door
        if not self._is_current or self._committed.image.acls is not door.acls:
            door = self._renewed()
        caller, decided = asking.caller, asking.decided
        kind = type(body)
        ids_of = IDS_OF.get(kind)
        key = (kind, None if ids_of is None else ids_of(body))
        if decided is not None:
            known = decided.get(key)
            if known is not None and known.door is door and known.caller is caller:
                return known
        found = door.request(caller, body)
        if isinstance(found, Denial):
            self._denials.denied(caller, _NAMES[kind], found.text)
        elif decided is not None and not found.rule.own_voter:
            # Of a rule with `own_voter` it matters whom the request names: it is not decided by its key alone.
            if len(decided) >= MAX_DECIDED:
                decided.clear()
            decided[key] = found
        return found

    def route(self, caller: Caller, method: str, path: str) -> Asked | Denial | None:
        """See `Guard`."""
        found = self._renewed().route(caller, method, path)
        if isinstance(found, Denial):
            self._denials.denied(caller, route_name(method, path), found.text)
        return found

    def _renewed(self) -> Door:
        """The door of this moment; the same one if nothing has changed."""
        before = self._door
        loaded = before.loaded or self._is_loaded()
        self._is_current = loaded
        acls, voter_ids = self._committed.image.acls, self._voter_ids()
        if (acls is not before.acls) or (loaded, voter_ids) != (before.loaded, before.voter_ids):
            self._door = Door(before.settings, acls, loaded, voter_ids)
        return self._door

    def _is_loaded(self) -> bool:
        replica = self._replica
        return replica.knows_commits() and self._committed.end_offset >= replica.high_watermark
