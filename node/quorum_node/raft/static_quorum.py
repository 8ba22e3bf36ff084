"""Formation of a static quorum: while there is no voters record, voters are known by id alone and
all have to agree.

Owns the differences from other quorums until the first leader has written the voters. Must not know
where the configured ids come from (`controller.quorum.voters`).
Source: KIP-853, "controller.quorum.voters"; KIP-595, "Bootstrapping Procedure".

A replica is in this phase (`ids_only`) as long as it has no voters record. Then:
* A candidate needs the vote of *every* configured voter, each addressed as (id, unknown UUID). An
id does not identify a disk: with a majority alone, one emptied disk and one late voter could elect
a second leader besides a quorum that has formed. A replica that has a voters record refuses such a
vote, so this would need the loss of a majority of the disks.
* Candidate and voter must have the same configured ids.
* The leader writes nothing until each voter has fetched in its epoch, and so reported its UUID.
Then it writes LeaderChange, kraft.version and the voters in one batch. That batch is committed by
keys, not by ids. Waiting for all voters costs nothing: without all UUIDs there is nothing to write.
"""

from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader
from quorum_node.raft.log_appends import append_control
from quorum_node.raft.messages import VoteRequest, voter_entry
from quorum_node.raft.outputs import FormationDelayed
from quorum_node.raft.quorum import can_reach_majority, has_majority
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord
from quorum_node.records.identity import ReplicaKey, Voter


def has_won(replica: ReplicaState, granted: set[ReplicaKey]) -> bool:
    """Enough votes: a majority, or all while voters are known by id alone."""
    voters = replica.voters.latest.voters
    if replica.ids_only:
        return granted.issuperset(voters.ordered_keys)
    return has_majority(voters, granted)


def can_still_win(replica: ReplicaState, rejected: set[ReplicaKey]) -> bool:
    """Whether the voters that have not rejected are enough."""
    voters = replica.voters.latest.voters
    if replica.ids_only:
        return rejected.isdisjoint(voters.ordered_keys)
    return can_reach_majority(voters, rejected)


def asked_ids(replica: ReplicaState) -> tuple[int, ...]:
    """The candidate's configured voter ids, so that others can compare them; otherwise empty."""
    if not replica.ids_only:
        return ()
    return configured_ids(replica)


def configured_ids(replica: ReplicaState) -> tuple[int, ...]:
    """Ids of `controller.quorum.voters`, ascending."""
    return tuple(sorted(voter.key.id for voter in replica.config.static_voters))


def is_addressed(replica: ReplicaState, key: ReplicaKey | None) -> bool:
    """Whether a request for this key is for this replica.

    The id alone is sufficient only before formation.
    """
    return key in (None, replica.key) or (replica.ids_only and key == ReplicaKey(replica.key.id))


def refuse_candidate(replica: ReplicaState, request: VoteRequest) -> RaftError | None:
    """Why a candidate without the UUIDs of its voters gets no vote. None: its log decides."""
    if not replica.ids_only:
        # the quorum has formed: ids alone are not sufficient any more
        return RaftError.INCONSISTENT_VOTER_SET
    if request.voter != ReplicaKey(replica.key.id):
        return RaftError.INVALID_VOTER_KEY
    own = configured_ids(replica)
    if request.static_voters != own:
        theirs = ", ".join(map(str, request.static_voters))
        ours = ", ".join(map(str, own))
        why = f"it is configured with the voters {theirs}, this node with {ours}"
        replica.out.append(FormationDelayed(request.candidate, why))
        return RaftError.INCONSISTENT_VOTER_SET
    if request.candidate.id not in own or request.candidate.id == replica.key.id:
        return RaftError.INCONSISTENT_VOTER_SET
    return None


def note_sender(replica: ReplicaState, key: ReplicaKey) -> None:
    """A Fetch or FetchSnapshot in the leader's epoch contains the UUID of a configured voter.

    The last one counts: an earlier disk under that id may have been emptied since.
    """
    leader = replica.role
    if not replica.ids_only or not isinstance(leader, Leader):
        return
    voters = replica.voters.latest.voters
    known = voters.newest(key.id)
    if known is not None and key.uuid is not None and key.id != replica.key.id:
        leader.unendorsed.discard(known.key)
        if known.key != key:
            replica.voters.rebase(voters.identified(key))
    write_voters_if_known(replica, leader)


def write_voters_if_known(replica: ReplicaState, leader: Leader) -> None:
    """Write the first batch of the log, once all UUIDs are known."""
    if leader.handover is not None or replica.disk_low or replica.halted:
        return
    keys = replica.voters.latest.voters.ordered_keys
    if replica.key not in keys or any(key.uuid is None for key in keys):
        return
    voters = tuple(_entry(replica, leader, each) for each in replica.voters.latest.voters)
    cluster_id = replica.cluster_id or replica.config.new_cluster_id
    record = VotersRecord(voters, cluster_id, len(voters))
    append_control(replica, (LeaderChange(replica.key.id, keys, keys), KRaftVersion(1), record))


def forget_senders(replica: ReplicaState) -> None:
    """The leader ended before it wrote the batch: the next one has to collect the UUIDs again."""
    if replica.ids_only:
        replica.voters.rebase(replica.configured_voters())


def delayed_by(replica: ReplicaState, peer: ReplicaKey, error: RaftError | None) -> None:
    """Report to the operator which voter delays the formation (None: no response)."""
    if replica.ids_only and error is not RaftError.NONE:
        why = "it does not respond" if error is None else f"it refuses its vote: {error.value}"
        replica.out.append(FormationDelayed(peer, why))


def _entry(replica: ReplicaState, leader: Leader, voter: Voter) -> Voter:
    """Entry of the voter with its known data: its own listeners, and whether it supports our
    private fields.
    """
    if voter.key == replica.key:
        return voter_entry(voter.key, replica.config.endpoints)
    progress = leader.progress.get(voter.key)
    if progress is not None and progress.stock is False:
        return voter_entry(voter.key, voter.endpoints)
    return voter
