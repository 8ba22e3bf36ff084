"""An active controller without a network: real commands, image and append queue. The test takes the part of the quorum.

`commit` and `lose` decide the outcome of proposals. Used by unit tests of the server's controller package.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from uuid import UUID

from quorum_node.controller.snapshot_turns import SnapshotTurns
from quorum_node.controller.view import ANONYMOUS, UNRESTRICTED, Caller, Replicas, Settings
from quorum_node.image.committed import CommittedImage
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.metadata import AnyMetadata, decode_metadata
from quorum_node.schema.schema import Message
from quorum_node.server.controller.active_controller import ActiveController
from quorum_node.server.controller.controller_api import ControllerApi
from quorum_node.server.controller.events import ControllerEvents
from quorum_node.server.controller.maintenance import Maintenance
from quorum_node.server.controller.nondeterminism import Nondeterminism
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.partition.appends import AppendQueue
from quorum_node.server.partition.port import Append, AppendDone, AppendOutcome

T = TypeVar("T")
CLUSTER_ID = "the-cluster"
VOTERS = tuple(ReplicaKey(each, UUID(int=(1 << 90) + each)) for each in (1, 2, 3))


class PendingRequest:
    """A request and, once there is one, its answer. `takes_long`: its pure work waits until the test calls `work`."""

    def __init__(self, caller: Caller = ANONYMOUS, *, takes_long: bool = False) -> None:
        self.caller = caller
        self.takes_long = takes_long
        self.answers: list[Any] = []
        self._works: deque[Callable[[], None]] = deque()

    def use_thread(self) -> None:
        """See `Asking`."""
        self.takes_long = True

    def prepare(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """See `Asking`."""
        if not self.takes_long:
            then(work())
            return

        def on_thread() -> None:
            with ThreadPoolExecutor(1) as thread:
                made = thread.submit(work)
            self._works.append(lambda: then(made.result()))

        self._works.append(on_thread)

    def work(self) -> None:
        """Do the next piece of pure work on a thread, or take its result on the loop."""
        self._works.popleft()()

    def reply_made(self, make: Callable[[], Message]) -> None:
        """Store the answer."""
        self.reply(make())

    def reply(self, body: Message) -> None:
        """Store the answer."""
        self.answers.append(body)

    @property
    def answer(self) -> Any:
        """The one answer."""
        (answer,) = self.answers
        return answer


class Env:
    """One node's controller. Records are committed only by the test."""

    def __init__(
        self,
        *,
        maintained: bool = False,
        first_uuid: int = 1 << 100,
        balance_seconds: float | None = None,
        **settings: Any,
    ) -> None:
        self.now_ms = 0.0
        self.epoch: int | None = None
        self.high_watermark = 0
        self.log: list[tuple[int, tuple[bytes, ...]]] = []
        self.committed = CommittedImage()
        self.voters = VOTERS
        self.seen = Replicas()
        """What the replica reports of others."""
        self.turns: Callable[[float], SnapshotTurns] | None = None
        """Makes the order of snapshots, where a test has one."""
        self.speculative = 0
        """Batches that replay took over from the controller."""
        self.decided_on: list[threading.Thread] = []
        """The threads that made the ids of decisions."""
        self.metrics = Metrics().partition(0)
        self.appends = AppendQueue(self._propose, self._settled, self.metrics)
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._ids = first_uuid
        self._open: list[tuple[int, int, tuple[bytes, ...]]] = []
        nondeterminism = Nondeterminism(lambda: self.now_ms, self._uuid, lambda n: 0)
        events = ControllerEvents()
        self.controller = ActiveController(
            self,
            nondeterminism,
            events,
            self,
            session_timeout_ms=9000,
            settings=Settings(**settings),
        )
        self.maintenance = (
            Maintenance(
                self.controller,
                events,
                self.metrics,
                lambda: False,
                balance_seconds=balance_seconds,
            )
            if maintained
            else None
        )
        self.api = ControllerApi(self.controller, self.metrics)

    # -- what the controller sees of its replica

    @property
    def log_end_offset(self) -> int:
        """Where the next record goes."""
        return self.high_watermark + sum(len(values) for _, _, values in self._open)

    def leading_epoch(self) -> int | None:
        """Set by the test."""
        return self.epoch

    def when_applied(self, offset: int, ready: Callable[[], None]) -> None:
        """At once or after `apply`."""
        if self.committed.end_offset >= offset:
            ready()
        else:
            self._waiting.append((offset, ready))

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Through the loop, as in a node."""
        asyncio.get_running_loop().call_soon(callback)

    def identity(self) -> tuple[str, int, tuple[ReplicaKey, ...]]:
        """Cluster id, own id, voters."""
        return CLUSTER_ID, 1, self.voters

    def replicas(self) -> Replicas:
        """Set by the test."""
        return self.seen

    # -- results of the active controller

    def activated(self) -> None:
        """See `ActivePort`."""
        if self.maintenance is not None:
            self.maintenance.activated()

    def pending_changed(self) -> None:
        """See `ActivePort`."""
        if self.maintenance is not None:
            self.maintenance.look()

    def elected_unclean(self, partitions: int) -> None:
        """See `ActivePort`."""
        if self.maintenance is not None:
            self.maintenance.elected_unclean(partitions)

    def snapshot_turns(self, now_ms: float) -> SnapshotTurns | None:
        """See `ActivePort`."""
        return None if self.turns is None else self.turns(now_ms)

    def _settled(self, append: Append, outcome: AppendOutcome) -> None:
        self.controller.settled(append, outcome)

    # -- what the test does

    def append(self, values: tuple[bytes, ...], done: AppendDone) -> None:
        """An append by another part than the controller."""
        append = self.appends.submit(values, done)
        if append is not None:
            self.controller.appended(append)

    async def lead(self, epoch: int = 1) -> None:
        """Win an election, and commit a record of that epoch."""
        self.epoch = epoch
        self.controller.check()
        await self.turn()

    async def turn(self) -> None:
        """Let callbacks of the loop run."""
        for _ in range(10):
            await asyncio.sleep(0)

    def ask(
        self, body: Message, caller: Caller = ANONYMOUS, *, takes_long: bool = False
    ) -> PendingRequest:
        """Send a request."""
        requested = PendingRequest(caller, takes_long=takes_long)
        self.api.handle(requested, body, UNRESTRICTED)
        return requested

    async def commit(
        self, *, most: int = 1 << 30, apply: bool = True, apply_first: bool = False
    ) -> list[AnyMetadata]:
        """Commit the proposals, at most `most` batches; returns the records.

        `apply_first`: replay reaches them before the controller is informed of the commit.
        """
        await self.turn()
        records: list[AnyMetadata] = []
        while self._open and most:
            most -= 1
            proposal_id, base, values = self._open.pop(0)
            self.high_watermark = base + len(values)
            records += map(decode_metadata, values)
            self.log.append((base, values))
            if apply_first:
                self.apply()
            self.appends.committed(proposal_id, base, self.epoch or 0)
            self.controller.check()
            await self.turn()
        if apply:
            self.apply()
            await self.turn()
        return records

    def apply(self) -> None:
        """Replay what is committed, as a standby does. Checks that the controller's speculative image is equal."""
        committed = self.committed
        for base, values in self.log:
            if base >= committed.end_offset:
                end, epoch = base + len(values), self.epoch or 0
                speculative = self.controller.speculative.behind(committed.image, base, end, epoch)
                committed.replay(map(decode_metadata, values))
                if speculative is not None:
                    assert speculative == committed.image
                    committed.image = speculative
                    self.speculative += 1
                committed.reached(end, epoch, 0)
        waiting, self._waiting = self._waiting, []
        for offset, ready in waiting:
            self.when_applied(offset, ready)

    async def lose(self) -> None:
        """Another node becomes the leader: uncommitted records are lost."""
        self.epoch = None
        self.controller.check()
        for proposal_id, _, _ in self._open:
            self.appends.failed(proposal_id, RaftError.LEADERSHIP_LOST)
        self._open.clear()
        await self.turn()

    async def do(self, body: Message) -> Any:
        """Send a request, commit its records, and return its answer."""
        pending = self.ask(body)
        await self.commit()
        return pending.answer

    def _propose(self, proposal_id: int, values: tuple[bytes, ...]) -> None:
        if self.epoch is None:
            self.appends.failed(proposal_id, RaftError.NOT_QUORUM_LEADER)
            return
        self._open.append((proposal_id, self.log_end_offset, values))

    def _uuid(self) -> UUID:
        self.decided_on.append(threading.current_thread())
        self._ids += 1
        return UUID(int=self._ids)


def play(env: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test inside an event loop."""
    asyncio.run(env())
