"""A replica that returns with less than it acknowledged: what a leader counts, reports and rejects then."""

from dataclasses import replace

import pytest

from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import RequestReceived
from quorum_node.raft.leadership import Leader, Progress
from quorum_node.raft.messages import (
    STOCK_SENDER,
    AddVoterRequest,
    FetchRequest,
    FetchResponse,
    RemoveVoterRequest,
    VoterChangeResponse,
)
from quorum_node.raft.outputs import Output, ReplicaWentBack, Send
from quorum_node.raft.safety import is_caught_up
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.snapshot_id import SnapshotId
from support.raft.cores import CLUSTER_ID, Cores, Node
from support.raft.node import key_of

pytestmark = pytest.mark.requirement("K595-06")


class RecordingCores(Cores):
    """Cores that record the fetches that were sent, and the reports."""

    def __init__(self) -> None:
        super().__init__(self._note)
        self.fetches: list[FetchRequest] = []
        self.reports: list[ReplicaWentBack] = []

    def _note(self, node: Node, output: Output) -> None:
        if isinstance(output, ReplicaWentBack):
            self.reports.append(output)
        if isinstance(output, Send) and isinstance(output.request, FetchRequest):
            self.fetches.append(output.request)

    def last_fetch_of(self, node: Node) -> FetchRequest:
        """The newest one that it sent as a follower."""
        return next(each for each in reversed(self.fetches) if each.replica == node.key)

    def deliver(self, leader: Node, request: FetchRequest) -> None:
        """A request that was on its way for long, or arrives twice; its answer goes nowhere."""
        self.request(leader, request)


def progress_of(leader: Node, key: ReplicaKey) -> Progress:
    role = leader.replica.role
    assert isinstance(role, Leader)
    return role.progress[key]


def counted(leader: Node, node: Node) -> int:
    """What the leader counts of a replica."""
    return progress_of(leader, node.key).end_offset


def durable_end(node: Node) -> int:
    return node.batches[node.durable_batches - 1].end_offset


class Image:
    """The disk of a node as it is now."""

    def __init__(self, node: Node) -> None:
        self.batches, self.state = list(node.batches), node.state

    def put_back(self, cores: Cores, node: Node) -> None:
        """The node's disk becomes this one again, under the same UUID, while it is down."""
        cores.crash(node)
        node.batches, node.state = list(self.batches), self.state


def five(cores: Cores) -> Node:
    leader = cores.quorum("1", "2", "3", "4", "5")
    cores.propose(leader, "base")
    cores.advance(600)
    return leader


def test_commit_does_not_count_a_lost_copy() -> None:
    cores = RecordingCores()
    one, two = five(cores), cores.nodes["2"]
    image = Image(two)
    for name in "345":
        cores.nodes[name].hold_flush = True
    write = cores.propose(one, "the write")
    cores.advance(20)
    assert counted(one, two) == one.log_end
    image.put_back(cores, two)
    two.hold_flush = True
    cores.restart(two)
    cores.advance(20)
    assert counted(one, two) == durable_end(two) < one.log_end
    cores.release_flush(cores.nodes["3"])
    cores.advance(20)
    assert write not in one.committed, "only 1 and 3 have it"
    cores.release_flush(two)
    cores.advance(20)
    assert write in one.committed, "the copy that is there again counts again"


def test_lost_records_are_reported_once_and_described() -> None:
    cores = RecordingCores()
    one, two = five(cores), cores.nodes["2"]
    image, older = Image(two), two.log_end
    cores.propose(one, "a")
    cores.propose(one, "b")
    cores.advance(20)
    newer = one.log_end
    image.put_back(cores, two)
    cores.restart(two)
    cores.advance(2000)
    assert cores.reports == [ReplicaWentBack(two.key, newer, older, newer)]
    found = {
        each.key: each.went_back for each in one.replica.describe(cores.now_ms).voters_progress
    }
    went_back = found.pop(two.key)
    assert went_back is not None
    assert (went_back.acknowledged_offset, went_back.offset) == (newer, older)
    assert set(found.values()) == {None}
    assert not two.halted, "a replica was reported"


def test_high_watermark_does_not_decrease() -> None:
    cores = RecordingCores()
    one = five(cores)
    images = {name: Image(cores.nodes[name]) for name in "234"}
    cores.propose(one, "a")
    cores.advance(600)
    committed = one.replica.high_watermark
    assert committed == one.log_end
    for name, image in images.items():
        image.put_back(cores, cores.nodes[name])
        cores.nodes[name].hold_flush = True
        cores.restart(cores.nodes[name])
    assert [counted(one, cores.nodes[name]) < committed for name in "234"] == [True] * 3
    assert one.replica.high_watermark == committed


@pytest.mark.parametrize("times", [1, 3])
def test_late_or_repeated_fetch_is_not_reported_and_costs_one_round_trip(times: int) -> None:
    cores = RecordingCores()
    one, two = five(cores), cores.nodes["2"]
    early = cores.last_fetch_of(two)
    cores.propose(one, "a")
    cores.advance(20)
    for name in "45":
        cores.crash(cores.nodes[name])
    assert counted(one, two) == one.log_end > early.fetch_offset
    for _ in range(times):
        cores.deliver(one, early)
    assert counted(one, two) == one.log_end, "a second request returns the replica's end"
    write = cores.propose(one, "b")
    assert write in one.committed
    assert cores.reports == []


def test_late_first_fetch_of_a_process_is_not_reported() -> None:
    cores = RecordingCores()
    one, two = five(cores), cores.nodes["2"]
    cores.crash(two)
    cores.restart(two)
    first = next(
        each for each in reversed(cores.fetches) if each.replica == two.key and each.answer < 0
    )
    cores.propose(one, "a")
    cores.advance(20)
    cores.deliver(one, first)
    assert counted(one, two) == one.log_end
    assert cores.reports == []


def lone_fetches(cores: RecordingCores, leader: Node) -> tuple[FetchRequest, FetchRequest]:
    """Of a replica that echoed nothing yet, as its process or its link ended each time: of an empty log, and later."""
    known = cores.last_fetch_of(cores.nodes["2"])
    late = replace(known, replica=key_of(9), answer=-1, max_wait_ms=0)
    return replace(late, fetch_offset=0, last_fetched_epoch=0), late


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("behind_snapshot", [False, True])
def test_late_first_fetch_is_not_reported_while_its_sender_has_echoed_no_round(
    times: int, behind_snapshot: bool
) -> None:
    cores = RecordingCores()
    one = five(cores)
    first, newest = lone_fetches(cores, one)
    for request in (first, newest):
        cores.deliver(one, request)
    progress = progress_of(one, newest.replica)
    held = progress.end_offset
    assert held == newest.fetch_offset > 0
    if behind_snapshot:
        one.replica.snapshot = one.replica.start = SnapshotId(held - 1, one.replica.epoch)
    for _ in range(times):
        cores.deliver(one, first)
        assert progress.end_offset == 0, "a copy that may be lost was counted"
    role = one.replica.role
    assert isinstance(role, Leader)
    cores.deliver(one, replace(newest, answer=role.answer_round))
    assert progress.end_offset == held
    assert cores.reports == []
    assert progress.went_back is None


def test_replica_that_lost_its_log_before_its_first_echo_is_reported_at_the_echo() -> None:
    cores = RecordingCores()
    one = five(cores)
    first, newest = lone_fetches(cores, one)
    cores.deliver(one, newest)
    cores.deliver(one, first)
    role = one.replica.role
    assert isinstance(role, Leader)
    for _ in range(2):
        cores.deliver(one, replace(first, answer=role.answer_round))
    found = [(each.replica, each.acknowledged_offset, each.offset) for each in cores.reports]
    assert found == [(newest.replica, newest.fetch_offset, 0)]


@pytest.mark.parametrize("echoed", [False, True])
def test_loss_is_reported_before_a_snapshot_replaces_the_lost_records(echoed: bool) -> None:
    """The replica has all its records again after the download: only its next fetch shows the loss."""
    cores = RecordingCores()
    one = five(cores)
    first, newest = lone_fetches(cores, one)
    role = one.replica.role
    assert isinstance(role, Leader)
    cores.deliver(one, newest)
    if echoed:
        cores.deliver(one, replace(newest, answer=role.newest_round_sent))
    held = newest.fetch_offset
    one.replica.snapshot = one.replica.start = SnapshotId(held, one.replica.epoch)
    asked_again = cores.request(one, first)
    assert isinstance(asked_again, FetchResponse)
    assert (asked_again.error, asked_again.snapshot_id) == (RaftError.NONE, None)
    assert asked_again.high_watermark == -1, (
        "its log may be another one: nothing of it is confirmed"
    )
    assert cores.reports == []
    confirmed = cores.request(one, replace(first, answer=asked_again.answer))
    assert isinstance(confirmed, FetchResponse)
    assert confirmed.snapshot_id == one.replica.snapshot
    found = [(each.replica, each.acknowledged_offset, each.offset) for each in cores.reports]
    assert found == [(newest.replica, held, 0)]


def test_echo_of_an_unsent_round_is_rejected() -> None:
    """No honest replica sends it. It would pass for newer than all that its owner sends, and confirm every later read."""
    cores = RecordingCores()
    one, two = five(cores), cores.nodes["2"]
    before = replace(progress_of(one, two.key))
    role = one.replica.role
    assert isinstance(role, Leader)
    for offset, ahead in ((one.log_end, 1), (0, 1), (one.log_end, 1 << 40)):
        unannounced = role.newest_round_sent + ahead
        forged = replace(cores.last_fetch_of(two), answer=unannounced, fetch_offset=offset)
        answer = cores.request(one, forged)
        assert isinstance(answer, FetchResponse)
        assert answer.error is RaftError.INVALID_REQUEST
    assert progress_of(one, two.key) == before
    assert cores.reports == []


def test_late_fetches_of_an_ended_process_raise_nothing() -> None:
    """Its acknowledgement arrives only after the older image has spoken, and more than once."""
    cores = RecordingCores()
    one, two = five(cores), cores.nodes["2"]
    image = Image(two)
    for name in "345":
        cores.nodes[name].hold_flush = True
    write = cores.propose(one, "the write")
    late = cores.last_fetch_of(two)
    assert late.fetch_offset == one.log_end
    image.put_back(cores, two)
    two.hold_flush = True
    cores.restart(two)
    cores.advance(20)
    cores.release_flush(cores.nodes["3"])
    for _ in range(2):
        cores.deliver(one, late)
        cores.deliver(one, replace(late, answer=-1))
        assert counted(one, two) == durable_end(two)
    assert write not in one.committed


def test_unreceived_acknowledgement_from_before_the_restored_image_raises_nothing() -> None:
    """The leader has received no smaller offset: the image is not older than the last acknowledgement received."""
    cores = RecordingCores()
    one, two = five(cores), cores.nodes["2"]
    image = Image(two)
    for name in "345":
        cores.nodes[name].hold_flush = True
    two.hold_flush = True
    write = cores.propose(one, "the write")
    before = cores.last_fetch_of(two)
    unheard = replace(before, fetch_offset=one.log_end, last_fetched_epoch=one.replica.epoch)
    image.put_back(cores, two)
    cores.restart(two)
    cores.release_flush(cores.nodes["3"])
    cores.deliver(one, unheard)
    assert counted(one, two) == durable_end(two) < one.log_end
    assert write not in one.committed


@pytest.mark.parametrize("kind", ["diverging", "empty behind a snapshot"])
def test_diverged_log_is_not_counted_either(kind: str) -> None:
    cores = RecordingCores()
    one, two = five(cores), cores.nodes["2"]
    cores.propose(one, "a")
    cores.advance(20)
    held = counted(one, two)
    newest = cores.last_fetch_of(two)
    cores.crash(two)
    if kind == "diverging":
        other = replace(newest, answer=-1, fetch_offset=held + 3, last_fetched_epoch=0)
        at_most = 0
    else:
        one.replica.snapshot = one.replica.start = type(one.replica.start)(
            held - 1, one.replica.epoch
        )
        other = replace(newest, answer=-1, fetch_offset=0, last_fetched_epoch=0)
        at_most = 0
    cores.deliver(one, other)
    assert counted(one, two) == at_most
    assert not is_caught_up(one.replica, progress_of(one, two.key))


def test_stock_kafka_replica_is_counted_by_order_of_arrival() -> None:
    """It echoes nothing. A late request is reported as well, as in stock Kafka."""
    cores = RecordingCores()
    one, two = five(cores), cores.nodes["2"]
    cores.propose(one, "a")
    cores.advance(20)
    cores.crash(two)
    stock = replace(cores.last_fetch_of(two), answer=STOCK_SENDER, max_wait_ms=0)
    end = one.log_end
    for offset in (end, end - 1, end):
        cores.deliver(one, replace(stock, fetch_offset=offset))
        assert counted(one, two) == offset
    assert [(each.acknowledged_offset, each.offset) for each in cores.reports] == [(end, end - 1)]
    write = cores.propose(one, "b")
    for name in "34":
        cores.crash(cores.nodes[name])
    cores.deliver(one, replace(stock, fetch_offset=one.log_end))
    assert write in one.committed


def test_stock_kafka_and_this_software_are_counted_in_turn_under_one_key() -> None:
    """Restarted with stock Kafka in the same epoch, and then with ours again."""
    cores = RecordingCores()
    one, two = five(cores), cores.nodes["2"]
    cores.propose(one, "a")
    cores.advance(20)
    ours = cores.last_fetch_of(two)
    assert ours.answer >= 0
    cores.crash(two)
    cores.propose(one, "b")
    stock = replace(ours, answer=STOCK_SENDER, fetch_offset=one.log_end, max_wait_ms=0)
    cores.deliver(one, stock)
    assert counted(one, two) == one.log_end
    cores.restart(two)
    cores.advance(600)
    cores.propose(one, "c")
    cores.advance(20)
    assert counted(one, two) == one.log_end


def test_two_processes_on_copies_of_one_disk_count_as_the_latest_only() -> None:
    cores = RecordingCores()
    one, two = five(cores), cores.nodes["2"]
    cores.propose(one, "a")
    cores.advance(20)
    cores.crash(two)
    ahead = replace(cores.last_fetch_of(two), max_wait_ms=0)
    behind = replace(ahead, fetch_offset=ahead.fetch_offset - 1)
    for _ in range(3):
        role = one.replica.role
        assert isinstance(role, Leader)
        for request in (behind, ahead):
            cores.deliver(one, replace(request, answer=role.answer_round))
            assert counted(one, two) <= request.fetch_offset


def test_new_replica_that_lost_records_is_not_added_and_such_a_voter_is_not_live() -> None:
    cores = RecordingCores()
    one = cores.quorum("1", "2", "3")
    three, four = cores.nodes["3"], cores.start("4", bootstrap=["1"])
    image = Image(four)
    for number in range(40):
        cores.propose(one, f"v{number}")
    cores.advance(600)
    image.put_back(cores, four)
    four.hold_flush = True
    cores.restart(four)
    requested = 4711
    request = AddVoterRequest(CLUSTER_ID, four.key, four.config.endpoints, 2000)
    cores.do(one, RequestReceived(requested, request))
    cores.advance(1000)
    assert requested not in one.answers, "it has not caught up any more"

    older = replace(cores.last_fetch_of(three), fetch_offset=1, last_fetched_epoch=1, answer=-1)
    cores.crash(three)
    cores.advance(1100)  # the add above ends
    cores.deliver(one, older)
    answer = cores.request(one, RemoveVoterRequest(CLUSTER_ID, cores.nodes["2"].key, 1000))
    assert isinstance(answer, VoterChangeResponse)
    assert answer.error is RaftError.UNSAFE_CHANGE, answer.message


def test_replica_that_lost_records_counts_as_heard_for_leadership_and_reads() -> None:
    """A replica that lost records is live: leadership and reads, which count no copies, continue."""
    cores = RecordingCores()
    one = cores.quorum("1", "2", "3")
    two = cores.nodes["2"]
    image = Image(two)
    cores.propose(one, "a")
    cores.advance(20)
    cores.crash(cores.nodes["3"])
    image.put_back(cores, two)
    cores.restart(two)
    cores.advance(3000)
    assert one.is_leader
    read = cores.read(one)
    cores.advance(20)
    assert one.reads[read] == one.replica.high_watermark
