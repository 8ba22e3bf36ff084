"""Static quorums and discovery broken on purpose: ids used as keys, early writes, old addresses.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable
from typing import Any

import pytest

from quorum_node.raft import (
    discover_brokers,
    election,
    fetch_serving,
    log_appends,
    membership,
    safety,
    static_quorum,
    transitions,
    vote,
)
from quorum_node.raft.endpoint_gossip import EndpointGossip, ReceivedEndpoint
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import VotersPosition
from quorum_node.raft.quorum import can_reach_majority, has_majority
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.voters import VoterSet
from quorum_node.records.control import LeaderChange
from quorum_node.records.identity import ReplicaKey, Voter

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def elect_by_a_majority_of_ids(patch: Patch) -> None:
    """Before the UUIDs are known, a majority of ids elects.

    Would: let an emptied disk and a late starter elect a second leader behind a quorum that has formed.
    """
    patch.setattr(
        election, "has_won", lambda state, keys: has_majority(state.voters.latest.voters, keys)
    )
    patch.setattr(
        election,
        "can_still_win",
        lambda state, keys: can_reach_majority(state.voters.latest.voters, keys),
    )


def grant_votes_to_ids_for_ever(patch: Patch) -> None:
    """A replica that knows the voters by key still grants a vote that is requested by id.

    Would: give the vote of a formed quorum's member to a candidate outside of it.
    """
    real = static_quorum.refuse_candidate

    def generous(state: ReplicaState, request: Any) -> Any:
        return real(state, request) if state.ids_only else None

    patch.setattr(vote, "refuse_candidate", generous)
    patch.setattr(vote, "_is_known", lambda state, candidate: True)


def vote_across_configurations(patch: Patch) -> None:
    """A candidate with other static voters gets the vote as well.

    Would: form a quorum of some of the nodes, or several, from configurations that differ.
    """
    real = static_quorum.refuse_candidate

    def blind(state: ReplicaState, request: Any) -> Any:
        before = static_quorum.configured_ids
        static_quorum.configured_ids = lambda each: request.static_voters
        try:
            return real(state, request)
        finally:
            static_quorum.configured_ids = before

    patch.setattr(vote, "refuse_candidate", blind)


def write_before_the_voters(patch: Patch) -> None:
    """A static leader writes its LeaderChange before it knows the voters.

    Would: let records be counted by ids, of disks that may be wiped and replaced undetected.
    """
    real = transitions.become_leader

    def hasty(state: ReplicaState, granted: Any) -> Leader:
        leader = real(state, granted)
        if state.ids_only:
            keys = state.voters.latest.voters.ordered_keys
            log_appends.append_control(state, (LeaderChange(state.key.id, keys, keys),))
        return leader

    patch.setattr(election, "become_leader", hasty)


def write_unknown_voters(patch: Patch) -> None:
    """The voters are written as soon as one of the others has fetched.

    Would: add a voter with a key that no replica has.
    """
    real = static_quorum.note_sender

    def early(state: ReplicaState, key: ReplicaKey) -> None:
        real(state, key)
        voters = state.voters.latest.voters
        if state.ids_only and isinstance(state.role, Leader):
            guessed = VoterSet(voters.voters)
            for voter in voters:
                if voter.key.uuid is None:
                    guessed = guessed.identified(ReplicaKey(voter.key.id, state.key.uuid))
            state.voters.rebase(guessed)
            static_quorum.write_voters_if_known(state, state.role)

    patch.setattr(fetch_serving, "note_sender", early)


def keep_the_first_uuid(patch: Patch) -> None:
    """Of two disks under one id, the first one that fetched becomes the voter.

    Would: form a quorum with a voter that is gone already.
    """
    real = VoterSet.identified

    def first(voters: VoterSet, key: ReplicaKey) -> VoterSet:
        known = voters.newest(key.id)
        if known is not None and known.key.uuid is not None:
            return voters
        return real(voters, key)

    patch.setattr(VoterSet, "identified", first)


def take_new_ids(patch: Patch) -> None:
    """A static quorum adds any id.

    Would: leave a configuration on all nodes that does not name all voters, against KIP-853.
    """
    patch.setattr(safety, "refusal_of_new_id", lambda state, voter_id: None)


def change_a_uuid_in_one_record(patch: Patch) -> None:
    """The new key of a known id takes the place of the old one in a single record.

    Would: make two majorities possible that share no replica.
    """

    def swapped(voters: VoterSet, voter: Voter) -> VoterSet:
        return VoterSet((*(v for v in voters.voters if v.key.id != voter.key.id), voter))

    def unchecked(state: ReplicaState, voters: VoterSet, *more: Any, **options: Any) -> Any:
        latest = state.voters.latest
        record = latest.record.__class__(
            voters.voters, latest.record.cluster_id, latest.record.initial_voters
        )
        return VotersPosition(log_appends.append_control(state, (record,)), state.epoch)

    patch.setattr(VoterSet, "added", swapped)
    patch.setattr(membership, "_append", unchecked)


def configuration_before_the_log(patch: Patch) -> None:
    """controller.quorum.voters is used although the log has voters.

    Would: let an outdated property revert every change of the voters at the next restart.
    """
    real = ReplicaState._load_voters

    def configured(state: ReplicaState, saved: Any, log: Any) -> Any:
        history = real(state, saved, log)
        if state.config.static_voters:
            history = history.__class__()
            history.rebase(state.configured_voters())
        return history

    patch.setattr(ReplicaState, "_load_voters", configured)


def let_a_vote_for_an_id_pass_to_any_disk(patch: Patch) -> None:
    """A vote by id in a version 0 file is granted to any disk with that id.

    Would: vote for two disks of one id in one epoch.
    """
    real = vote._grant_in_epoch

    def by_id(state: ReplicaState, request: Any) -> bool:
        voted = state.voted
        if voted is not None and voted.id == request.candidate.id:
            return True
        return real(state, request)

    patch.setattr(vote, "_grant_in_epoch", by_id)


def keep_the_oldest_boot(patch: Patch) -> None:
    """The address of the earliest boot is kept, and later ones are ignored.

    Would: look for a voter that has moved at its old address, for ever.
    """

    def first(gossip: EndpointGossip, received: ReceivedEndpoint) -> bool:
        known = gossip._heard.get(received.key)
        if known is not None and known.boot_timestamp_ms <= received.boot_timestamp_ms:
            return False
        gossip._heard[received.key] = received
        return True

    patch.setattr(EndpointGossip, "hear", first)


def store_addresses_of_any_node(patch: Patch) -> None:
    """An address is stored for clients and for keys that are no voters.

    Would: let any client fill the memory, and claim to be a future voter.
    """

    def all_of_them(state: ReplicaState, received: ReceivedEndpoint) -> None:
        newest = state.voters.latest.voters.newest(received.key.id)
        key = newest.key if newest is not None else received.key
        state.gossip.hear(ReceivedEndpoint(key, received.boot_timestamp_ms, received.endpoint))

    patch.setattr(discover_brokers, "_hear", all_of_them)


_STATIC = "tests/unit/raft/test_raft_static_quorum.py::test_"
_GOSSIP = "tests/unit/raft/test_raft_discover_brokers.py::test_"

BY_SCENARIO: tuple[tuple[Break, str], ...] = (
    (elect_by_a_majority_of_ids, "static-late-starter"),
    (take_new_ids, "static-uuid-change"),
    (change_a_uuid_in_one_record, "static-uuid-change"),
    (keep_the_oldest_boot, "too-few-voters-and-a-moved-one"),
)
"""Caught by a transcript in tests/scenarios, which then goes another way."""

BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        grant_votes_to_ids_for_ever,
        f"{_STATIC}replica_with_a_voters_record_grants_no_vote_by_id_only",
    ),
    (vote_across_configurations, f"{_STATIC}votes_before_the_uuids_are_known_are_by_id"),
    (write_before_the_voters, f"{_STATIC}leader_writes_nothing_until_it_knows_every_uuid"),
    (
        write_unknown_voters,
        f"{_STATIC}leader_writes_nothing_until_it_knows_every_uuid",
    ),
    (keep_the_first_uuid, f"{_STATIC}last_uuid_reported_for_an_id_is_written"),
    (
        configuration_before_the_log,
        f"{_STATIC}known_quorum_takes_precedence_over_configured_voters",
    ),
    (let_a_vote_for_an_id_pass_to_any_disk, f"{_STATIC}vote_from_a_version_0_file_is_kept"),
    (
        store_addresses_of_any_node,
        f"{_GOSSIP}older_boot_time_changes_nothing_and_unknown_replicas_are_not_stored",
    ),
)
"""Caught by a unit test, which then fails."""
