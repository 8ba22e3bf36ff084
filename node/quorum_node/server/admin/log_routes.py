"""The replica's own committed log, decoded: for checkers, and for people who ask what happened."""

from typing import Annotated

from fastapi import APIRouter, Query

from quorum_node.api import ErrorCode, LogPage, LogRecord, VoterHistory
from quorum_node.records.batches import CorruptBatch
from quorum_node.records.identity import uuid_text
from quorum_node.server.admin.node_view import ChosenReplica, NodeView
from quorum_node.server.admin.problems import ApiProblem
from quorum_node.server.admin.replica_view import ReplicaView
from quorum_node.server.log_reader import committed_records, voter_sets
from quorum_node.storage.errors import StorageFailure

MAX_RECORDS = 10_000


def router(node: NodeView) -> APIRouter:
    """The routes over one node."""
    routes = APIRouter(prefix="/v1")

    @routes.get("/log")
    async def log(
        replica: ChosenReplica,
        from_offset: Annotated[int | None, Query(alias="fromOffset", ge=0)] = None,
        max_records: Annotated[int, Query(alias="maxRecords", ge=1, le=MAX_RECORDS)] = 1000,
    ) -> LogPage:
        description = replica.describe()
        high_watermark = max(description.high_watermark, 0)
        start_offset = replica.host.log.start_offset
        if from_offset is None:
            from_offset = start_offset
        if from_offset < start_offset:
            raise _before_start(from_offset, start_offset)
        records: list[LogRecord] = []
        try:
            for record in committed_records(replica.host.log, from_offset, high_watermark):
                records.append(record)
                if len(records) == max_records:
                    break
        except (StorageFailure, CorruptBatch) as error:
            raise _failed(replica, error) from error
        return LogPage(
            node_id=description.key.id,
            replica_uuid=uuid_text(description.key.uuid),
            records=records,
            next_offset=records[-1].offset + 1 if records else from_offset,
            high_watermark=high_watermark,
            log_start_offset=start_offset,
        )

    @routes.get("/voter-history")
    async def voter_history(replica: ChosenReplica) -> VoterHistory:
        description = replica.describe()
        try:
            history = await voter_sets(
                replica.host.log,
                description.high_watermark,
                replica.host.driver.replica.voters.entries,
            )
        except (StorageFailure, CorruptBatch) as error:
            raise _failed(replica, error) from error
        return VoterHistory(node_id=description.key.id, history=history)

    return routes


def _failed(replica: ReplicaView, error: StorageFailure | CorruptBatch) -> ApiProblem:
    """Damage counts whoever came across it: the replica stops."""
    text = str(error) if isinstance(error, StorageFailure) else f"the log is damaged: {error}"
    replica.host.fail_storage(StorageFailure(text))
    return ApiProblem(503, ErrorCode.STORAGE_FAILED, text)


def _before_start(from_offset: int, start_offset: int) -> ApiProblem:
    return ApiProblem(
        410,
        ErrorCode.OFFSET_BEFORE_LOG_START,
        f"offset {from_offset} is before the start of this replica's log: the records below"
        f" {start_offset} were replaced by a snapshot, which holds the state that they amount to. Read"
        f" on from offset {start_offset}; values are at /v1/configs",
    )
