"""The admin API of modelled nodes: what the operator and the acts are answered, as documents and over HTTP."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import httpx

from quorum_node.api import (
    AddVoterRequest,
    AlterQuorumRequest,
    ApiModel,
    CertificateModel,
    ErrorBody,
    NodeDescription,
    QuorumDescription,
    ReplicaStatus,
    ResignRequest,
    Role,
    StorageDescription,
    StorageState,
    TargetVoter,
    TlsDescription,
    VoterModel,
    VotersPosition,
)
from quorum_operator.certificates import pem
from quorum_operator.certificates.pem import Read
from support.modelled_cluster.process import Process
from support.modelled_cluster.raft import Key, ModelledQuorum

CALL_S = 0.01
HANGS_S = 5.0
_STARTED_AT = "2026-01-01T00:00:00Z"


class Done(ApiModel):
    """The answer to a change; nobody reads more than its status."""


class Answers:
    """`find`: the process that can be reached at an address; None if nobody answers. `now`: seconds since 1970."""

    def __init__(
        self,
        find: Callable[[str], Process | None],
        now: Callable[[], float],
        gate: Callable[[], Awaitable[None]],
    ) -> None:
        self._find, self._now, self._gate = find, now, gate

    async def serve(self, request: httpx.Request, trusted: tuple[Read, ...] = ()) -> httpx.Response:
        """A request of the operator; over TLS to a process whose certificate is of one of these authorities."""
        await self._gate()
        await asyncio.sleep(CALL_S)
        process = self._find(request.url.host)
        if process is None:
            raise httpx.ConnectError("nobody listens", request=request)
        if not process.serves:
            timeout = request.extensions.get("timeout") or {}
            await asyncio.sleep(min(timeout.get("read") or HANGS_S, HANGS_S))
            raise httpx.ReadTimeout("no answer in time", request=request)
        if not _is_trusted(process, request, trusted):
            raise httpx.ConnectError("certificate verify failed", request=request)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        parts = request.url.path.split("/")[2:]
        if request.method != "GET" and token != process.token:
            return _refused(ErrorBody(code="UNAUTHORIZED", message="another token"), 401)
        answer = self.call(process, request.method, parts, request.content, request.url.params)
        if answer is None:
            return httpx.Response(404, content="{}")
        if isinstance(answer, ErrorBody):
            return _refused(answer, 409)
        return httpx.Response(200, content=answer.model_dump_json(by_alias=True))

    def call(
        self,
        process: Process,
        method: str,
        parts: list[str],
        body: bytes = b"",
        query: httpx.QueryParams | None = None,
    ) -> ApiModel | None:
        """The answer; None for an unknown route."""
        quorum, key, now = process.quorum, Key(*process.key), self._now()
        refused: ErrorBody | None
        match method, parts:
            case "GET", ["node"]:
                return self.describe_node(process)
            case "GET", ["quorum"]:
                return self.describe(process)
            case "POST", ["voters"]:
                refused = quorum.add(key, AddVoterRequest.model_validate_json(body), now)
            case "DELETE", ["voters", node_id, uuid]:
                values = query or httpx.QueryParams()
                expected = (values.get("expectedOffset"), values.get("expectedEpoch"))
                offset, epoch = (None if each is None else int(each) for each in expected)
                refused = quorum.remove(key, Key(int(node_id), uuid), offset, epoch)
            case "POST", ["resign"]:
                wanted = ResignRequest.model_validate_json(body or b"{}").successor_id
                refused = quorum.resign(key, wanted)
            case "POST", ["alter-quorum"]:
                target = AlterQuorumRequest.model_validate_json(body).target_voters
                refused = quorum.alter(key, [int(each) for each in target])  # type: ignore[arg-type]
            case "DELETE", ["alter-quorum"]:
                refused = quorum.alter(key, None)
            case _:
                return None
        return refused or Done()

    def describe_node(self, process: Process) -> NodeDescription:
        """GET /v1/node."""
        quorum, key = process.quorum, Key(*process.key)
        replica = process.disk.replica
        assert replica is not None
        leader = quorum.leader if quorum.leader in quorum.contact() else None
        follows = leader is not None and key in quorum.contact()
        voter = Role.FOLLOWER if follows else Role.UNATTACHED
        role = voter if key in quorum.voters else Role.OBSERVER
        held = sorted(replica.voters)
        return NodeDescription(
            node_id=key.id,
            replica_uuid=key.uuid,
            cluster_id=replica.cluster_id,
            role=Role.LEADER if key == leader else role,
            is_voter=key in quorum.voters,
            leader_id=None if leader is None else leader.id,
            leader_epoch=quorum.epoch,
            high_watermark=min(quorum.committed, replica.end),
            log_end_offset=replica.end,
            log_start_offset=0,
            caught_up=leader is not None and quorum.has_caught_up(key),
            formed=replica.formed,
            storage=StorageDescription(state=StorageState.OK),
            started_at=_STARTED_AT,
            version="modelled",
            log_end_epoch=replica.epoch,
            voters=[VoterModel(id=each[0], uuid=each[1], endpoints=[]) for each in held],
            tls=_tls(process),
        )

    def describe(self, process: Process) -> QuorumDescription:
        """GET /v1/quorum; confirmed only on the leader."""
        quorum, key, now = process.quorum, Key(*process.key), self._now()
        replica = process.disk.replica
        assert replica is not None
        leads = quorum.leader == key and quorum.has_majority()
        leader = quorum.leader if key in quorum.contact() else None
        voters = quorum.voters if leads else [Key(*each) for each in sorted(replica.voters)]
        observers = [each for each in quorum.peers if each not in quorum.voters] if leads else []
        position = VotersPosition(
            offset=quorum.voters_offset, epoch=quorum.voters_epoch, committed=leads
        )
        targets = quorum.target if leads else None
        return QuorumDescription(
            cluster_id=replica.cluster_id,
            leader_id=None if leader is None else leader.id,
            leader_uuid=None if leader is None else leader.uuid,
            leader_epoch=quorum.epoch,
            high_watermark=quorum.committed,
            log_end_offset=replica.end,
            voters=[_status(quorum, each, now) for each in voters],
            observers=[_status(quorum, each, now) for each in observers],
            voters_position=position,
            pending_change=False,
            own_epoch_committed=leads,
            formed=replica.formed,
            initial_voters=quorum.initial_voters,
            confirmed=leads,
            node_id=key.id,
            target_voters=None
            if targets is None
            else [TargetVoter(id=each, uuid=None) for each in targets],
            recovered_epoch=quorum.recovered_epoch,
        )


def _status(quorum: ModelledQuorum, key: Key, now: float) -> ReplicaStatus:
    peer = quorum.peers.get(key)
    return ReplicaStatus(
        id=key.id,
        uuid=key.uuid,
        log_end_offset=peer.replica.end if peer is not None else 0,
        lag=0,
        fetching=quorum.fetches(key, now),
        caught_up=quorum.has_caught_up(key),
    )


def _is_trusted(process: Process, request: httpx.Request, trusted: tuple[Read, ...]) -> bool:
    secured = request.url.scheme == "https"
    if process.loaded is None or not secured:
        return process.secured == secured
    return pem.anchor_of(process.loaded.chain, trusted) is not None


def _tls(process: Process) -> TlsDescription | None:
    loaded = process.loaded
    if not process.secured or loaded is None:
        return None
    signer = pem.anchor_of(loaded.chain, loaded.bundle)
    return TlsDescription(
        certificate=_certificate(loaded.certificate),
        issuer_sha256=signer.fingerprint if signer is not None else None,
        trusted=[_certificate(each) for each in loaded.bundle],
        trust_sha256="",
    )


def _certificate(found: Read) -> CertificateModel:
    return CertificateModel(
        subject=found.common_name,
        serial="",
        sha256=found.fingerprint,
        not_before=_STARTED_AT,
        not_after=_STARTED_AT,
    )


def _refused(error: ErrorBody, status: int) -> httpx.Response:
    return httpx.Response(status, content=error.model_dump_json(by_alias=True))


def document_of(answer: ApiModel) -> dict[str, object]:
    found: dict[str, object] = json.loads(answer.model_dump_json(by_alias=True))
    return found
