"""Produce: passes batches to the leaders of their partitions, and answers once when all of them are done.

Owns the checks of a request as a whole, and collects the outcomes of its partitions. Does not depend on replication.
Source: the rules of a stock broker for Produce 3 to 13; KIP-516 (topics by id); KIP-951 (the leader in a refusal).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import UUID

from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.leader import ACKS
from quorum_node.broker.produced_batch import (
    codec_of,
    is_transactional,
    one_batch,
    read_produced,
)
from quorum_node.broker.produced_records import MOST_NAMED, Refusal
from quorum_node.broker.producers import NO_GUARD
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProducedLeader,
    ProduceNodeEndpoint,
    ProduceRequest,
    ProduceResponse,
    RecordError,
    TopicProduceResponse,
)
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.batch_validation import BatchValidation, with_own_bytes
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.internal_topics import INTERNAL_TOPICS
from quorum_node.server.broker.producer_turns import Over, ProducerTurns
from quorum_node.server.broker.topic_lookup import Found, May, anything, look_up
from quorum_node.server.broker.transaction_verification import TransactionVerification
from quorum_node.server.broker.wire_errors import code_of
from quorum_node.server.listener.port import InboundRequest
from quorum_node.storage.broker.codecs import ZSTD
from quorum_node.storage.broker.time_of_day import time_of_day_ms

EndpointTo = Callable[[int, str], tuple[str, int, str | None] | None]
"""The endpoint (host, port, rack) of a broker for clients of the given listener."""
_NO_ANSWER = 0
_ZSTD_SINCE = 7
_TOPIC_IDS_SINCE = 13
_ABORTABLE_SINCE = 11
"""First version with the error TRANSACTION_ABORTABLE."""
_LEADER_ADDS_SINCE = 12
"""First version in which the leader adds the partition to the transaction; in earlier versions the producer does it (KIP-890)."""


class _Outcome(NamedTuple):
    """The outcome of one partition. `error`: a code of Kafka's protocol; codes that this broker does not know are passed on.

    `has_start`: whether the answer has the start of the log, although there is an error.
    """

    error: int
    base_offset: int = -1
    text: str | None = None
    log_append_time_ms: int = -1
    record_errors: tuple[RecordError, ...] = ()
    has_start: bool = False


_Done = Callable[[_Outcome], None]
"""Called once for each partition."""


_WITHOUT_START = frozenset(
    {
        BrokerError.UNKNOWN_TOPIC_OR_PARTITION,
        BrokerError.NOT_LEADER_OR_FOLLOWER,
        BrokerError.MESSAGE_TOO_LARGE,
        BrokerError.RECORD_LIST_TOO_LARGE,
        BrokerError.CORRUPT_MESSAGE,
        BrokerError.KAFKA_STORAGE_ERROR,
    }
)
"""Errors of an append for which a stock broker does not look up the start of the log."""


def _refused(error: BrokerError) -> _Outcome:
    """The batch was refused before the log was looked at."""
    return _Outcome(code_of(error), text=error.value)


def _refused_at_log(error: BrokerError, text: str, *errors: RecordError) -> _Outcome:
    has_start = error not in _WITHOUT_START
    return _Outcome(code_of(error), text=text, record_errors=errors, has_start=has_start)


@dataclass(slots=True, eq=False)
class _Topic:
    """One topic of a request. `outcomes`: by partition, in the order of the request; None while there is no outcome."""

    name: str
    topic_id: UUID | None
    outcomes: dict[int, PartitionProduceResponse | None]

    @property
    def decided(self) -> tuple[PartitionProduceResponse, ...]:
        """The outcomes that there are."""
        return tuple(each for each in self.outcomes.values() if each is not None)


@dataclass(slots=True, eq=False)
class _Request:
    """One request and the outcomes of its partitions. `missing`: number of partitions without an outcome. `body`: without the topics."""

    inbound: InboundRequest
    body: ProduceRequest
    topics: tuple[_Topic, ...]
    missing: int
    may: May
    left_to_name: int = MOST_NAMED

    def named(self, refusal: Refusal) -> tuple[RecordError, ...]:
        """The invalid records of a batch. The limit is that of the whole answer: a request has thousands of small batches."""
        records = refusal.records[: self.left_to_name]
        self.left_to_name -= len(records)
        return tuple(
            RecordError(batch_index=each.number, batch_index_error_message=each.text)
            for each in records
        )

    def take(self, topic: _Topic, response: PartitionProduceResponse) -> bool:
        """Record an outcome; True if it was the last one."""
        topic.outcomes[response.index] = response
        self.missing -= 1
        return not self.missing


class ProduceApi:
    """The handler of Produce. `endpoint_to`: see `EndpointTo`."""

    def __init__(
        self,
        replicas: AssignedReplicas,
        endpoint_to: EndpointTo,
        verification: TransactionVerification,
    ) -> None:
        self._replicas = replicas
        self._verification = verification
        self._endpoint_to = endpoint_to
        self._validation = BatchValidation(time_of_day_ms)
        self._turns = ProducerTurns()

    def close(self) -> None:
        """Stop appending. Batches that a thread is validating are dropped."""
        self._validation.close()

    def handle(
        self,
        inbound: InboundRequest,
        body: ProduceRequest,
        may: May = anything,
        *,
        may_transact: bool = True,
    ) -> None:
        """Answer now or later, exactly once; never with acks=0. `may_transact`: whether the caller may use the request's
        transactional id, which only a request with transactional batches needs."""
        inbound.in_pieces(self._handle(inbound, body, may, may_transact=may_transact))

    def _handle(
        self, inbound: InboundRequest, body: ProduceRequest, may: May, *, may_transact: bool
    ) -> Iterator[None]:
        """Append partition by partition. A request of a few MiB has tens of thousands of them, each of which costs tens of microseconds."""
        asked: dict[tuple[str, UUID | None], dict[int, PartitionProduceData]] = {}
        may_append = True
        may_transact = may_transact and body.transactional_id is not None
        for topic in body.topic_data:
            # Of a repeated partition only the last entry is used, as on a stock broker.
            parts = asked.setdefault((topic.name, topic.topic_id), {})
            for each in topic.partition_data:
                parts[each.index] = each
                if not may_transact and is_transactional(each.records or b""):
                    may_append = False
                yield
            yield
        request = _Request(
            inbound,
            _without_topics(body),
            tuple(_Topic(*key, dict.fromkeys(parts)) for key, parts in asked.items()),
            sum(map(len, asked.values())),
            may,
        )
        if not request.missing:
            self._finish(request)
            return
        is_first = True
        for named, parts in zip(request.topics, asked.values(), strict=True):
            for each in parts.values():
                # Not after the last one: a request about one partition takes no further turn, however large its batch is.
                if not is_first:
                    yield
                is_first = False
                done = partial(self._done, request, named, each.index)
                if may_append:
                    self._produce(request, named, each, done)
                else:
                    done(_Outcome(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        inbound.keep_only(request.body)

    def _look_up(
        self, inbound: InboundRequest, topic: _Topic, index: int, may: May = anything
    ) -> Found | ErrorCode:
        by_id = inbound.request.version >= _TOPIC_IDS_SINCE
        return look_up(self._replicas, topic.topic_id, topic.name, index, may, by_id=by_id)

    def _produce(
        self,
        request: _Request,
        topic: _Topic,
        each: PartitionProduceData,
        done: _Done,
    ) -> None:
        found = self._look_up(request.inbound, topic, each.index, request.may)
        if isinstance(found, ErrorCode):
            done(_Outcome(found))
            return
        data = _data_of(each, request.inbound.request.version, request.body.acks)
        if isinstance(data, BrokerError):
            done(_refused(data))
            return
        if found.topic.name in INTERNAL_TOPICS:
            text = "only brokers may write to internal topics"
            done(_Outcome(ErrorCode.INVALID_TOPIC_EXCEPTION, text=text))
            return
        replica = found.replica
        if replica is None:
            done(_Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        error = replica.refuses_producers(request.body.acks)
        if error is not BrokerError.NONE:
            done(_refused_at_log(error, error.value))
            return
        batch = read_produced(data, replica.limits)
        if isinstance(batch, BrokerError):
            done(_refused_at_log(batch, batch.value))
            return

        def checked(result: Batch | Refusal) -> None:
            if isinstance(result, Refusal):
                done(_refused_at_log(result.error, result.text, *request.named(result)))
            elif self._replicas.replica(*replica.key) is not replica:
                # The replica was removed or replaced while a thread validated the batch.
                done(_Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            else:
                self._append_checked(request, found, replica, result, done)

        self._validation.validate(replica.key, batch, replica.limits, checked)

    def _append_checked(
        self,
        request: _Request,
        found: Found,
        replica: HostedReplica,
        batch: Batch,
        done: _Done,
    ) -> None:
        if replica.limits.takes_append_time:
            # Decided here: the topic's configuration may change while the batch waits for its turn.
            done = partial(_with_append_time, done, batch.max_timestamp_ms)
        if not batch.is_transactional:
            _append(replica, batch, request.body, done)
            return
        producer = replica.key, batch.producer_id
        if self._turns.is_busy(producer):
            batch = with_own_bytes(batch)
        self._turns.take(producer, partial(self._in_turn, request, found, replica, batch, done))

    def _in_turn(
        self,
        request: _Request,
        found: Found,
        replica: HostedReplica,
        batch: Batch,
        done: _Done,
        over: Over,
    ) -> None:
        """Append a batch of a transaction. The first one in this partition is verified with the coordinator before."""
        body, version = request.body, request.inbound.request.version
        if replica.core.has_open_transaction(batch.producer_id, batch.producer_epoch):
            _append(replica, batch, body, done)
            over()
            return
        assert body.transactional_id is not None, "the request as a whole is refused without one"
        adds = version >= _LEADER_ADDS_SINCE
        guard = replica.core.guard(batch, time_of_day_ms(), adds=adds)
        kept = with_own_bytes(batch)

        def verified(code: int) -> None:
            if code == ErrorCode.NONE:
                _append(replica, kept, body, done, guard)
            else:
                text = (
                    "the coordinator did not confirm that the partition is part of the transaction"
                )
                done(_Outcome(code, text=text))
            over()

        self._verification.verify(
            body.transactional_id,
            batch,
            found.topic.name,
            replica.key.partition_id,
            verified,
            adds=adds,
            knows_abortable=version >= _ABORTABLE_SINCE,
        )

    def _done(
        self,
        request: _Request,
        topic: _Topic,
        index: int,
        outcome: _Outcome,
    ) -> None:
        found = self._look_up(request.inbound, topic, index)
        start_offset, leader = -1, ProducedLeader()
        if isinstance(found, Found):
            if found.replica is not None and (not outcome.error or outcome.has_start):
                start_offset = found.replica.core.start_offset
            if outcome.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                leader = ProducedLeader(
                    leader_id=found.partition.leader, leader_epoch=found.partition.leader_epoch
                )
        response = PartitionProduceResponse(
            index=index,
            error_code=outcome.error,
            base_offset=outcome.base_offset,
            log_append_time_ms=outcome.log_append_time_ms,
            record_errors=outcome.record_errors,
            log_start_offset=start_offset,
            error_message=outcome.text,
            current_leader=leader,
        )
        if request.take(topic, response):
            self._finish(request)

    def _finish(self, request: _Request) -> None:
        inbound, body = request.inbound, request.body
        if body.acks == _NO_ANSWER:
            # As in a stock broker: an error closes the connection, so that the producer refreshes its metadata.
            failed = any(each.error_code for topic in request.topics for each in topic.decided)
            inbound.leave_unanswered(failed=failed)
            return
        responses = tuple(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=topic.decided
            )
            for topic in request.topics
        )
        inbound.reply(ProduceResponse(responses=responses, node_endpoints=self._leaders(request)))

    def _leaders(self, request: _Request) -> tuple[ProduceNodeEndpoint, ...]:
        decided = (each for topic in request.topics for each in topic.decided)
        ids = {each.current_leader.leader_id for each in decided} - {-1}
        listener = request.inbound.caller.listener
        found = []
        for broker_id in sorted(ids):
            endpoint = self._endpoint_to(broker_id, listener)
            if endpoint is not None:
                host, port, rack = endpoint
                found.append(
                    ProduceNodeEndpoint(node_id=broker_id, host=host, port=port, rack=rack)
                )
        return tuple(found)


def _without_topics(body: ProduceRequest) -> ProduceRequest:
    """What is kept until the answer: a client chooses how long that may take, and a request has up to 8 MiB of records and unknown fields."""
    return ProduceRequest(
        transactional_id=body.transactional_id,
        acks=body.acks,
        timeout_ms=body.timeout_ms,
        topic_data=(),
    )


def _data_of(each: PartitionProduceData, version: int, acks: int) -> memoryview | BrokerError:
    """The bytes of the batch, or an error that does not depend on the log. The checks are in the order of a stock broker."""
    data = one_batch(each.records or b"")
    if isinstance(data, BrokerError):
        return data
    if version < _ZSTD_SINCE and codec_of(data) == ZSTD:
        return BrokerError.UNSUPPORTED_COMPRESSION_TYPE
    return data if acks in ACKS else BrokerError.INVALID_REQUIRED_ACKS


def _append(
    replica: HostedReplica,
    batch: Batch,
    body: ProduceRequest,
    done: _Done,
    guard: int = NO_GUARD,
) -> None:
    def produced(error: BrokerError, offset: int) -> None:
        is_done = error is BrokerError.NONE
        done(_Outcome(code_of(error), offset) if is_done else _refused_at_log(error, error.value))

    # A timeout ends only the waiting: an appended batch stays in the log.
    timeout_ms = float(max(0, body.timeout_ms))
    replica.produce(batch, body.acks, timeout_ms, produced, guard)


def _with_append_time(done: _Done, append_time_ms: int, outcome: _Outcome) -> None:
    done(outcome if outcome.error else outcome._replace(log_append_time_ms=append_time_ms))
