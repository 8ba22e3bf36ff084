"""The Kafka listener's API: routes requests, and answers those that need no replica.

Raft RPCs go to the hosted replicas by partition; ApiVersions and DescribeCluster are answered from the state of the first partition;
config requests are in `config_api`. Must not know sockets.
"""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from quorum_node.controller.authorization import UNRESTRICTED, Rights
from quorum_node.controller.feature_levels import ANNOUNCED, KRAFT_VERSION
from quorum_node.protocol.alter_quorum import AlterQuorumRequest
from quorum_node.protocol.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeature,
    SupportedFeature,
)
from quorum_node.protocol.apis import APIS, FETCH
from quorum_node.protocol.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from quorum_node.protocol.describe import (
    ENDPOINTS_OF_CONTROLLERS,
    ClusterNode,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from quorum_node.protocol.envelope import EnvelopeRequest, EnvelopeResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.voters import AddRaftVoterRequest, RemoveRaftVoterRequest
from quorum_node.raft.description import ReplicaDescription
from quorum_node.schema.schema import Message
from quorum_node.security.rights.request_authorizer import Denial
from quorum_node.server.controller.port import ControllerPort
from quorum_node.server.listener.port import Handler, InboundRequest
from quorum_node.server.requests.config_api import ConfigApi
from quorum_node.server.requests.forwarded import ForwardedRequest, unwrap
from quorum_node.server.requests.split_request import PartitionRequests, RequestedReplica
from quorum_node.server.rights.port import Guard
from quorum_node.server.wire.alter_quorum import refuse_alter_quorum
from quorum_node.server.wire.authentication import refuse, refuses
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.partitions import METADATA_PARTITION, PartitionKey
from quorum_node.server.wire.refusals import refuse_request
from quorum_node.server.wire.voters import answer_voter_change

LONG_ANSWER_BYTES = 512
"""In bytes: a longer request may have a hundred items or more. Each takes up to 20 µs to decide on and to answer."""


class Replica(RequestedReplica, Protocol):
    """The methods of a hosted replica that are used here."""

    def describe(self) -> ReplicaDescription:
        """The state of the core now."""

    def voters_offset(self) -> int:
        """Offset of the latest voters record, -1 when there is none."""

    def now(self) -> Instant:
        """The present time on the core's clock and on the wall clock."""


class KafkaApi:
    """Answers every request of the listener.

    `guard`: checks every request first; None if nothing is ever refused. `handle`: called by the listeners.
    """

    def __init__(
        self,
        replicas: Mapping[PartitionKey, Replica],
        configs: ConfigApi,
        controller: ControllerPort,
        *,
        membership_allowed: bool,
        guard: Guard | None = None,
    ) -> None:
        self.handle: Handler = partial(self._handle, guard)
        self._main = replicas[METADATA_PARTITION]
        self._requests = PartitionRequests(replicas, self._main.now)
        self._configs = configs
        self._controller = controller
        self._membership_allowed = membership_allowed
        self._api_keys = tuple(
            ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in APIS.values()
        )

    def _handle(self, guard: Guard | None, inbound: InboundRequest) -> None:
        # Fetches of members are long if they have several partitions, and every commit waits for them.
        if inbound.size_bytes >= LONG_ANSWER_BYTES and inbound.request.api is not FETCH:
            inbound.use_thread()
        if guard is None:
            self._serve(inbound)
        else:
            self._judge(guard, inbound)

    def _judge(self, guard: Guard, inbound: InboundRequest) -> None:
        body = inbound.request.body
        if body is None:
            self._serve(inbound)
            return
        found = guard.request(inbound, body)
        if isinstance(found, Denial):
            denial = found
            inbound.reply_made(lambda: self._refused(body, denial))
        else:
            self._serve(inbound, found)

    def _refused(self, body: Message, denial: Denial) -> Message:
        if self._controller.api.serves(body):
            return self._controller.api.refuse(body, denial.error, denial.text)
        return refuse_request(body, denial.error, denial.text)

    def _serve(self, inbound: InboundRequest, rights: Rights = UNRESTRICTED) -> None:
        """Answer now, or when a replica has answered."""
        body = inbound.request.body
        controller = self._controller
        if body is not None and controller.api.serves(body):
            if isinstance(body, IncrementalAlterConfigsRequest) and controller.is_held_back:
                self._configs.alter(inbound, body, rights)
            else:
                controller.api.handle(inbound, body, rights)
            return
        match body:
            case DescribeConfigsRequest():
                self._configs.describe(inbound, body, rights)
            case EnvelopeRequest():
                self._forwarded(inbound, body)
            case None:
                inbound.reply_version(self._api_versions_too_new(), 0)
            case ApiVersionsRequest():
                inbound.reply(self._api_versions(inbound.request.version))
            case DescribeClusterRequest():
                inbound.reply(self._describe_cluster(inbound, body))
            case AddRaftVoterRequest() | RemoveRaftVoterRequest() if not self._membership_allowed:
                refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                inbound.reply(answer_voter_change(body, refusal))
            case AlterQuorumRequest() if not self._membership_allowed:
                refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                inbound.reply(refuse_alter_quorum(body, refusal))
            case _ if refuses(body):
                forwarded = isinstance(inbound, ForwardedRequest)
                inbound.reply(refuse(body, inbound.caller, forwarded=forwarded))
            case _:
                self._requests.ask(inbound, body)

    def _forwarded(self, inbound: InboundRequest, body: EnvelopeRequest) -> None:
        """A request that a broker forwards for a client."""

        def handle(found: ForwardedRequest | ErrorCode) -> None:
            if isinstance(found, ForwardedRequest):
                self.handle(found)
            else:
                inbound.reply(EnvelopeResponse(error_code=found))

        inbound.prepare(lambda: unwrap(inbound, body), handle)

    def _api_versions_too_new(self) -> ApiVersionsResponse:
        """KIP-511: answered in version 0, with the supported versions."""
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self._api_keys
        )

    def _api_versions(self, version: int) -> ApiVersionsResponse:
        # Before version 4 a feature whose range starts at 0 can't be expressed.
        supported = [
            SupportedFeature(name=name, min_version=each.min_level, max_version=each.max_level)
            for name, each in ANNOUNCED.items()
            if version >= 4 or each.min_level > 0
        ]
        finalized = [
            FinalizedFeature(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(self._controller.finalized_levels())
        ]
        epoch = self._controller.finalized_epoch()
        voters_offset = self._main.voters_offset()
        if voters_offset >= 0:
            finalized.append(
                FinalizedFeature(
                    name=KRAFT_VERSION,
                    max_version_level=ANNOUNCED[KRAFT_VERSION].max_level,
                    min_version_level=ANNOUNCED[KRAFT_VERSION].max_level,
                ),
            )
        return ApiVersionsResponse(
            error_code=0,
            api_keys=self._api_keys,
            supported_features=tuple(supported),
            finalized_features_epoch=max(epoch, voters_offset),
            finalized_features=tuple(finalized),
        )

    def _describe_cluster(
        self, inbound: InboundRequest, body: DescribeClusterRequest
    ) -> DescribeClusterResponse:
        version = inbound.request.version
        description = self._main.describe()
        # With an empty log there is no cluster yet, even if a cluster id is configured.
        cluster_id = description.cluster_id if description.log_end_offset > 0 else None
        if version < 1 or body.endpoint_type != ENDPOINTS_OF_CONTROLLERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="this is a controller listener: request controller endpoints",
                cluster_id=cluster_id or "",
                brokers=(),
            )
        nodes: dict[int, ClusterNode] = {}
        for voter in description.voters:
            # A client can use the protocol of its own listener: it gets the endpoints of the same listener on other nodes.
            endpoint = voter.endpoint(inbound.caller.listener)
            if endpoint is not None:
                nodes[voter.key.id] = ClusterNode(
                    broker_id=voter.key.id, host=endpoint.host, port=endpoint.port
                )
        return DescribeClusterResponse(
            error_code=0,
            endpoint_type=ENDPOINTS_OF_CONTROLLERS,
            cluster_id=cluster_id or "",
            controller_id=description.leader_id,
            brokers=tuple(nodes.values()),
        )
