"""Several Raft cores in one process, connected without a network, a disk or a clock.

Messages are delivered in the order in which they were sent, without delay; time advances only by `advance`. Links can be cut (requests
then time out) or closed (requests fail at once), flushes can be held back, nodes can crash, lose what was not flushed, restart, or lose
their disk. Everything is deterministic.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from quorum_node.raft import LogState, QuorumState, RaftConfig, RaftError, Replica
from quorum_node.raft.election import start_candidacy
from quorum_node.raft.events import (
    Event,
    FailureReason,
    LogFlushed,
    Proposed,
    ReadRequested,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    StorageFailed,
    TimerExpired,
)
from quorum_node.raft.messages import (
    AddVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchResponse,
    FetchSnapshotResponse,
    OutboundRequest,
    RemoveVoterRequest,
    Request,
    Response,
    VoterChangeResponse,
    VoteRequest,
)
from quorum_node.raft.outputs import (
    AppendBatch,
    DeleteLogPrefix,
    DropPartialSnapshot,
    FinishSnapshot,
    FlushLog,
    Halt,
    Output,
    PersistQuorumState,
    ProposalCommitted,
    ProposalFailed,
    ReadConfirmed,
    ReadFailed,
    ResetLog,
    Respond,
    Send,
    TruncateLog,
    WriteSnapshotChunk,
)
from quorum_node.raft.transitions import become_unattached
from quorum_node.records.batches import CorruptBatch, split_batches
from quorum_node.records.identity import KEEPS_TARGET_VOTERS, ReplicaKey
from support.raft.node import CLUSTER_ID, Node, endpoints_of, key_of, name_at, static_voters
from support.raft.snapshots import NodeSnapshots

__all__ = ["CLUSTER_ID", "Cores", "Node", "endpoints_of", "key_of", "static_voters"]

Observer = Callable[[Node, Output], None]


class Cores:
    """A handful of nodes. `observer` sees every output before it is executed."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.nodes: dict[str, Node] = {}
        self.now_ms = 1000.0
        self.observer = observer
        self.cut: set[tuple[str, str]] = set()
        self.moved: dict[str, str] = {}
        """Host to the name of the node that listens there, for those that moved."""
        self.without_pre_vote: set[str] = set()
        """Nodes whose software is older than pre-vote: they can't be asked for one, and ask for none."""
        self.events: deque[tuple[str, Event]] = deque()
        self._next_id = 1
        self._timeouts: list[tuple[float, str, int]] = []
        self._times_out_ms: dict[tuple[str, int], float] = {}
        """When whoever sent a request that arrived gives up waiting for its answer."""

    # -- building

    def start(
        self,
        name: str,
        id: int | None = None,
        *,
        incarnation: int = 1,
        founder: bool = False,
        bootstrap: Iterable[str] = (),
        initial_voters: int = 1,
        static: Iterable[str] = (),
        cluster_id: str | None = None,
        auto_join: bool = False,
        jitter: float | None = None,
        run: bool = True,
    ) -> Node:
        """A node with an empty disk."""
        key = key_of(int(name.rstrip("'")) if id is None else id, incarnation)
        jitter = (key.id * 0.29) % 1 if jitter is None else jitter
        config = RaftConfig(
            endpoints=endpoints_of(name),
            bootstrap=tuple(endpoints_of(each)[0] for each in bootstrap),
            cluster_id=CLUSTER_ID if founder else cluster_id,
            founder=founder,
            initial_voters=initial_voters,
            static_voters=static_voters(*static),
            new_cluster_id=f"made-by-{name}",
            auto_join=auto_join,
        )
        node = Node(name, key, config, jitter, self._replica(config, key, jitter, None, LogState()))
        self.nodes[name] = node
        self.events.append((name, TimerExpired()))
        if run:
            self.run()
        return node

    def quorum(self, *names: str) -> Node:
        """A formed quorum led by the first of the names, everyone caught up."""
        founder = self.start(names[0], founder=True)
        for name in names[1:]:
            self.start(name, bootstrap=names[:1])
            self.advance(100)
            answer = self.add_voter(founder, self.nodes[name])
            assert answer.error is RaftError.NONE, answer.message
        self.advance(600)
        return founder

    # -- driving

    def do(self, node: Node, event: Event) -> None:
        """Process one event on one node, and everything that follows without a change of time."""
        self.events.append((node.name, event))
        self.run()

    def run(self) -> None:
        """Deliver messages until none is left."""
        for _ in range(100_000):
            if not self.events:
                return
            name, event = self.events.popleft()
            node = self.nodes[name]
            if node.up:
                self._step(node, event)
        raise AssertionError("the cores never come to rest")

    def advance(self, ms: float) -> None:
        """Advance the time; every timer fires at its time."""
        until_ms = self.now_ms + ms
        self.run()
        timers = 0
        while True:
            due = self._next_due_ms()
            if due is None or due > until_ms:
                break
            timers = timers + 1 if due <= self.now_ms else 0
            assert timers < 10_000, "a timer is due again and again at the same time"
            self.now_ms = max(self.now_ms, due)
            for node in list(self.nodes.values()):
                deadline = node.replica.next_deadline_ms() if node.up else None
                if deadline is not None and deadline <= self.now_ms:
                    self.events.append((node.name, TimerExpired()))
            late = [each for each in self._timeouts if each[0] <= self.now_ms]
            for each in late:
                self._timeouts.remove(each)
                failed = RequestFailed(each[2], FailureReason.TIMEOUT)
                self.events.append((each[1], failed))
            self.run()
        self.now_ms = until_ms

    def request(self, node: Node, request: Request) -> Response | None:
        """Send a request to a node; returns its answer, or None while it waits (see `answer`)."""
        number = self._number()
        self.do(node, RequestReceived(number, request))
        return node.answers.get(number)

    def propose(self, node: Node, *texts: str) -> int:
        """Propose a batch; returns the proposal id."""
        number = self._number()
        self.do(node, Proposed(number, tuple(text.encode() for text in texts)))
        return number

    def read(self, node: Node) -> int:
        """Ask for a linearizable read; returns the read id."""
        number = self._number()
        self.do(node, ReadRequested(number))
        return number

    def add_voter(self, leader: Node, newcomer: Node, **options: object) -> VoterChangeResponse:
        """AddVoter on `leader`; passes time until it is answered, which it has to be."""
        options.setdefault("cluster_id", CLUSTER_ID)
        request = AddVoterRequest(
            voter=newcomer.key,
            endpoints=newcomer.config.endpoints,
            timeout_ms=3000,
            **options,  # type: ignore[arg-type]
        )
        return self._change(leader, request)

    def remove_voter(
        self, leader: Node, key: ReplicaKey, *, cluster_id: str | None = CLUSTER_ID
    ) -> VoterChangeResponse:
        return self._change(leader, RemoveVoterRequest(cluster_id, key, 3000))

    def _change(
        self, leader: Node, request: AddVoterRequest | RemoveVoterRequest
    ) -> VoterChangeResponse:
        number = self._number()
        self.do(leader, RequestReceived(number, request))
        for _ in range(70):
            if number in leader.answers:
                break
            self.advance(50)
        answer = leader.answers.get(number)
        assert isinstance(answer, VoterChangeResponse), "it was not answered in time"
        return answer

    def campaign(self, node: Node) -> None:
        """Start a candidacy without a pre-vote, like older software."""
        replica = node.replica
        outputs: list[Output] = []
        replica.out = outputs
        replica.now_ms = self.now_ms
        become_unattached(replica, replica.epoch, 0.0)
        start_candidacy(replica)
        self._execute_all(node, outputs)
        self.do(node, TimerExpired())

    # -- faults

    def partition(self, *groups: Iterable[str]) -> None:
        """Cut every link between nodes of different groups (requests time out)."""
        self.cut = set()
        placed = [set(group) for group in groups]
        for a in self.nodes:
            for b in self.nodes:
                if a != b and not any(a in group and b in group for group in placed):
                    self.cut.add((a, b))

    def heal(self) -> None:
        self.cut = set()

    def crash(self, node: Node, *, lose_unflushed: bool = True) -> None:
        """kill -9: connections close; unflushed data may be lost."""
        node.up = False
        if lose_unflushed:
            del node.batches[node.durable_batches :]
        node.flush_wanted = False
        self.events = deque(each for each in self.events if each[0] != node.name)
        for name, correlation in node.waiting.values():
            self.events.append((name, RequestFailed(correlation, FailureReason.CLOSED)))
        node.waiting = {}
        self.run()

    def restart(self, node: Node) -> None:
        """Start again from the disk."""
        snapshots = node.snapshots
        latest = snapshots.latest
        if latest is not None and node.epoch_at(latest.end_offset - 1) != latest.epoch:
            node.batches, snapshots.start = [], latest  # what storage does at open
        starts: list[tuple[int, int]] = []
        for batch in node.batches:
            if not starts or starts[-1][0] != batch.leader_epoch:
                starts.append((batch.leader_epoch, batch.base_offset))
        control = [
            batch.data
            for batch in node.batches
            if split_batches(batch.data)[0][0].header.is_control
        ]
        log = snapshots.log_state(node.log_end, starts, control)
        node.replica = self._replica(node.config, node.key, node.jitter, node.state, log)
        node.durable_batches = len(node.batches)
        node.up, node.halted = True, None
        node.answers = {}
        self.events.append((node.name, TimerExpired()))
        self.run()

    def lose_disk(self, node: Node, incarnation: int) -> None:
        """Start over with an empty disk and a new replica UUID under the same id and address."""
        self.crash(node)
        node.batches, node.durable_batches, node.state = [], 0, None
        node.snapshots = NodeSnapshots()
        node.key = key_of(node.key.id, incarnation)
        others = tuple(endpoints_of(name)[0] for name in self.nodes if name != node.name)
        # A founder is a key, and that key is gone: who founded looks for the others as well.
        bootstrap = node.config.bootstrap or others
        node.config = replace(node.config, founder=False, bootstrap=bootstrap)
        self.restart(node)

    def move(self, node: Node, host: str, boot_timestamp_ms: int | None = None) -> None:
        """Stop it, and start it again at another address, without a notification to the others."""
        if node.up:
            self.crash(node)
        self.moved = {h: n for h, n in self.moved.items() if n != node.name}
        self.moved[host] = node.name
        boot = int(self.now_ms) if boot_timestamp_ms is None else boot_timestamp_ms
        node.config = replace(node.config, endpoints=endpoints_of(host), boot_timestamp_ms=boot)
        self.restart(node)

    def release_flush(self, node: Node) -> None:
        """End a held-back flush."""
        node.hold_flush = False
        if node.flush_wanted:
            self._flush(node)
        self.run()

    # -- looking

    @property
    def leader(self) -> Node:
        """The leader of the newest epoch."""
        leaders = [node for node in self.nodes.values() if node.is_leader]
        assert leaders, "there is no leader"
        return max(leaders, key=lambda node: node.replica.epoch)

    def _replica(
        self,
        config: RaftConfig,
        key: ReplicaKey,
        jitter: float,
        state: QuorumState | None,
        log: LogState,
    ) -> Replica:
        return Replica(config, key, state, log, lambda: jitter)

    def _number(self) -> int:
        self._next_id += 1
        return self._next_id

    def _next_due_ms(self) -> float | None:
        due = [each[0] for each in self._timeouts]
        for node in self.nodes.values():
            deadline = node.replica.next_deadline_ms() if node.up else None
            if deadline is not None:
                due.append(deadline)
        return min(due, default=None)

    def _step(self, node: Node, event: Event) -> None:
        self._execute_all(node, node.replica.step(event, self.now_ms))

    def _execute_all(self, node: Node, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if self.observer is not None:
                self.observer(node, output)
            self._execute(node, output)

    def _execute(self, node: Node, output: Output) -> None:
        match output:
            case AppendBatch():
                node.batches.append(output)
            case TruncateLog():
                while node.batches and node.batches[-1].end_offset > output.end_offset:
                    node.batches.pop()
                node.durable_batches = min(node.durable_batches, len(node.batches))
            case ResetLog():
                node.batches, node.durable_batches = [], 0
                node.snapshots.start = output.id
            case DeleteLogPrefix():
                node.snapshots.start = output.id
                kept = [b for b in node.batches if b.end_offset > output.id.end_offset]
                node.durable_batches -= len(node.batches) - len(kept)
                node.batches = kept
            case WriteSnapshotChunk() | DropPartialSnapshot() | FinishSnapshot():
                event = node.snapshots.execute(output)
                if node.hold_finish and event is not None:
                    node.finished = event
                elif event is not None:
                    self.events.append((node.name, event))
            case PersistQuorumState():
                node.durable_batches = len(node.batches)
                node.state = output.state
            case FlushLog():
                node.flush_wanted = True
                if not node.hold_flush:
                    self._flush(node)
            case Send():
                self._send(node, output)
            case Respond():
                self._respond(node, output)
            case ProposalCommitted():
                node.committed[output.proposal_id] = output
            case ProposalFailed():
                node.failed[output.proposal_id] = output.error
            case ReadConfirmed():
                node.reads[output.read_id] = output.offset
            case ReadFailed():
                node.reads[output.read_id] = output.error
            case Halt():
                node.halted = output
                self.events.append((node.name, TimerExpired()))
            case _:
                pass

    def _flush(self, node: Node) -> None:
        node.flush_wanted = False
        node.durable_batches = len(node.batches)
        self.events.append((node.name, LogFlushed(node.log_end)))

    def _send(self, node: Node, output: Send) -> None:
        target = self._at(output.destination.host)
        if target is not None and (node.name, target.name) in self.cut:
            self._time_out(node.name, output)
        elif target is None or not target.up:
            failed = RequestFailed(output.correlation, FailureReason.REFUSED)
            self.events.append((node.name, failed))
        elif self._is_pre_vote(output.request) and {node.name, target.name} & self.without_pre_vote:
            failed = RequestFailed(output.correlation, FailureReason.UNSUPPORTED)
            self.events.append((node.name, failed))
        else:
            self._times_out_ms[node.name, output.correlation] = self.now_ms + output.timeout_ms
            self._deliver(node, target, output.correlation, output.request)

    @staticmethod
    def _is_pre_vote(request: OutboundRequest) -> bool:
        return isinstance(request, VoteRequest) and request.pre_vote

    def _at(self, host: str) -> Node | None:
        if host in self.moved:
            return self.nodes[self.moved[host]]
        name = name_at(host)
        return None if name in self.moved.values() else self.nodes.get(name)

    def _deliver(
        self, node: Node, target: Node, correlation: int, request: OutboundRequest
    ) -> None:
        if isinstance(request, ApiVersionsRequest):
            answer = ApiVersionsResponse(RaftError.NONE, 0, 1, KEEPS_TARGET_VOTERS)
            self.events.append((node.name, ResponseReceived(correlation, answer)))
            return
        number = self._number()
        target.waiting[number] = (node.name, correlation)
        self.events.append((target.name, RequestReceived(number, request)))

    def _respond(self, node: Node, output: Respond) -> None:
        response = output.response
        if isinstance(response, FetchResponse) and response.range is not None:
            wanted = response.range
            data = b""
            for batch in node.batches:
                if wanted.start_offset < batch.end_offset <= wanted.limit_offset:
                    if data and len(data) + len(batch.data) > wanted.max_bytes:
                        break
                    data += batch.data
            if wanted.checked:
                try:
                    split_batches(data)
                except CorruptBatch as error:
                    self.events.appendleft((node.name, StorageFailed(str(error))))
                    return
            response = FetchResponse(
                response.error,
                response.leader,
                response.high_watermark,
                response.log_start_offset,
                records=data,
                answer=response.answer,
                keeping_up=response.keeping_up,
            )
        elif isinstance(response, FetchSnapshotResponse) and response.part is not None:
            response = node.snapshots.filled(response)
        waiting = node.waiting.pop(output.request_id, None)
        if waiting is None:
            node.answers[output.request_id] = response
            return
        name, correlation = waiting
        if (node.name, name) in self.cut:
            times_out_ms = self._times_out_ms.pop((name, correlation), self.now_ms)
            self._timeouts.append((max(self.now_ms, times_out_ms), name, correlation))
            return
        self._times_out_ms.pop((name, correlation), None)
        self.events.append((name, ResponseReceived(correlation, response)))  # type: ignore[arg-type]

    def _time_out(self, name: str, output: Send) -> None:
        self._timeouts.append((self.now_ms + output.timeout_ms, name, output.correlation))


def formed_cores(*names: str) -> tuple[Cores, Node]:
    """Cores with a quorum of these nodes, and its leader, which is the first of them."""
    cores = Cores()
    return cores, cores.quorum(*names)
