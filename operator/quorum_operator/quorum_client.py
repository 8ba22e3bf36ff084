"""Client of the node's admin HTTP API.

Owns which node is called in which order. The documents are defined in `quorum_node.api`; `admin_call.py` makes a single
call. Pods are called by their IP from Kubernetes. The leader's URL reported by a node is never used, because the token
is sent with the call. A node that is not the leader refuses requests for the leader. Expected failures (no leader, a
refused change, a failed pod) are values, never exceptions.
"""

import asyncio
from dataclasses import dataclass

import httpx

from quorum_node.api import (
    MAX_VOTERS,
    AddVoterRequest,
    EndpointModel,
    NodeDescription,
    QuorumDescription,
    ReplicaStatus,
    ResignRequest,
)
from quorum_operator.admin_call import CHANGE_TIMEOUT_MS, Answer, call, document, limit
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
            description = document(NodeDescription, answer)
        except (httpx.HTTPError, ValueError):
            return None
        if description.node_id != node_id or len(description.voters or ()) > MAX_VOTERS:
            return None
        return NodeReport(
            uuid=description.replica_uuid,
            cluster_id=description.cluster_id,
            role=description.role.value,
            formed=description.formed,
            caught_up=description.caught_up,
            storage=description.storage.state.value,
            storage_detail=description.storage.detail,
            log=_log(description),
            certificates=_certificates(description),
        )

    async def describe(self, ips: list[str], seen: Seen = Seen()) -> Described:
        """Call one pod after the other until one returns a confirmed view. `ips`: most promising first."""
        hinted: frozenset[Key] | None = None
        hinted_epoch: int | None = None
        older: QuorumView | None = None
        try:
            async with self._describing, asyncio.timeout(DESCRIBE_BUDGET_S):
                for ip in ips:
                    description = await self._describe(ip, confirmed=True)
                    if (
                        description is None
                        or not description.confirmed
                        or description.leader_id is None
                    ):
                        continue
                    view = _view(description)
                    if not seen.is_older(view):
                        return Described(view, None, older)
                    older = view
                for ip in ips:
                    description = await self._describe(ip, confirmed=False)
                    if (
                        description is not None
                        and description.voters
                        and description.leader_epoch >= seen.epoch
                    ):
                        hinted = frozenset(Key(each.id, each.uuid) for each in description.voters)
                        hinted_epoch = description.leader_epoch
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
            description = document(QuorumDescription, answer)
        except (httpx.HTTPError, ValueError):
            return None
        return description if len(description.voters) <= MAX_VOTERS else None

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
        answer = await call(self._pod_client, method, ip, path, token, body)
        return answer if isinstance(answer, Answer) else Answer(True)


async def describe_newest(nodes: QuorumClient, ips: list[str], seen: Seen) -> Described:
    """The newest description from `ips` (most promising first). An answer older than `seen` is ignored, and further
    pods are called.
    """
    described = await nodes.describe(ips)
    outdated = described.hinted_epoch is not None and described.hinted_epoch < seen.epoch
    if outdated or (described.view is not None and seen.is_older(described.view)):
        return await nodes.describe(ips, seen)
    return described


def _log(description: NodeDescription) -> HeldLog | None:
    if description.log_end_epoch is None or description.voters is None:
        return None
    return HeldLog(
        last_epoch=description.log_end_epoch,
        end_offset=description.log_end_offset,
        committed_offset=description.high_watermark,
        leader_epoch=description.leader_epoch,
        voters=frozenset(Key(each.id, each.uuid) for each in description.voters),
    )


def _certificates(description: NodeDescription) -> LoadedCertificates | None:
    """The certificates that the process reports; None without TLS."""
    tls = description.tls
    if tls is None:
        return None
    return LoadedCertificates(
        certificate=tls.certificate.sha256,
        authority=tls.issuer_sha256 or "",
        bundle=frozenset(each.sha256 for each in tls.trusted),
        problem=tls.problem or "",
        clear_text=frozenset(tls.clear_text),
    )


def _view(description: QuorumDescription) -> QuorumView:
    assert description.leader_id is not None
    return QuorumView(
        cluster_id=description.cluster_id,
        leader=Key(description.leader_id, description.leader_uuid or ""),
        epoch=description.leader_epoch,
        voters=tuple(_replica(each) for each in description.voters),
        observers=tuple(_replica(each) for each in description.observers),
        voters_offset=description.voters_position.offset,
        voters_epoch=description.voters_position.epoch,
        voters_committed=description.voters_position.committed,
        pending_change=description.pending_change,
        own_epoch_committed=description.own_epoch_committed,
        formed=description.formed,
        initial_voters=description.initial_voters,
        recovered_epoch=description.recovered_epoch,
        target_voters=None
        if description.target_voters is None
        else tuple(TargetVoter(each.id, each.uuid) for each in description.target_voters),
    )


def _replica(replica: ReplicaStatus) -> ReplicaView:
    lost = replica.went_back
    return ReplicaView(
        Key(replica.id, replica.uuid),
        replica.fetching,
        replica.caught_up,
        max(replica.lag, 0),
        None if lost is None else (lost.acknowledged_offset, lost.offset),
        replica.damaged_from,
    )
