"""A witness: a voter that replicates and votes, and never campaigns."""

from dataclasses import replace

import pytest

from quorum_node.raft import RaftError, RoleName
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import (
    AddVoterRequest,
    EndQuorumEpochRequest,
    RemoveVoterRequest,
    ResignRequest,
    ResignResponse,
    VoterChangeResponse,
    VoteRequest,
)
from quorum_node.raft.outputs import AppendBatch, Output, RoleChanged, Send
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores, key_of

CAMPAIGNING = (RoleName.PROSPECTIVE, RoleName.CANDIDATE, RoleName.LEADER)


def with_witness(*names: str, witnesses: str = "3") -> tuple[Cores, list[str]]:
    """A quorum, and what its witnesses did that they must not."""
    broken: list[str] = []

    def watch(node: Node, output: Output) -> None:
        if node.name not in witnesses:
            return
        if isinstance(output, RoleChanged) and output.role in CAMPAIGNING:
            broken.append(f"{node.name} became {output.role.value}")
        if isinstance(output, Send) and isinstance(output.request, VoteRequest):
            broken.append(f"{node.name} asked for a vote")

    cores = Cores(watch)
    cores.quorum(*names)
    for name in witnesses:
        make_witness(cores.nodes[name])
    cores.advance(600)
    return cores, broken


def make_witness(node: Node, yes: bool = True) -> None:
    node.config = replace(node.config, witness=yes)
    node.replica.config = node.config


def progress_of(cores: Cores, name: str) -> dict[int, bool | None]:
    description = cores.nodes[name].replica.describe(cores.now_ms)
    return {each.key.id: each.witness for each in description.voters_progress}


def test_witness_acknowledges_and_elects_others() -> None:
    cores, broken = with_witness("1", "2", "3")
    one, two, three = (cores.nodes[name] for name in "123")
    cores.partition(["1", "3"], ["2"])
    cores.propose(one, "by the leader and the witness")
    cores.advance(100)
    assert three.committed_values() == ["by the leader and the witness"]
    cores.heal()
    cores.advance(3000)
    cores.crash(one)
    cores.advance(3000)
    assert cores.leader is two
    cores.propose(two, "after")
    cores.advance(100)
    assert "after" in three.committed_values()
    assert broken == []


def test_witness_without_other_voters_waits_and_reports_a_remedy() -> None:
    cores, broken = with_witness("1", "2", "3")
    cores.crash(cores.nodes["1"])
    cores.crash(cores.nodes["2"])
    three = cores.nodes["3"]
    cores.advance(120_000)
    assert (broken, three.replica.epoch) == ([], 1)
    cores.restart(three)
    cores.advance(60_000)
    assert (broken, three.replica.role.name) == ([], RoleName.UNATTACHED)
    assert three.replica.describe(cores.now_ms).witness
    make_witness(three, yes=False)
    cores.restart(cores.nodes["2"])
    cores.advance(5000)
    assert cores.leader.name in "23"


def test_witness_as_first_successor_of_an_ended_epoch_does_not_campaign() -> None:
    cores, broken = with_witness("1", "2", "3")
    three = cores.nodes["3"]
    cores.request(three, EndQuorumEpochRequest(CLUSTER_ID, 1, 1, (three.key,)))
    assert broken == []


def test_witness_as_last_voter_does_not_lead() -> None:
    cores = Cores()
    one = cores.start("1", founder=True)
    assert one.is_leader
    cores.crash(one)
    make_witness(one)
    cores.restart(one)
    cores.advance(60_000)
    assert not one.is_leader


def test_leader_knows_which_voters_are_witnesses() -> None:
    cores, _ = with_witness("1", "2", "3", witnesses="3")
    assert progress_of(cores, "1") == {1: False, 2: False, 3: True}
    cores.crash(cores.nodes["1"])
    cores.advance(3000)
    assert progress_of(cores, "2") == {1: None, 2: False, 3: True}


def test_witness_is_the_last_successor_even_if_it_is_the_most_caught_up() -> None:
    cores, broken = with_witness("1", "2", "3", "4", "5", witnesses="5")
    one, two = cores.nodes["1"], cores.nodes["2"]
    for name in "234":
        cores.nodes[name].hold_flush = True
    cores.propose(one, "only on the witness")
    cores.run()
    sent: list[tuple[int, ...]] = []
    cores.observer = lambda node, output: (
        sent.append(tuple(key.id for key in output.request.preferred_successors))
        if isinstance(output, Send) and isinstance(output.request, EndQuorumEpochRequest)
        else None
    )
    for name in "234":
        cores.release_flush(cores.nodes[name])
    answer = cores.request(one, ResignRequest(two.key))
    assert isinstance(answer, ResignResponse)
    cores.advance(3000)
    assert sent[0][0] == 2
    assert sent[0][-1] == 5
    assert broken == []


@pytest.mark.parametrize("named", [True, False])
def test_leadership_is_not_transferred_to_a_witness(named: bool) -> None:
    names = "123" if named else "12"
    cores, broken = with_witness(*names, witnesses=names[-1])
    one, witness = cores.nodes["1"], cores.nodes[names[-1]]
    answer = cores.request(one, ResignRequest(witness.key if named else None))
    assert isinstance(answer, ResignResponse)
    assert answer.error is RaftError.INVALID_REQUEST
    assert "witness" in answer.message
    assert one.is_leader
    assert broken == []


def test_witnesses_stay_fewer_than_a_majority() -> None:
    """Otherwise a committed record might be on witnesses alone, and no voter could ever lead with it."""
    cores, broken = with_witness("1", "2", "3", "4", witnesses="4")
    one, three = cores.nodes["1"], cores.nodes["3"]
    five = cores.start("5", bootstrap=["1"])
    make_witness(five)
    cores.advance(600)
    answer = cores.add_voter(one, five)
    assert answer.error is RaftError.NONE, "2 of 5"
    answer = cores.remove_voter(one, cores.nodes["2"].key)
    assert answer.error is RaftError.NONE, "2 of 4"
    answer = cores.remove_voter(one, three.key)
    assert answer.error is RaftError.UNSAFE_CHANGE
    assert "2 of 3 voters would be witnesses" in answer.message
    six = cores.start("6", bootstrap=["1"])
    make_witness(six)
    cores.advance(600)
    answer = cores.add_voter(one, six)
    assert answer.error is RaftError.UNSAFE_CHANGE, "3 of 5"
    assert broken == []


def test_leader_that_is_a_witness_transfers_leadership_when_another_can_lead() -> None:
    """No way leads there; the rule holds all the same."""
    cores, one = formed_cores("1", "2", "3")
    make_witness(cores.nodes["3"])
    cores.crash(cores.nodes["2"])
    cores.advance(2500)
    make_witness(one)
    cores.advance(2500)
    assert isinstance(one.replica.role, Leader), "no other replica may"
    cores.restart(cores.nodes["2"])
    cores.advance(2000)
    assert cores.leader.name == "2"


def test_witness_stores_which_candidate_logs_were_too_short() -> None:
    cores, broken = with_witness("1", "2", "3")
    one, two, three = (cores.nodes[name] for name in "123")
    cores.partition(["1", "3"], ["2"])
    cores.propose(one, "on 1 and 3")
    cores.advance(100)
    cores.crash(one)
    cores.heal()
    cores.advance(10_000)
    assert not two.is_leader, "it lacks committed records"
    assert three.replica.describe(cores.now_ms).refused_shorter == two.key
    cores.restart(one)
    cores.advance(5000)
    assert cores.leader is one
    assert three.replica.describe(cores.now_ms).refused_shorter is None
    assert broken == []


def test_dead_leader_named_by_others_does_not_count_as_alive() -> None:
    """Otherwise a witness that queries others rejects every pre-vote, as long as any voter requests one."""
    cores, broken = with_witness("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    cores.advance(12_000)
    assert cores.nodes["2"].is_leader
    assert broken == []


@pytest.mark.parametrize("names", ["1", "12"])
def test_leader_is_not_replaced_under_its_id_while_no_other_voter_may_lead(names: str) -> None:
    """It could not transfer leadership, and would be requested to do so repeatedly."""
    cores, broken = with_witness(*names, witnesses=names[1:])
    one = cores.nodes["1"]
    request = AddVoterRequest(CLUSTER_ID, key_of(1, 2), endpoints_of("1"), 3000)
    answer = cores.request(one, request)
    assert isinstance(answer, VoterChangeResponse)
    assert answer.error is RaftError.UNSAFE_CHANGE
    assert "no other voter can become leader" in answer.message
    assert one.is_leader
    assert broken == []


def test_leadership_is_transferred_only_to_a_caught_up_voter() -> None:
    """Whoever lags is not elected, and the witness can't be: the quorum would be without a leader for a while, again and again."""
    cores, broken = with_witness("1", "2", "3", witnesses="3")
    one, two = cores.nodes["1"], cores.nodes["2"]
    cores.partition(["1", "3"], ["2"])
    cores.advance(200)
    cores.propose(one, "two lacks this")
    cores.advance(3000)
    requests = (
        AddVoterRequest(CLUSTER_ID, key_of(1, 2), endpoints_of("1"), 3000, count_newcomer=True),
        RemoveVoterRequest(CLUSTER_ID, one.key, 3000),
    )
    for request in requests:
        answer = cores.request(one, request)
        assert isinstance(answer, VoterChangeResponse)
        assert answer.error is RaftError.UNSAFE_CHANGE, answer
        assert one.is_leader
    cores.heal()
    cores.advance(5000)
    answer = cores.request(one, requests[0])
    assert isinstance(answer, VoterChangeResponse)
    assert answer.error is RaftError.NOT_QUORUM_LEADER
    cores.advance(100)
    assert two.is_leader
    assert broken == []


def test_leader_leaves_voters_that_need_a_witness_only_after_a_transfer() -> None:
    """Its last records might reach the witness alone, which would then never vote for the other one."""
    cores, broken = with_witness("1", "2", "3")
    one, two = cores.nodes["1"], cores.nodes["2"]
    answer = cores.request(one, RemoveVoterRequest(CLUSTER_ID, one.key, 3000))
    assert isinstance(answer, VoterChangeResponse)
    assert answer.error is RaftError.NOT_QUORUM_LEADER
    assert "hands over" in answer.message
    cores.advance(100)
    assert two.is_leader
    removed = cores.remove_voter(two, one.key)
    assert removed.error is RaftError.NONE
    assert not broken


def test_witness_never_has_records_that_the_leader_could_lose_in_a_crash() -> None:
    """Two voters, one a witness: what is on the witness alone would keep the other from ever leading."""
    cores, broken = with_witness("1", "2", witnesses="2")
    one, two = cores.nodes["1"], cores.nodes["2"]
    one.hold_flush = True
    cores.propose(one, "not on the leader's disk")
    cores.advance(200)
    assert two.replica.log_end == one.replica.durable_end < one.replica.log_end
    cores.crash(one)
    one.hold_flush = False
    cores.restart(one)
    cores.advance(5000)
    assert cores.leader is one
    cores.propose(one, "after")
    cores.advance(100)
    assert two.committed_values() == ["after"]
    assert not broken


def test_parked_fetch_of_a_witness_is_answered_after_the_leader_flushed() -> None:
    cores, _ = with_witness("1", "2", "3")
    one, two, three = (cores.nodes[name] for name in "123")
    one.hold_flush = True
    cores.propose(one, "a")
    cores.advance(50)
    assert two.replica.log_end == one.replica.log_end, "others need not wait for the leader's disk"
    assert three.replica.log_end < one.replica.log_end
    cores.release_flush(one)
    cores.advance(5)
    assert three.replica.log_end == one.replica.log_end


def test_witness_keeps_up_although_the_leader_log_is_ahead_of_its_disk() -> None:
    cores, _ = with_witness("1", "2", "3")
    one = cores.nodes["1"]
    for number in range(60):
        one.hold_flush = True
        cores.propose(one, str(number))
        cores.advance(50)
        cores.release_flush(one)
        one.hold_flush = True
        cores.propose(one, f"{number} again")
        cores.advance(1)
    live = {
        each.key.id: each.caught_up for each in one.replica.describe(cores.now_ms).voters_progress
    }
    assert live == {1: True, 2: True, 3: True}


def test_removed_leader_leaves_no_records_on_the_witness_only() -> None:
    """It was elected before it received the commit of its removal. Found by seed 18373."""
    cores, broken = with_witness("1", "2", "3")
    one, two, three = (cores.nodes[name] for name in "123")
    cores.request(one, ResignRequest(two.key))
    cores.advance(600)
    cores.observer = lambda node, output: (
        cores.partition(["1"], ["2", "3"])
        if node is one and isinstance(output, AppendBatch)
        else None
    )
    answer = cores.remove_voter(two, one.key)
    assert answer.error is RaftError.NONE
    cores.observer = None
    cores.crash(two)
    cores.heal()
    make_witness(two)  # for once, so that the other one is elected
    cores.restart(two)
    cores.advance(2100)
    assert cores.leader is one
    cores.crash(two)
    before = three.replica.log_end
    cores.propose(one, "on its own disk alone")
    cores.advance(100)
    assert one.replica.log_end > before
    assert three.replica.log_end == before
    cores.crash(one)
    make_witness(two, yes=False)
    cores.restart(two)
    cores.advance(5000)
    assert cores.leader is two
    assert broken == []
