"""The requests of Fetch that wait for records, and their partitions.

Owns when a request is due: enough bytes, an error, or a divergence. Must not know the wire's answers (`fetch_answers.py`).
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from quorum_node.broker.outputs import RefuseFetch, ServeFetch
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from quorum_node.server.broker.hosted_replica import FetchAnswer, HostedReplica
from quorum_node.server.broker.topic_lookup import Found
from quorum_node.server.broker.wire_errors import code_of
from quorum_node.server.listener.port import InboundRequest

MAX_BYTES = 32 << 20
"""Maximum bytes of records in one answer, regardless of the request. It is below the maximum that this software's followers accept."""


@dataclass(slots=True, eq=False)
class Part:
    """One partition of a request. `answer`: the core's answer; None if the request was refused before it reached the core.

    `ready_bytes`: what can be read, as far as the request asks for it.
    """

    topic: FetchTopic
    asked: FetchPartition
    found: Found | None
    error: ErrorCode = ErrorCode.NONE
    answer: FetchAnswer | None = None
    ready_bytes: int = 0

    @property
    def replica(self) -> HostedReplica | None:
        """The local replica, or None."""
        return None if self.found is None else self.found.replica

    def keep_what_is_used(self, topics: dict[int, FetchTopic]) -> None:
        """Replace topic and partition by copies without other partitions and unknown fields. `topics`: the copies, by id of the original."""
        topic = self.topic
        self.topic = topics.setdefault(
            id(topic), FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=())
        )
        self.asked = replace(self.asked, tagged_fields=())

    def answered(self, answer: FetchAnswer) -> None:
        """Store the core's answer, which replaces an earlier one."""
        self.answer = answer
        if isinstance(answer, RefuseFetch):
            self.error = code_of(answer.error)

    def count(self) -> bool:
        """Update `ready_bytes`. False if nothing has to be awaited: the answer is an error or a divergence."""
        answer, replica = self.answer, self.replica
        if not isinstance(answer, ServeFetch) or replica is None:
            return False
        self.ready_bytes = 0
        if answer.end_offset > answer.fetch_offset:
            # An estimate is enough: the exact count needs a look-up in the index.
            available = replica.bytes_from(answer.fetch_offset)
            self.ready_bytes = min(self.asked.partition_max_bytes, available)
        return True


@dataclass(slots=True, eq=False)
class Waiting:
    """A fetch request; `timer` is set while it waits. `moved`: the parts whose replicas have changed since they were looked at.

    `ready_bytes`: those of all parts.
    """

    inbound: InboundRequest
    body: FetchRequest
    parts: list[Part]
    timer: asyncio.TimerHandle | None = None
    ready_bytes: int = 0
    moved: dict[Part, None] = field(default_factory=dict)
    watched: list[tuple[HostedReplica, Callable[[], None]]] = field(default_factory=list)

    def keep_what_is_used(self) -> None:
        """Keep no repetitions and no unknown fields while it waits: with those a request of any client has up to 8 MiB."""
        kept: dict[int, FetchTopic] = {}
        for part in self.parts:
            part.keep_what_is_used(kept)
        body = self.body
        epoch = body.replica_state.replica_epoch
        self.body = FetchRequest(
            replica_id=body.replica_id,
            replica_state=ReplicaState(replica_id=body.fetcher_id, replica_epoch=epoch),
            max_wait_ms=body.max_wait_ms,
            min_bytes=body.min_bytes,
            max_bytes=body.max_bytes,
            isolation_level=body.isolation_level,
            topics=tuple(kept[id(topic)] for topic in body.topics if id(topic) in kept),
        )
        self.inbound.keep_only(self.body)

    def park(self, moved: Callable[[Part], None], timer: asyncio.TimerHandle) -> None:
        """Wait until the timer fires; `moved` is called with each part whose replica changes."""
        self.timer = timer
        for part in self.parts:
            if part.replica is not None:
                changed = partial(moved, part)
                part.replica.watch(changed)
                self.watched.append((part.replica, changed))

    def forget(self) -> None:
        """Stop waiting."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        watched, self.watched = self.watched, []
        for replica, changed in watched:
            replica.unwatch(changed)

    def note(self, part: Part) -> bool:
        """Return True for the first part since the last look: the caller then schedules one."""
        was_empty = not self.moved
        self.moved[part] = None
        return was_empty

    def take_moved(self) -> tuple[Part, ...]:
        """The parts to be looked at; the next change schedules another look."""
        moved, self.moved = self.moved, {}
        return tuple(moved)

    def is_due(self, changed: Iterable[Part]) -> bool:
        """Whether to answer now: an error, a divergence, or enough bytes. Only these parts have changed since the last call."""
        for part in changed:
            before = part.ready_bytes
            if not part.count():
                return True
            self.ready_bytes += part.ready_bytes - before
        body = self.body
        return self.ready_bytes >= min(body.min_bytes, body.max_bytes, MAX_BYTES)
