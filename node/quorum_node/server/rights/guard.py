"""Authorization with the current entries and voters, and a cache of its decisions.

Owns when a decision is made again: after a change of the committed entries, or of the voters. Until then a repeated request costs one
look-up in the connection's cache. Must not know the rules (`security/rights/request_authorizer.py`).
"""

from collections.abc import Callable
from typing import Protocol

from quorum_node.image.committed import CommittedImage
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.broker_apis import BROKER_APIS
from quorum_node.schema.schema import Message
from quorum_node.security.caller import Caller
from quorum_node.security.rights.claims import IDS_OF
from quorum_node.security.rights.http_table import route_name
from quorum_node.security.rights.request_authorizer import (
    AccessSettings,
    Asked,
    Denial,
    RequestAuthorizer,
)
from quorum_node.server.rights.denials import Denials
from quorum_node.server.rights.port import Asking

MAX_DECIDED = 64
"""Decisions that one connection caches: more than a member or a broker ever needs."""
_NAMES = {api.request: api.name for api in (*APIS.values(), *BROKER_APIS.values())}


class GuardedReplica(Protocol):
    """The replica with the committed entries."""

    @property
    def committed(self) -> CommittedImage:
        """The image of the committed records that are applied."""

    def knows_commits(self) -> bool:
        """Whether this process has received the high watermark from a leader, or leads, so that it is current."""

    @property
    def high_watermark(self) -> int:
        """End of the committed records."""


class CachingGuard:
    """The `Guard`. Created only where requests are checked: with an authorizer, or with ids bound to certificates."""

    def __init__(
        self,
        settings: AccessSettings,
        replica: GuardedReplica,
        voter_ids: Callable[[], frozenset[int]],
        denials: Denials,
    ) -> None:
        self._replica = replica
        self._committed = replica.committed
        self._voter_ids = voter_ids
        self._denials = denials
        self._authorizer = RequestAuthorizer(settings, self._committed.image.acls, loaded=False)
        self._is_current = False

    @property
    def is_on(self) -> bool:
        """See `Guard`."""
        return self._authorizer.settings.authorizer.enabled

    def voters_changed(self) -> None:
        """Invalidate the cached decisions."""
        self._is_current = False

    def request(self, asking: Asking, body: Message) -> Asked | Denial:
        """See `Guard`."""
        # Every Fetch takes this path: keep the number of calls low.
        authorizer = self._authorizer
        if not self._is_current or self._committed.image.acls is not authorizer.acls:
            authorizer = self._renewed()
        caller, decided = asking.caller, asking.decided
        kind = type(body)
        ids_of = IDS_OF.get(kind)
        key = (kind, None if ids_of is None else ids_of(body))
        if decided is not None:
            known = decided.get(key)
            if known is not None and known.authorizer is authorizer and known.caller is caller:
                return known
        found = authorizer.request(caller, body)
        if isinstance(found, Denial):
            self._denials.denied(caller, _NAMES[kind], found.text)
        elif decided is not None and not found.rule.own_voter:
            # A rule with `own_voter` depends on the voter that the request names: it is not cached by its key.
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

    def _renewed(self) -> RequestAuthorizer:
        """The rules with the current entries and voters; the same object if nothing has changed."""
        before = self._authorizer
        loaded = before.loaded or self._is_loaded()
        self._is_current = loaded
        acls, voter_ids = self._committed.image.acls, self._voter_ids()
        if (acls is not before.acls) or (loaded, voter_ids) != (before.loaded, before.voter_ids):
            self._authorizer = RequestAuthorizer(before.settings, acls, loaded, voter_ids)
        return self._authorizer

    def _is_loaded(self) -> bool:
        replica = self._replica
        return replica.knows_commits() and self._committed.end_offset >= replica.high_watermark
