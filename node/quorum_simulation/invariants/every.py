"""All invariants of a history. A new one is a file in this folder and a line here, at the end."""

from quorum_simulation.invariants.commit_is_durable import CommitIsDurable
from quorum_simulation.invariants.committed_never_lost import CommittedNeverLost
from quorum_simulation.invariants.corruption_is_reported import CorruptionIsReported
from quorum_simulation.invariants.epochs_need_a_reason import EpochsNeedAReason
from quorum_simulation.invariants.gone_copies_do_not_count import GoneCopiesDoNotCount
from quorum_simulation.invariants.healthy_disks_are_kept import HealthyDisksAreKept
from quorum_simulation.invariants.high_watermark_monotonic import HighWatermarkMonotonic
from quorum_simulation.invariants.invariant import Invariant
from quorum_simulation.invariants.linearizable_reads import LinearizableReads
from quorum_simulation.invariants.log_begins_behind_a_snapshot import (
    LogBeginsBehindASnapshot,
)
from quorum_simulation.invariants.log_matching import LogMatching
from quorum_simulation.invariants.one_change_at_a_time import OneChangeAtATime
from quorum_simulation.invariants.one_vote_per_epoch import OneVotePerEpoch
from quorum_simulation.invariants.pending_is_replayed import PendingIsReplayed
from quorum_simulation.invariants.silent_after_storage_failure import (
    SilentAfterStorageFailure,
)
from quorum_simulation.invariants.single_leader import SingleLeader
from quorum_simulation.invariants.snapshots_are_committed_state import (
    SnapshotsAreCommittedState,
)
from quorum_simulation.invariants.witness_never_leads import WitnessNeverLeads

INVARIANTS: tuple[type[Invariant], ...] = (
    SingleLeader,
    LogMatching,
    CommittedNeverLost,
    HighWatermarkMonotonic,
    CommitIsDurable,
    OneChangeAtATime,
    LinearizableReads,
    OneVotePerEpoch,
    SilentAfterStorageFailure,
    WitnessNeverLeads,
    SnapshotsAreCommittedState,
    LogBeginsBehindASnapshot,
    EpochsNeedAReason,
    HealthyDisksAreKept,
    GoneCopiesDoNotCount,
    CorruptionIsReported,
    PendingIsReplayed,
)
