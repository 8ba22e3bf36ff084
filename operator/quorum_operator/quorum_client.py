"""Client of the node's admin HTTP API.

Owns which node is called in which order. The documents are defined in `quorum_node.api`; `admin_call.py` makes a single
call. Pods are called by their IP from Kubernetes. The leader's URL reported by a node is never used, because the token
is sent with the call. A node that is not the leader refuses requests for the leader. Expected failures (no leader, a
refused change, a failed pod) are values, never exceptions.
"""

import asyncio
from dataclasses import dataclass

import httpx
from pydantic import ValidationError

from quorum_node.api import (
    AddVoterRequest,
    EndpointModel,
    NodeDescription,
    QuorumDescription,
    ReplicaStatus,
    ResignRequest,
)
from quorum_operator.admin_call import CHANGE_TIMEOUT_MS, Answer, call, limit
from quorum_operator.desired.names import CONTROLLER_PORT
from quorum_operator.planner.certificates_seen import LoadedCertificates
from quorum_operator.planner.observed import (
    HeldLog,
    Key,
    NodeReport,
    QuorumView,
    ReplicaView,
    TargetVoter,
)
from quorum_operator.planner.step import VotersPosition
from quorum_operator.pod_client import PodClient

REPORT_TIMEOUT_S = 1.0
CONFIRM_TIMEOUT_MS = 1500
DESCRIBE_BUDGET_S = 4.0
DESCRIBES_AT_ONCE = 48
"""Maximum of concurrent calls, fewer than the pool's connections, so that no call waits for one."""


@dataclass(frozen=True, slots=True)
class Described:
    """A confirmed view, or else the voters reported by an unconfirmed node.

    `older`: a view confirmed by a majority that is older than one confirmed before.
    """

    view: QuorumView | None
    hinted_voters: frozenset[Key] | None
    older: QuorumView | None = None
    hinted_epoch: int | None = None
    """Leader epoch of the source of the hint."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest epoch and the last recovery of a cluster that a majority has confirmed so far."""

    cluster_id: str | None = None
    epoch: int = -1
    recovered_epoch: int = 0

    def is_beyond(self, other: "Seen") -> bool:
        """Whether it names a later epoch or recovery of the same cluster."""
        later = self.epoch > other.epoch or self.recovered_epoch > other.recovered_epoch
        return later and self.cluster_id == other.cluster_id

    def is_older(self, view: QuorumView) -> bool:
        """Whether a view is outdated: voters from before a recovery may also form a majority. A later leader never has
        a lower epoch.
        """
        lower = view.epoch < self.epoch or view.recovered_epoch < self.recovered_epoch
        return lower and view.cluster_id == self.cluster_id


class QuorumClient:
    """Client for the pods of all quorums, which share `http`; with a `pod_client`, for those of one quorum."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        pod_client: PodClient | None = None,
        describing: asyncio.Semaphore | None = None,
    ) -> None:
        self._http = http
        self._pod_client = pod_client or PodClient(http)
        self._describing = describing or asyncio.Semaphore(DESCRIBES_AT_ONCE)

    def through(self, pod_client: PodClient) -> "QuorumClient":
        """Return a client for one quorum, with the same limit of concurrent calls."""
        return QuorumClient(self._http, pod_client, self._describing)

    async def report(self, ip: str, node_id: int) -> NodeReport | None:
        """The report of the process at `ip`. None without a valid answer, or if another node uses the address now."""
        try:
            answer = await self._pod_client.request(
                "GET", ip, "/v1/node", timeout=limit(REPORT_TIMEOUT_S)
            )
            told = NodeDescription.model_validate_json(answer.content)
        except (httpx.HTTPError, ValidationError):
            return None
        if told.node_id != node_id:
            return None
        return NodeReport(
            uuid=told.replica_uuid,
            cluster_id=told.cluster_id,
            role=told.role.value,
            formed=told.formed,
            caught_up=told.caught_up,
            storage=told.storage.state.value,
            storage_detail=told.storage.detail,
            log=_log(told),
            certificates=_certificates(told),
        )

    async def describe(self, ips: list[str], seen: Seen = Seen()) -> Described:
        """Call one pod after the other until one returns a confirmed view. `ips`: most promising first."""
        hinted: frozenset[Key] | None = None
        hinted_epoch: int | None = None
        older: QuorumView | None = None
        try:
            async with self._describing, asyncio.timeout(DESCRIBE_BUDGET_S):
                for ip in ips:
                    told = await self._describe(ip, confirmed=True)
                    if told is None or not told.confirmed or told.leader_id is None:
                        continue
                    view = _view(told)
                    if not seen.is_older(view):
                        return Described(view, None, older)
                    older = view
                for ip in ips:
                    told = await self._describe(ip, confirmed=False)
                    if told is not None and told.voters and told.leader_epoch >= seen.epoch:
                        hinted = frozenset(Key(each.id, each.uuid) for each in told.voters)
                        hinted_epoch = told.leader_epoch
                        break
        except TimeoutError:
            pass
        return Described(None, hinted, older, hinted_epoch)

    async def _describe(self, ip: str, *, confirmed: bool) -> QuorumDescription | None:
        query = {"confirmed": str(confirmed).lower(), "timeoutMs": str(CONFIRM_TIMEOUT_MS)}
        timeout = limit(CONFIRM_TIMEOUT_MS / 1000 + 0.5)
        try:
            answer = await self._pod_client.request(
                "GET", ip, "/v1/quorum", params=query, timeout=timeout
            )
            if answer.status_code != 200:
                return None
            return QuorumDescription.model_validate_json(answer.content)
        except (httpx.HTTPError, ValidationError):
            return None

    async def takes_token(self, ip: str, token: str) -> bool | None:
        """Whether the node at `ip` accepts this admin token; None if unknown. Uses a route that no node serves,
        because authorization is checked before the route.
        """
        headers = {"Authorization": f"Bearer {token}"}
        try:
            answer = await self._pod_client.request(
                "POST", ip, "/v1/node", headers=headers, timeout=limit(REPORT_TIMEOUT_S)
            )
        except httpx.HTTPError:
            return None
        return answer.status_code not in {401, 403}

    async def add_voter(
        self,
        ip: str,
        token: str,
        key: Key,
        host: str,
        position: VotersPosition,
        *,
        count_newcomer: bool,
    ) -> Answer:
        """Add `key`, whose pod has the address `host`, as a voter; refused if the voters have changed."""
        body = AddVoterRequest(
            id=key.id,
            uuid=key.uuid,
            endpoints=[
                EndpointModel(name="CONTROLLER", host=host, port=CONTROLLER_PORT),
                EndpointModel(name="ADMIN", host=host, port=self._pod_client.port),
            ],
            expected_offset=position.offset,
            expected_epoch=position.epoch,
            count_newcomer=count_newcomer,
            timeout_ms=CHANGE_TIMEOUT_MS,
        )
        text = body.model_dump_json(by_alias=True)
        return await self._change("POST", ip, "/v1/voters", token, text)

    async def remove_voter(self, ip: str, token: str, key: Key, position: VotersPosition) -> Answer:
        """Remove `key` from the voter set; refused if the voters have changed."""
        query = (
            f"?expectedOffset={position.offset}&expectedEpoch={position.epoch}"
            f"&timeoutMs={CHANGE_TIMEOUT_MS}"
        )
        path = f"/v1/voters/{key.id}/{key.uuid}{query}"
        return await self._change("DELETE", ip, path, token, None)

    async def resign(self, ip: str, token: str, successor_id: int) -> Answer:
        """Request the leader at `ip` to transfer leadership."""
        body = ResignRequest(successor_id=successor_id)
        text = body.model_dump_json(by_alias=True)
        return await self._change("POST", ip, "/v1/resign", token, text)

    async def _change(
        self, method: str, ip: str, path: str, token: str, body: str | None
    ) -> Answer:
        told = await call(self._pod_client, method, ip, path, token, body)
        return told if isinstance(told, Answer) else Answer(True)


async def describe_newest(nodes: QuorumClient, ips: list[str], seen: Seen) -> Described:
    """The newest description from `ips` (most promising first). An answer older than `seen` is ignored, and further
    pods are called.
    """
    told = await nodes.describe(ips)
    outdated = told.hinted_epoch is not None and told.hinted_epoch < seen.epoch
    if outdated or (told.view is not None and seen.is_older(told.view)):
        return await nodes.describe(ips, seen)
    return told


def _log(told: NodeDescription) -> HeldLog | None:
    if told.log_end_epoch is None or told.voters is None:
        return None
    return HeldLog(
        last_epoch=told.log_end_epoch,
        end_offset=told.log_end_offset,
        committed_offset=told.high_watermark,
        leader_epoch=told.leader_epoch,
        voters=frozenset(Key(each.id, each.uuid) for each in told.voters),
    )


def _certificates(told: NodeDescription) -> LoadedCertificates | None:
    """The certificates that the process reports; None without TLS."""
    tls = told.tls
    if tls is None:
        return None
    return LoadedCertificates(
        certificate=tls.certificate.sha256,
        authority=tls.issuer_sha256 or "",
        bundle=frozenset(each.sha256 for each in tls.trusted),
        problem=tls.problem or "",
        clear_text=frozenset(tls.clear_text),
    )


def _view(told: QuorumDescription) -> QuorumView:
    assert told.leader_id is not None
    return QuorumView(
        cluster_id=told.cluster_id,
        leader=Key(told.leader_id, told.leader_uuid or ""),
        epoch=told.leader_epoch,
        voters=tuple(_replica(each) for each in told.voters),
        observers=tuple(_replica(each) for each in told.observers),
        voters_offset=told.voters_position.offset,
        voters_epoch=told.voters_position.epoch,
        voters_committed=told.voters_position.committed,
        pending_change=told.pending_change,
        own_epoch_committed=told.own_epoch_committed,
        formed=told.formed,
        initial_voters=told.initial_voters,
        recovered_epoch=told.recovered_epoch,
        target_voters=None
        if told.target_voters is None
        else tuple(TargetVoter(each.id, each.uuid) for each in told.target_voters),
    )


def _replica(told: ReplicaStatus) -> ReplicaView:
    lost = told.went_back
    return ReplicaView(
        Key(told.id, told.uuid),
        told.fetching,
        told.caught_up,
        max(told.lag, 0),
        None if lost is None else (lost.acknowledged_offset, lost.offset),
    )
