"""Records of access control entries, SCRAM credentials and delegation tokens.

Owns declarations only. Source: KIP-631, "Access control", as shipped in Kafka 4.3 (KIP-900: SCRAM;
KIP-900 and KIP-48: tokens).
"""

from uuid import UUID

from quorum_node.records.metadata.record import MetadataMessage, metadata_record
from quorum_node.schema.schema import ANY_UUID, BYTES, INT8, INT32, INT64, STRING, Array, wire


@metadata_record(number=18)
class AccessControlEntryRecord(MetadataMessage):
    """Adds an entry. Numbers are those of Kafka's enumerations."""

    id: UUID = wire(ANY_UUID)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@metadata_record(number=19)
class RemoveAccessControlEntryRecord(MetadataMessage):
    """Removes an entry."""

    id: UUID = wire(ANY_UUID)


@metadata_record(number=11)
class UserScramCredentialRecord(MetadataMessage):
    """A user's credential for one mechanism (1: SCRAM-SHA-256, 2: SCRAM-SHA-512)."""

    name: str = wire(STRING)
    mechanism: int = wire(INT8)
    salt: bytes = wire(BYTES, secret=True)
    stored_key: bytes = wire(BYTES, secret=True)
    server_key: bytes = wire(BYTES, secret=True)
    iterations: int = wire(INT32)


@metadata_record(number=22)
class RemoveUserScramCredentialRecord(MetadataMessage):
    """Removes a credential."""

    name: str = wire(STRING)
    mechanism: int = wire(INT8)


@metadata_record(number=10)
class DelegationTokenRecord(MetadataMessage):
    """Creates or changes a delegation token."""

    owner: str = wire(STRING)
    requester: str = wire(STRING)
    renewers: tuple[str, ...] = wire(Array(STRING))
    issue_timestamp: int = wire(INT64)
    max_timestamp: int = wire(INT64)
    expiration_timestamp: int = wire(INT64)
    token_id: str = wire(STRING)


@metadata_record(number=26)
class RemoveDelegationTokenRecord(MetadataMessage):
    """Removes a token."""

    token_id: str = wire(STRING)
