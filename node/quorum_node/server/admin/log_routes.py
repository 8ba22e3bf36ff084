"""The replica's own committed log: decoded, for checkers and for debugging, or as batches, for readers of all of it.

A page is bounded in bytes, and in records or in time. It is made in slices (`paced`), so that it does not hold up the loop.
"""

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Response

from quorum_node.api import ErrorCode, LogPage, LogRecord, VoterHistory
from quorum_node.records.batches import CorruptBatch
from quorum_node.records.identity import uuid_text
from quorum_node.server.admin import log_batches
from quorum_node.server.admin.log_reader import committed_records, voter_sets
from quorum_node.server.admin.node_view import ChosenReplica, NodeView
from quorum_node.server.admin.pieced_document import PiecedDocument
from quorum_node.server.admin.problems import ApiProblem
from quorum_node.server.admin.replica_view import ReplicaView
from quorum_node.storage.errors import StorageFailure

MAX_RECORDS = 10_000
MAX_PAGE_BYTES = 1 << 20
"""A page ends with the record that reaches this size in bytes, even if more records were requested."""


class LogFormat(StrEnum):
    """Form of a page of the log.

    `json`: a LogPage, up to `maxRecords` or 1 MiB.
    `batches`: Kafka's record batches as `application/octet-stream`, from the one with `fromOffset` to the one that reaches `maxBytes`. The
    checksums are not verified by the node. The headers `Quorum-Node-Id`, `Quorum-High-Watermark` and `Quorum-Log-Start-Offset` have other
    fields of a page. An empty body: this replica has nothing committed at that offset yet.
    """

    JSON = "json"
    BATCHES = "batches"


def router(node: NodeView) -> APIRouter:
    """The routes over one node."""
    routes = APIRouter(prefix="/v1")

    @routes.get(
        "/log",
        response_model=LogPage,
        responses={200: {"content": {log_batches.MEDIA_TYPE: {}}}},
    )
    async def log(
        replica: ChosenReplica,
        from_offset: Annotated[int | None, Query(alias="fromOffset", ge=0)] = None,
        max_records: Annotated[int, Query(alias="maxRecords", ge=1, le=MAX_RECORDS)] = 1000,
        form: Annotated[LogFormat, Query(alias="format")] = LogFormat.JSON,
        max_bytes: Annotated[
            int, Query(alias="maxBytes", ge=1, le=log_batches.MAX_BYTES)
        ] = log_batches.MAX_BYTES,
    ) -> Response:
        """Committed records of this node's own log, from `fromOffset` on, as JSON or as Kafka's record batches."""
        start_offset = replica.host.log.start_offset
        if from_offset is None:
            from_offset = start_offset
        if from_offset < start_offset:
            raise _before_start(from_offset, start_offset)
        if form is LogFormat.BATCHES:
            return await _batches(node, replica, from_offset, max_bytes)
        return await _records(node, replica, from_offset, max_records)

    @routes.get("/voter-history")
    async def voter_history(replica: ChosenReplica) -> VoterHistory:
        """Every set of voters in this node's own log, with its offset and epoch."""
        description = replica.describe()
        try:
            async with node.pace.one_reader() as pace:
                history = await voter_sets(
                    replica.host.log,
                    description.high_watermark,
                    replica.host.voter_sets(),
                    rest=pace.rest,
                )
        except (StorageFailure, CorruptBatch) as error:
            raise _failed(replica, error) from error
        return VoterHistory(node_id=description.key.id, history=history)

    return routes


async def _records(
    node: NodeView, replica: ReplicaView, from_offset: int, max_records: int
) -> Response:
    """A LogPage. Raises ApiProblem."""
    description, start_offset = replica.describe(), replica.host.log.start_offset
    high_watermark = max(description.high_watermark, 0)
    page = _Page()
    try:
        async with node.pace.one_reader() as pace:
            async for record in pace.each(
                committed_records(replica.host.log, from_offset, high_watermark)
            ):
                page.add(record)
                if page.count == max_records or page.size_bytes >= MAX_PAGE_BYTES:
                    break
    except (StorageFailure, CorruptBatch) as error:
        raise _failed(replica, error) from error
    rest = LogPage(
        node_id=description.key.id,
        replica_uuid=uuid_text(description.key.uuid),
        records=[],
        next_offset=from_offset if page.next_offset is None else page.next_offset,
        high_watermark=high_watermark,
        log_start_offset=start_offset,
    )
    return page.response(rest)


async def _batches(
    node: NodeView, replica: ReplicaView, from_offset: int, max_bytes: int
) -> Response:
    """Record batches. Raises ApiProblem."""
    description, log = replica.describe(), replica.host.log
    headers = log_batches.headers(description, log.start_offset)
    try:
        async with node.pace.one_reader() as pace:
            pieces = await log_batches.committed_pieces(
                log, from_offset, description.high_watermark, max_bytes, pace
            )
    except StorageFailure as error:
        raise _failed(replica, error) from error
    return pieces.response(log_batches.MEDIA_TYPE, headers)


def _failed(replica: ReplicaView, error: StorageFailure | CorruptBatch) -> ApiProblem:
    """Stop the replica, as for damage that it finds itself. Returns the answer to the reader."""
    failure = (
        StorageFailure(f"the log is damaged: {error}") if isinstance(error, CorruptBatch) else error
    )
    replica.host.fail_storage(failure)
    return ApiProblem(503, ErrorCode.STORAGE_FAILED, str(failure))


class _Page:
    """A LogPage as JSON, encoded record by record: encoding all of it at the end would block the loop for too long."""

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0
        self.next_offset: int | None = None
        self._document = PiecedDocument("records")

    def add(self, record: LogRecord) -> None:
        """Add a record."""
        part = record.model_dump_json(by_alias=True).encode()
        self._document.add(part)
        self.count += 1
        self.size_bytes += len(part)
        self.next_offset = record.offset + 1

    def response(self, rest: LogPage) -> Response:
        """The complete page. `rest`: all its fields but the records."""
        return self._document.response(rest)


def _before_start(from_offset: int, start_offset: int) -> ApiProblem:
    return ApiProblem(
        410,
        ErrorCode.OFFSET_BEFORE_LOG_START,
        f"offset {from_offset} is before the start of this replica's log: the records below"
        f" {start_offset} were replaced by a snapshot, which holds the state that results from them. Read"
        f" on from offset {start_offset}; values are at /v1/configs",
    )
