"""Client of the node's admin API for partitions; the documents are `quorum_node.reassignment_api`.

Any node describes partitions from its own state with a confirmed read; only the leader accepts changes. Pods are
called in turn by IP; the leader address reported by a node is never used. Expected failures are values, never
exceptions.
"""

import httpx
from pydantic import BaseModel

from quorum_node.api import ErrorCode
from quorum_node.reassignment_api import (
    DescribePartitionsRequest,
    PartitionDescriptions,
    PartitionName,
    PartitionTarget,
    ReassignRequest,
    ReassignResult,
)
from quorum_operator.admin_call import (
    CHANGE_TIMEOUT_MS,
    NO_ANSWER,
    Answer,
    M,
    call,
    document,
    malformed,
)
from quorum_operator.planner.reassignment import (
    BeginMoves,
    CancelMoves,
    Change,
    Cluster,
    PartitionReplicas,
    Target,
)
from quorum_operator.pod_client import PodClient

DESCRIBE_TIMEOUT_MS = 2000
MOST_BYTES = 4 << 20
"""Limit of an answer: 1000 partitions with long names and 100 replicas each, and 10000 brokers."""


class PartitionClient:
    """Client for the pods of all quorums, which share `http`; with a `pod_client`, for those of one quorum."""

    def __init__(self, http: httpx.AsyncClient, pod_client: PodClient | None = None) -> None:
        self._http = http
        self._pod_client = pod_client or PodClient(http)

    def through(self, pod_client: PodClient) -> "PartitionClient":
        """Return a client for the quorum that `pod_client` calls."""
        return PartitionClient(self._http, pod_client)

    async def describe(
        self, ips: list[str], token: str, targets: tuple[Target, ...]
    ) -> Cluster | Answer:
        """The state of the partitions; an Answer with the failure if no pod returns it. `ips`: most promising first."""
        names = [PartitionName(topic=each.topic, partition=each.partition) for each in targets]
        body = DescribePartitionsRequest(partitions=names, timeout_ms=DESCRIBE_TIMEOUT_MS)
        path = "/v1/reassignments/describe"
        result = await self._post(
            ips, path, token, body, DESCRIBE_TIMEOUT_MS, PartitionDescriptions
        )
        return result if isinstance(result, Answer) else _cluster(result)

    async def change(self, ips: list[str], token: str, step: BeginMoves | CancelMoves) -> Answer:
        """Execute a step. The Answer is successful if a partition was accepted or none was refused; else it has the reason."""
        body = ReassignRequest(
            partitions=[_target(each) for each in step.changes],
            max_moving=step.max_moving if isinstance(step, BeginMoves) else None,
            timeout_ms=CHANGE_TIMEOUT_MS,
        )
        result = await self._post(
            ips, "/v1/reassignments", token, body, CHANGE_TIMEOUT_MS, ReassignResult
        )
        if isinstance(result, Answer):
            return result
        if result.accepted or not result.refused:
            return Answer(True)
        first = result.refused[0]
        return Answer(False, first.error, f"{first.topic}-{first.partition}: {first.message}")

    async def _post(
        self,
        ips: list[str],
        path: str,
        token: str,
        body: BaseModel,
        timeout_ms: int,
        model: type[M],
    ) -> M | Answer:
        """The first useful answer, else the last failure."""
        answer = Answer(False, NO_ANSWER, "no pod of the quorum is running")
        for ip in ips:
            result = await self._post_to(ip, path, token, body, timeout_ms, model)
            if not isinstance(result, Answer):
                return result
            if result.code != ErrorCode.NOT_LEADER or answer.code == NO_ANSWER:
                answer = result  # The leader's answer takes precedence.
        return answer

    async def _post_to(
        self, ip: str, path: str, token: str, body: BaseModel, timeout_ms: int, model: type[M]
    ) -> M | Answer:
        content = body.model_dump_json(by_alias=True)
        answer = await call(
            self._pod_client, "POST", ip, path, token, content, timeout_ms, MOST_BYTES
        )
        if isinstance(answer, Answer):
            return answer
        try:
            return document(model, answer)
        except ValueError:
            return malformed(answer)


def _target(change: Change) -> PartitionTarget:
    return PartitionTarget(
        topic=change.topic,
        partition=change.partition,
        replicas=None if change.replicas is None else list(change.replicas),
        expected_replicas=list(change.expected),
    )


def _cluster(descriptions: PartitionDescriptions) -> Cluster:
    return Cluster(
        partitions={
            (each.topic, each.partition): PartitionReplicas(
                tuple(each.replicas),
                tuple(each.isr),
                tuple(each.adding_replicas),
                tuple(each.removing_replicas),
            )
            for each in descriptions.partitions
        },
        fenced={each.id: each.fenced for each in descriptions.brokers},
        moving=descriptions.moving,
    )
