"""The parts of a span without keys: its range, and its control records. PURE.

Owns joining adjacent spans: every offset once, none missing. Control records take effect regardless of transactions.
"""

from dataclasses import dataclass, replace

from quorum_node.records.batches import DecodedRecord
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord, decode_control
from quorum_pipeline.deltas.contradiction import Contradiction


@dataclass(frozen=True, slots=True)
class Summary:
    """`epoch` and `timestamp_ms`: of the last record. `latest_ms`: the greatest time of a record, which is not that of the last one
    if a new leader's clock was behind. `has_formed`: a set of voters was as large as a new quorum's.

    `stop`: later spans do not count, because of damage, or (`wrong` None) because a later moment than the requested one was reached.
    """

    start_offset: int
    end_offset: int
    epoch: int = 0
    timestamp_ms: int = 0
    records: int = 0
    size_bytes: int = 0
    leader_id: int | None = None
    kraft_version: int | None = None
    voters: VotersRecord | None = None
    has_formed: bool = False
    stop: bool = False
    wrong: Contradiction | None = None
    latest_ms: int = 0

    def control(self, record: DecodedRecord, epoch: int) -> "Summary":
        """Return the summary with one more control record. Raises MalformedRecord."""
        match decode_control(record):
            case LeaderChange(leader_id=leader_id):
                return replace(self, leader_id=leader_id)
            case KRaftVersion(level=level):
                return replace(self, kraft_version=level)
            case VotersRecord() as voters:
                return self.with_voters(replace(voters, log_position=(record.offset, epoch)))
        return self

    def with_voters(self, voters: VotersRecord) -> "Summary":
        """Return the summary with these voters."""
        forms = len(voters.voters) >= (voters.initial_voters or 1)
        return replace(self, voters=voters, has_formed=self.has_formed or forms)

    def without_records(self) -> "Summary":
        """Return the summary of a state: its position, without counts of read records."""
        return replace(self, start_offset=self.end_offset, records=0, size_bytes=0, stop=False)

    def then(self, other: "Summary") -> "Summary":
        """Return the summary of both spans."""
        if self.stop:
            return self
        if other.start_offset != self.end_offset:
            reason = f"offset {other.start_offset} where {self.end_offset} is expected: records are missing or duplicated"
            return replace(self, stop=True, wrong=Contradiction(self.end_offset, reason))
        empty = other.end_offset == other.start_offset
        last = self if empty else other
        return Summary(
            self.start_offset,
            other.end_offset,
            last.epoch,
            last.timestamp_ms,
            self.records + other.records,
            self.size_bytes + other.size_bytes,
            self.leader_id if other.leader_id is None else other.leader_id,
            self.kraft_version if other.kraft_version is None else other.kraft_version,
            self.voters if other.voters is None else other.voters,
            self.has_formed or other.has_formed,
            other.stop,
            other.wrong,
            max(self.latest_ms, other.latest_ms),
        )
