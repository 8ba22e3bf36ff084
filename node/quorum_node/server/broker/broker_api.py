"""What a broker's listeners answer: which request goes where.

Owns the table of what is served here, and the small APIs that need one line. What only the active controller decides is passed
on to it. Knows no sockets.
"""

from collections.abc import Mapping

from quorum_node.controller.config_descriptions import Asked, describe
from quorum_node.controller.problem import Problem
from quorum_node.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from quorum_node.protocol.api_versions import ApiVersionsRequest
from quorum_node.protocol.broker_apis import FORWARDED
from quorum_node.protocol.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from quorum_node.protocol.delete_records import DeleteRecordsRequest
from quorum_node.protocol.describe import DescribeClusterRequest
from quorum_node.protocol.describe_client_quotas import DescribeClientQuotasRequest
from quorum_node.protocol.describe_log_dirs import DescribeLogDirsRequest
from quorum_node.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import FetchRequest
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest
from quorum_node.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from quorum_node.protocol.list_offsets import ListOffsetsRequest
from quorum_node.protocol.metadata import MetadataRequest
from quorum_node.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from quorum_node.protocol.produce import ProduceRequest
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.coordinator_lookup import CoordinatorLookup
from quorum_node.server.broker.data_log import DataDirectory
from quorum_node.server.broker.delete_records_api import DeleteRecordsApi
from quorum_node.server.broker.fetch_api import FetchApi
from quorum_node.server.broker.forwarding import Forwarding
from quorum_node.server.broker.group_api import GroupApi
from quorum_node.server.broker.log_dirs_api import LogDirsApi
from quorum_node.server.broker.metadata_api import MetadataApi
from quorum_node.server.broker.offsets_api import OffsetsApi
from quorum_node.server.broker.produce_api import ProduceApi
from quorum_node.server.broker.producer_ids import ProducerIds
from quorum_node.server.broker.quotas_api import describe_quotas
from quorum_node.server.listener.port import InboundRequest


class BrokerApi:
    """`handle` is what listeners call. `static`: defaults of topics that the process was started with."""

    def __init__(
        self,
        broker_id: int,
        replicas: AssignedReplicas,
        metadata: MetadataApi,
        forwarding: Forwarding,
        producer_ids: ProducerIds,
        static: Mapping[str, str],
        directory: DataDirectory,
        coordinators: CoordinatorLookup,
        groups: GroupApi,
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._metadata = metadata
        self._forwarding = forwarding
        self._producer_ids = producer_ids
        self._static = static
        self._coordinators = coordinators
        self._groups = groups
        self._produce = ProduceApi(replicas, metadata.endpoint_to)
        self._fetch = FetchApi(replicas, metadata.endpoint_to)
        self._offsets = OffsetsApi(replicas)
        self._deletions = DeleteRecordsApi(replicas)
        self._log_dirs = LogDirsApi(replicas, directory)

    def handle(self, inbound: InboundRequest) -> None:
        """Answer now or later."""
        body = inbound.request.body
        match body:
            case ProduceRequest():
                self._produce.handle(inbound, body)
            case FetchRequest():
                self._fetch.handle(inbound, body)
            case MetadataRequest():
                self._metadata.metadata(inbound, body)
            case DescribeTopicPartitionsRequest():
                self._metadata.topic_partitions(inbound, body)
            case ListOffsetsRequest():
                self._offsets.list(inbound, body)
            case OffsetForLeaderEpochRequest():
                self._offsets.epoch_ends(inbound, body)
            case InitProducerIdRequest():
                inbound.reply(self._init_producer_id(body))
            case FindCoordinatorRequest():
                self._coordinators.find(inbound, body)
            case DeleteRecordsRequest():
                self._deletions.handle(inbound, body)
            case DescribeLogDirsRequest():
                inbound.reply(self._log_dirs.describe(body))
            case AlterReplicaLogDirsRequest():
                inbound.reply(self._log_dirs.alter(body))
            case DescribeClientQuotasRequest():
                inbound.reply(describe_quotas(self._replicas.image.client_quotas, body))
            case DescribeConfigsRequest():
                self._describe_configs(inbound, body)
            case None:
                inbound.reply_version(self._metadata.api_versions_too_new(), 0)
            case ApiVersionsRequest():
                inbound.reply(self._metadata.api_versions())
            case DescribeClusterRequest():
                self._metadata.describe_cluster(inbound, body)
            case _:
                if not self._groups.handle(inbound, body):
                    assert inbound.request.api.key in FORWARDED, "the listener's table has no other"
                    self._forwarding.forward(inbound, body)

    def _init_producer_id(self, body: InitProducerIdRequest) -> InitProducerIdResponse:
        if body.transactional_id is not None:
            return InitProducerIdResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        producer_id = self._producer_ids.take()
        if producer_id is None:
            # Clients ask again; meanwhile the block comes.
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)

    def _describe_configs(self, inbound: InboundRequest, body: DescribeConfigsRequest) -> None:
        results = tuple(
            self._describe_one(each, synonyms=body.include_synonyms) for each in body.resources
        )
        inbound.reply(DescribeConfigsResponse(results=results))

    def _describe_one(
        self, resource: DescribeConfigsResource, *, synonyms: bool
    ) -> DescribeConfigsResult:
        kind, name = resource.resource_type, resource.resource_name
        asked = Asked(kind, name, frozenset(resource.configuration_keys or ()), synonyms)
        found = describe(self._replicas.image, self._broker_id, self._static, asked)
        return DescribeConfigsResult(
            error_code=found.code if isinstance(found, Problem) else ErrorCode.NONE,
            error_message=found.text if isinstance(found, Problem) else None,
            resource_type=kind,
            resource_name=name,
            configs=() if isinstance(found, Problem) else found,
        )
