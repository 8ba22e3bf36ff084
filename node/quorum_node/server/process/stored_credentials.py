"""The SCRAM credentials of the committed image, for listeners where clients log in.

Owns the answers for unknown users: see `Decoy`. Must not know connections.
"""

import hashlib
import secrets
from typing import Protocol

from quorum_node.image.access import ScramImage
from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.security.scram.credential import Decoy, usual_iterations
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.security.scram.sasl_session import Credentials
from quorum_node.server.rights.guard import GuardedReplica


class CredentialReplica(GuardedReplica, Protocol):
    """The replica with the committed credentials."""

    def identity(self) -> tuple[str, int, tuple[object, ...]]:
        """Cluster id, own id, voters."""


class CommittedCredentials:
    """See `StoredCredentials` of the listeners."""

    def __init__(self, replica: CredentialReplica) -> None:
        self._replica = replica
        self._committed = replica.committed
        self._is_loaded = False
        self._made: tuple[ScramImage, Credentials] | None = None

    @property
    def are_loaded(self) -> bool:
        """See `StoredCredentials`. Once loaded, they stay in use, even without a leader."""
        if not self._is_loaded:
            replica = self._replica
            self._is_loaded = (
                replica.knows_commits() and self._committed.end_offset >= replica.high_watermark
            )
        return self._is_loaded

    @property
    def version(self) -> object:
        """See `StoredCredentials`."""
        return self._committed.image.scram

    def credentials(self) -> Credentials:
        """See `StoredCredentials`."""
        scram = self._committed.image.scram
        if self._made is None or self._made[0] is not scram:
            self._made = scram, self._make(scram)
        return self._made[1]

    def key_of(self, mechanism: ScramMechanism, user: str) -> UserScramCredentialRecord | None:
        """See `StoredCredentials`."""
        return self._committed.image.scram.get(mechanism.number, user)

    def _make(self, scram: ScramImage) -> Credentials:
        # Derived from the cluster id: equal on every node and after every restart, and unknown to clients that may not read it.
        cluster_id, _, _ = self._replica.identity()
        secret = hashlib.sha256(b"decoy\0" + cluster_id.encode()).digest()
        return Credentials(
            self.key_of,
            Decoy(secret, usual_iterations(scram.by_user.values())),
            lambda: secrets.token_urlsafe(24),
        )
