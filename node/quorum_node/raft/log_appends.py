"""The core's own view of the log, updated together with the outputs to the driver.

Owns appending (as leader and as follower) and truncating, with all dependent state: epochs, voter
sets, durable end. Must not know when to do it. KIP-595: voter sets take effect at append and are
reverted on truncation (K595-04).
"""

from collections.abc import Sequence

from quorum_node.raft.leadership import Leader
from quorum_node.raft.outputs import AppendBatch, TruncateLog
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.records.batches import (
    Batch,
    CorruptBatch,
    decode_records,
    encode_batch,
    encode_values,
)
from quorum_node.records.control import (
    ControlRecord,
    KRaftVersion,
    VotersRecord,
    decode_control,
    encode_control,
)


def append_values(replica: ReplicaState, values: Sequence[bytes]) -> tuple[int, int]:
    """As leader: append one batch of metadata records; returns (base offset, end offset)."""
    base = replica.log_end
    end = base + len(values)
    data = encode_values(
        base_offset=base,
        leader_epoch=replica.epoch,
        timestamp_ms=replica.wall_clock_ms(),
        values=values,
    )
    replica.note_append(replica.epoch, base, end)
    replica.out.append(AppendBatch(base, end, replica.epoch, data))
    return base, end


def append_control(replica: ReplicaState, records: Sequence[ControlRecord]) -> int:
    """As leader: append one control batch; returns its base offset. Voters in it take effect at once."""
    base = replica.log_end
    end = base + len(records)
    data = encode_batch(
        base_offset=base,
        leader_epoch=replica.epoch,
        timestamp_ms=replica.wall_clock_ms(),
        records=[encode_control(record) for record in records],
        control=True,
    )
    replica.note_append(replica.epoch, base, end)
    replica.out.append(AppendBatch(base, end, replica.epoch, data))
    for offset, record in enumerate(records, base):
        _take_control(replica, offset, replica.epoch, record)
    return base


def append_fetched(replica: ReplicaState, batches: Sequence[Batch]) -> bool:
    """As follower: append whole, checked batches; those already in the log are skipped.

    True if any is new. Raises CorruptBatch if offsets or epochs can't be those of the leader's log,
    or if no batch is new.
    """
    appended = False
    for batch in batches:
        header, data = batch
        end = header.end_offset
        if end <= replica.log_end:
            continue
        if header.base_offset != replica.log_end:
            raise CorruptBatch(0, f"offset {header.base_offset} where {replica.log_end} follows")
        if not replica.epochs.last_epoch <= header.leader_epoch <= replica.epoch:
            raise CorruptBatch(0, f"epoch {header.leader_epoch} in epoch {replica.epoch}")
        controls = (
            [(record.offset, decode_control(record)) for record in decode_records(batch)]
            if header.is_control
            else ()
        )
        replica.note_append(header.leader_epoch, header.base_offset, end)
        replica.out.append(AppendBatch(header.base_offset, end, header.leader_epoch, bytes(data)))
        for offset, record in controls:
            _take_control(replica, offset, header.leader_epoch, record)
        appended = True
    if batches and not appended:
        end = batches[-1].header.end_offset
        raise CorruptBatch(0, f"it ends at offset {end}, and {replica.log_end} was asked for")
    return appended


def truncate(replica: ReplicaState, end_offset: int) -> None:
    """Drop everything from `end_offset` on, which must not be committed."""
    assert replica.high_watermark <= end_offset <= replica.log_end
    assert not isinstance(replica.role, Leader), "a leader never truncates its log"
    if end_offset == replica.log_end:
        return
    replica.note_truncation(end_offset)
    replica.out.append(TruncateLog(end_offset))
    if replica.voters.truncate(end_offset):
        replica.emit_voters_changed()


def _take_control(replica: ReplicaState, offset: int, epoch: int, record: object) -> None:
    if isinstance(record, VotersRecord):
        replica.voters.append(offset, epoch, record)
        replica.emit_voters_changed()
    elif isinstance(record, KRaftVersion):
        replica.uses_kraft_version(record.level)
