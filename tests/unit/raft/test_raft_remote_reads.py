"""Linearizable reads on followers and observers (KIP-650, ReadOffset), and stale answers."""

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.events import FailureReason, ReadAbandoned, RequestAbandoned, RequestFailed
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import ReadOffsetRequest, ReadOffsetResponse
from quorum_node.raft.roles import Follower
from support.raft.cores import CLUSTER_ID, Cores, Node, formed_cores

pytestmark = pytest.mark.requirement("K650-03")


def quorum_with_observer() -> tuple[Cores, Node, Node]:
    """Leader 1, voters 2 and 3, observer 4."""
    cores, leader = formed_cores("1", "2", "3")
    observer = cores.start("4", bootstrap=["1"])
    cores.advance(600)
    return cores, leader, observer


def ask(cores: Cores, node: Node, *, stale: bool = False) -> ReadOffsetResponse | None:
    answer = cores.request(node, ReadOffsetRequest(CLUSTER_ID, 0, stale))
    assert answer is None or isinstance(answer, ReadOffsetResponse)
    return answer


def test_follower_and_observer_read_what_was_acknowledged_before() -> None:
    cores, leader, observer = quorum_with_observer()
    follower = cores.nodes["2"]
    for number in range(5):
        write = cores.propose(leader, f"value {number}")
        committed = leader.committed[write].end_offset
        for node in (follower, observer):
            read = cores.read(node)
            offset = node.reads[read]
            assert isinstance(offset, int)
            assert offset >= committed
            assert node.replica.high_watermark >= offset
            assert node.committed_values()[-1] == f"value {number}"


def test_read_waits_until_this_replica_has_reached_the_offset() -> None:
    cores, leader, _ = quorum_with_observer()
    follower = cores.nodes["2"]
    follower.hold_flush = True
    write = cores.propose(leader, "committed by 1 and 3")
    assert write in leader.committed
    read = cores.read(follower)
    cores.advance(100)
    assert read not in follower.reads
    cores.release_flush(follower)
    cores.advance(50)
    assert follower.reads[read] == leader.committed[write].end_offset


def test_lagging_replica_reports_that_it_is_behind() -> None:
    cores, leader, _ = quorum_with_observer()
    follower = cores.nodes["2"]
    follower.hold_flush = True
    cores.propose(leader, "committed by 1 and 3")
    read = cores.read(follower)
    cores.advance(follower.config.read_timeout_ms + 1)
    assert follower.reads[read] is RaftError.REPLICA_BEHIND


def test_deposed_leader_confirms_nothing_and_the_new_leader_is_queried() -> None:
    """The observer reaches everyone, and still follows the leader that has lost its voters."""
    cores, zombie, observer = quorum_with_observer()
    cores.cut = {("1", "2"), ("2", "1"), ("1", "3"), ("3", "1")}
    for _ in range(30):
        cores.advance(100)
        if any(node.is_leader for node in (cores.nodes["2"], cores.nodes["3"])):
            break
        read = cores.read(observer)
        assert read not in observer.reads
    newer = cores.leader
    assert newer is not zombie
    write = cores.propose(newer, "unknown to 1 and 4")
    committed = newer.committed[write].end_offset
    read = cores.read(observer)
    cores.advance(1500)
    offset = observer.reads[read]
    assert isinstance(offset, int)
    assert offset >= committed
    assert observer.values(offset)[-1] == "unknown to 1 and 4"


def test_read_survives_one_leader_change() -> None:
    cores, leader, _ = quorum_with_observer()
    follower = cores.nodes["2"]
    write = cores.propose(leader, "acknowledged")
    committed = leader.committed[write].end_offset
    cores.crash(leader)
    read = cores.read(follower)
    cores.advance(1500)
    offset = follower.reads[read]
    assert isinstance(offset, int)
    assert offset >= committed


def test_read_sent_to_the_old_leader_is_sent_to_the_new_one() -> None:
    cores, leader, observer = quorum_with_observer()
    write = cores.propose(leader, "acknowledged")
    committed = leader.committed[write].end_offset
    cores.cut = {("1", "2"), ("2", "1"), ("1", "3"), ("3", "1")}
    read = cores.read(observer)
    assert observer.replica.remote_reads[0].question is not None
    cores.crash(leader)
    cores.heal()
    cores.advance(2500)
    offset = observer.reads[read]
    assert isinstance(offset, int)
    assert offset >= committed


def test_read_continues_when_its_replica_becomes_leader() -> None:
    cores, leader, _ = quorum_with_observer()
    cores.partition(["2"], ["1", "3", "4"])
    waiting = cores.nodes["2"]
    read = cores.read(waiting)
    cores.crash(leader)
    cores.crash(cores.nodes["3"])
    cores.heal()
    cores.restart(cores.nodes["3"])
    for _ in range(40):
        cores.advance(100)
        if read in waiting.reads:
            break
    assert isinstance(waiting.reads[read], int)
    assert waiting.replica.high_watermark >= waiting.reads[read]


def test_read_without_a_leader_ends_with_that_reason() -> None:
    cores, leader, _ = quorum_with_observer()
    follower = cores.nodes["2"]
    cores.crash(leader)
    cores.crash(cores.nodes["3"])
    read = cores.read(follower)
    cores.advance(follower.config.read_timeout_ms - 100)
    assert read not in follower.reads
    cores.advance(200)
    assert follower.reads[read] is RaftError.LEADER_NOT_AVAILABLE


def test_leader_that_never_confirms_ends_the_read() -> None:
    cores, leader, observer = quorum_with_observer()
    for name in ("2", "3"):
        cores.nodes[name].hold_flush = True
    cores.propose(leader, "never acknowledged")
    read = cores.read(observer)
    cores.advance(observer.config.read_timeout_ms + 100)
    assert observer.reads[read] in (RaftError.READ_NOT_CONFIRMED, RaftError.LEADER_NOT_AVAILABLE)


def test_failed_read_offset_request_is_retried_once_only() -> None:
    cores, _, _ = quorum_with_observer()
    follower = cores.nodes["2"]
    cores.cut = {("2", "1")}
    read = cores.read(follower)
    question = follower.replica.remote_reads[0].question
    assert question is not None
    cores.do(follower, RequestFailed(question, FailureReason.CLOSED))
    cores.advance(300)
    assert follower.replica.remote_reads[0].questions == 2
    question = follower.replica.remote_reads[0].question
    assert question is not None
    cores.do(follower, RequestFailed(question, FailureReason.CLOSED))
    assert follower.reads[read] is RaftError.LEADER_NOT_AVAILABLE
    assert not follower.replica.remote_reads


def test_leader_without_the_read_offset_api_ends_the_read_immediately() -> None:
    cores, _, _ = quorum_with_observer()
    follower = cores.nodes["2"]
    cores.cut = {("2", "1")}
    read = cores.read(follower)
    question = follower.replica.remote_reads[0].question
    assert question is not None
    cores.do(follower, RequestFailed(question, FailureReason.UNSUPPORTED))
    assert follower.reads[read] is RaftError.READS_UNSUPPORTED


def test_late_response_to_a_repeated_read_offset_request_is_ignored() -> None:
    """The old leader's offset may be too small only if it never confirmed it; none is taken."""
    cores, leader, _ = quorum_with_observer()
    follower = cores.nodes["2"]
    cores.partition(["1"], ["2", "3", "4"])
    cores.read(follower)
    old_question = follower.replica.remote_reads[0].question
    for _ in range(40):
        cores.advance(100)
        role = follower.replica.role
        if isinstance(role, Leader) or (isinstance(role, Follower) and role.leader_id != 1):
            break
    else:
        pytest.fail("no leader was elected")
    assert all(each.question != old_question for each in follower.replica.remote_reads)
    assert leader is not cores.leader


def test_only_the_leader_returns_a_read_offset_and_others_name_it() -> None:
    cores, leader, observer = quorum_with_observer()
    for node in (cores.nodes["2"], observer):
        answer = ask(cores, node)
        assert answer is not None
        assert answer.error is RaftError.NOT_QUORUM_LEADER
        assert answer.offset == -1
        assert answer.leader.leader_id == leader.key.id
    other = cores.request(leader, ReadOffsetRequest("another cluster"))
    assert isinstance(other, ReadOffsetResponse)
    assert other.error is RaftError.INVALID_CLUSTER_ID


def test_leader_returns_a_read_offset_only_after_a_round() -> None:
    cores, leader, _ = quorum_with_observer()
    confirmed = ask(cores, leader)
    assert confirmed is not None
    assert confirmed.offset == leader.replica.high_watermark
    cores.partition(["1", "4"], ["2", "3"])
    assert ask(cores, leader) is None


def test_read_offset_requests_of_many_replicas_share_a_round() -> None:
    cores, leader, _ = quorum_with_observer()
    role = leader.replica.role
    assert isinstance(role, Leader)
    cores.partition(["1"], ["2", "3", "4"])
    before = role.answer_round
    for _ in range(10):
        assert ask(cores, leader) is None
    assert role.answer_round - before <= 1 + 1  # the first one answers what was parked
    assert len(role.reads) == 10


def test_read_wakes_up_the_voters_and_not_every_observer() -> None:
    cores, leader, observer = quorum_with_observer()
    others = [cores.start(name, bootstrap=["1"]) for name in ("5", "6", "7")]
    cores.advance(700)
    role = leader.replica.role
    assert isinstance(role, Leader)

    def parked_observers() -> set[int]:
        keys = {node.key for node in (observer, *others)}
        return {n for n, each in role.parked.items() if each.request.replica in keys}

    before = parked_observers()
    assert len(before) == 4
    read = cores.read(observer)
    assert isinstance(observer.reads[read], int)
    assert parked_observers() == before
    # A follower without the high watermark gets it: the read may be its own.
    cores.propose(leader, "news")
    read = cores.read(observer)
    assert isinstance(observer.reads[read], int)
    assert observer.committed_values()[-1] == "news"


def test_abandoned_read_request_is_dropped() -> None:
    cores, leader, observer = quorum_with_observer()
    role = leader.replica.role
    assert isinstance(role, Leader)
    cores.partition(["1", "4"], ["2", "3"])
    assert ask(cores, leader) is None
    request_id = role.reads[0].request_id
    assert request_id is not None
    cores.do(leader, RequestAbandoned(request_id))
    assert not role.reads
    read = cores.read(observer)
    cores.do(observer, ReadAbandoned(read))
    assert not observer.replica.remote_reads


def test_stale_read_is_answered_immediately_with_its_age() -> None:
    cores, leader, observer = quorum_with_observer()
    cores.propose(leader, "seen")
    cores.advance(100)
    for node in (leader, observer):
        answer = ask(cores, node, stale=True)
        assert answer is not None
        assert answer.error is RaftError.NONE
        assert answer.offset == leader.replica.high_watermark
        assert 0 <= answer.age_ms <= node.config.fetch_max_wait_ms + 100
    cores.partition(["1", "2", "3"], ["4"])
    cores.propose(leader, "not seen")
    cores.advance(700)
    answer = ask(cores, observer, stale=True)
    assert answer is not None
    assert answer.offset == leader.replica.high_watermark - 1
    assert answer.age_ms >= 700


def test_age_of_a_lagging_replica_does_not_decrease() -> None:
    """Fetching is not being up to date: what the leader has committed must have arrived."""
    cores, leader, observer = quorum_with_observer()
    observer.hold_flush = True
    cores.propose(leader, "appended here, not known as committed")
    cores.advance(1000)
    answer = ask(cores, observer, stale=True)
    assert answer is not None
    assert answer.age_ms >= 1000


def test_age_of_a_leader_without_fetches_increases() -> None:
    cores, leader, _ = quorum_with_observer()
    cores.partition(["1"], ["2", "3", "4"])
    cores.advance(800)
    answer = ask(cores, leader, stale=True)
    assert answer is not None
    assert answer.age_ms >= 800


def test_new_leader_without_a_commit_does_not_reset_ages() -> None:
    """It may know less than was committed before it; it sends no high watermark until then."""
    cores, leader, observer = quorum_with_observer()
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.propose(leader, "acknowledged")
    two.hold_flush = three.hold_flush = True
    cores.crash(leader)
    cores.advance(3000)
    assert cores.leader in (two, three)
    assert observer.replica.leader_id == cores.leader.key.id
    answer = ask(cores, observer, stale=True)
    assert answer is not None
    assert answer.age_ms >= 2500
