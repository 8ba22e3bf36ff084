"""Access control entries, SCRAM credentials, delegation tokens in the image. PURE.

An entry is stored as its record, so tagged fields of newer versions are kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from immutables import Map

from quorum_node.image.acl_index import AclIndex
from quorum_node.image.ordering import sorted_lazily
from quorum_node.records.metadata import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    MetadataMessage,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from quorum_node.records.metadata.metadata_version import DELEGATION_TOKENS_LEVEL, SCRAM_LEVEL


@dataclass(frozen=True, slots=True)
class AclsImage:
    """Access control entries by id (as an integer: it hashes faster)."""

    by_id: Map[int, AccessControlEntryRecord] = Map()
    index: AclIndex = field(default_factory=AclIndex, compare=False, repr=False)
    """The same entries by resource."""

    def __iter__(self) -> Iterator[AccessControlEntryRecord]:
        return iter(self.by_id.values())

    def get(self, id: UUID) -> AccessControlEntryRecord | None:
        """The entry of that id."""
        return self.by_id.get(id.int)

    def replay_add(self, record: AccessControlEntryRecord) -> "AclsImage":
        """Add an entry. It replaces one with the same id."""
        before = self.by_id.get(record.id.int)
        index = self.index if before is None else self.index.removed(before)
        return AclsImage(self.by_id.set(record.id.int, record), index.added(record))

    def replay_remove(self, record: RemoveAccessControlEntryRecord) -> "AclsImage":
        """Remove an entry."""
        before = self.by_id.get(record.id.int)
        if before is None:
            return self
        return AclsImage(self.by_id.delete(record.id.int), self.index.removed(before))

    def snapshot_records(self) -> Iterator[MetadataMessage]:
        """One record for each, by id."""
        for number in sorted_lazily(self.by_id):
            yield self.by_id[number]


@dataclass(frozen=True, slots=True)
class ScramImage:
    """Credentials by (mechanism, user)."""

    by_user: Map[tuple[int, str], UserScramCredentialRecord] = Map()

    def get(self, mechanism: int, user: str) -> UserScramCredentialRecord | None:
        """The credential, or None."""
        return self.by_user.get((mechanism, user))

    def replay_set(self, record: UserScramCredentialRecord) -> "ScramImage":
        """Add or replace a credential."""
        return ScramImage(self.by_user.set((record.mechanism, record.name), record))

    def replay_remove(self, record: RemoveUserScramCredentialRecord) -> "ScramImage":
        """Remove a credential."""
        key = (record.mechanism, record.name)
        return ScramImage(self.by_user.delete(key)) if key in self.by_user else self

    def snapshot_records(self, metadata_version: int) -> Iterator[MetadataMessage]:
        """One record for each, if the level supports them."""
        if metadata_version >= SCRAM_LEVEL:
            for key in sorted_lazily(self.by_user):
                yield self.by_user[key]


@dataclass(frozen=True, slots=True)
class DelegationTokensImage:
    """Tokens by id."""

    by_id: Map[str, DelegationTokenRecord] = Map()

    def get(self, token_id: str) -> DelegationTokenRecord | None:
        """The token, or None."""
        return self.by_id.get(token_id)

    def replay_set(self, record: DelegationTokenRecord) -> "DelegationTokensImage":
        """Add or replace a token."""
        return DelegationTokensImage(self.by_id.set(record.token_id, record))

    def replay_remove(self, record: RemoveDelegationTokenRecord) -> "DelegationTokensImage":
        """Remove a token."""
        if record.token_id not in self.by_id:
            return self
        return DelegationTokensImage(self.by_id.delete(record.token_id))

    def snapshot_records(self, metadata_version: int) -> Iterator[MetadataMessage]:
        """One record for each, if the level supports them."""
        if metadata_version >= DELEGATION_TOKENS_LEVEL:
            for token_id in sorted_lazily(self.by_id):
                yield self.by_id[token_id]
