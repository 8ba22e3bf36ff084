"""Records of the local log as documents of the admin API.

Reads raw batches and decodes them. Must not know the replica that wrote them.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from quorum_node.api import EndpointModel, LogRecord, VoterModel, VoterSetEntry
from quorum_node.image.record_fields import record_fields
from quorum_node.raft.voters import VotersEntry
from quorum_node.records.batches import Batch, DecodedRecord, decode_records, split_batches
from quorum_node.records.control import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    UnknownControl,
    VotersRecord,
    decode_control,
)
from quorum_node.records.identity import ReplicaKey, Voter, uuid_text
from quorum_node.records.metadata import (
    RECORDS_BY_TYPE,
    AnyMetadata,
    MetadataMessage,
    UnknownMetadata,
    decode_metadata,
)

_PIECE_BYTES = 64 * 1024


class ReadableLog(Protocol):
    """The methods of the log that are used here."""

    start_offset: int
    end_offset: int

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes: ...


def committed_records(
    log: ReadableLog, from_offset: int, high_watermark: int
) -> Iterator[LogRecord]:
    """Records from_offset <= o < high_watermark, in order. Raises StorageFailure."""
    offset = max(from_offset, log.start_offset)
    # The caller may pause between records: a snapshot may have replaced the next ones meanwhile.
    while log.start_offset <= offset < high_watermark:
        for batch in _batches(log, offset, high_watermark):
            for record in decode_records(batch):
                if record.offset >= from_offset:
                    yield _document(batch, record)
            offset = batch.header.end_offset


async def voter_sets(
    log: ReadableLog,
    high_watermark: int,
    known: Sequence[VotersEntry] = (),
    *,
    rest: Callable[[], Awaitable[None]],
) -> list[VoterSetEntry]:
    """Every voters record of the log, committed or not, oldest first.

    Voters records before the start of the log were deleted. The one that was in force at the start is returned from `known`: it is in a
    snapshot.
    """
    found = [
        VoterSetEntry(
            offset=entry.offset,
            epoch=entry.epoch,
            committed=True,
            voters=[_voter(voter) for voter in entry.voters],
        )
        for entry in known
        if 0 <= entry.offset < log.start_offset
    ]
    offset = log.start_offset
    while offset < log.end_offset:
        offset = max(offset, log.start_offset)
        batches = _batches(log, offset, log.end_offset)
        if not batches:
            break
        for batch in batches:
            offset = batch.header.end_offset
            if batch.header.is_control:
                found += _voter_sets_in(batch, high_watermark)
        await rest()
    return found


def _batches(log: ReadableLog, offset: int, limit_offset: int) -> list[Batch]:
    return split_batches(log.read(offset, _PIECE_BYTES, limit_offset))[0]


def _voter_sets_in(batch: Batch, high_watermark: int) -> list[VoterSetEntry]:
    return [
        VoterSetEntry(
            offset=record.offset,
            epoch=batch.header.leader_epoch,
            committed=record.offset < high_watermark,
            voters=[_voter(voter) for voter in control.voters],
        )
        for record in decode_records(batch)
        if isinstance(control := decode_control(record), VotersRecord)
    ]


def _document(batch: Batch, record: DecodedRecord) -> LogRecord:
    content: ControlRecord | UnknownControl | AnyMetadata
    if batch.header.is_control:
        content = decode_control(record)
    else:
        content = decode_metadata(record.value or b"")
    return LogRecord(
        offset=record.offset,
        epoch=batch.header.leader_epoch,
        timestamp_ms=record.timestamp_ms,
        control=batch.header.is_control,
        type=_type_name(content),
        fields=_fields(content),
    )


def _type_name(
    content: ControlRecord | UnknownControl | AnyMetadata,
) -> str:
    if isinstance(content, UnknownMetadata):
        known = RECORDS_BY_TYPE.get(content.type, type(content))
        return known.__name__
    return type(content).__name__


def _fields(
    content: ControlRecord | UnknownControl | AnyMetadata,
) -> dict[str, object]:
    match content:
        case LeaderChange():
            return {
                "leaderId": content.leader_id,
                "voters": [_key(key) for key in content.voters],
                "grantingVoters": [_key(key) for key in content.granting_voters],
            }
        case KRaftVersion():
            return {"level": content.level}
        case VotersRecord():
            voters = [_voter(voter).model_dump(by_alias=True) for voter in content.voters]
            return {
                "voters": voters,
                "clusterId": content.cluster_id,
                "initialVoters": content.initial_voters,
                "targetVoters": _targets(content),
            }
        case UnknownMetadata():
            payload = content.payload.hex()
            return {"recordType": content.type, "version": content.version, "payload": payload}
        case UnknownControl():
            return {"recordType": content.type}
        case MetadataMessage():
            return record_fields(content)
    return {}


def _targets(record: VotersRecord) -> list[dict[str, object]] | None:
    if record.target_voters is None:
        return None
    return [
        {"id": key.id, "uuid": uuid_text(key.uuid) if key.uuid else None}
        for key in record.target_voters
    ]


def _key(key: ReplicaKey) -> dict[str, object]:
    return {"id": key.id, "uuid": uuid_text(key.uuid)}


def _voter(voter: Voter) -> VoterModel:
    endpoints = [EndpointModel(name=e.name, host=e.host, port=e.port) for e in voter.endpoints]
    return VoterModel(id=voter.key.id, uuid=uuid_text(voter.key.uuid), endpoints=endpoints)
