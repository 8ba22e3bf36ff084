"""Dispatches each request on a broker's listeners to its handler.

Owns the table of the APIs served here, and the handlers of short APIs. Requests that only the active controller can decide are
forwarded to it. Does not use sockets.
"""

from collections.abc import Callable, Iterator, Mapping

from quorum_node.broker.batch import NO_PRODUCER
from quorum_node.controller.acls import described_acls
from quorum_node.controller.authorization import UNRESTRICTED, ListedRights, Rights
from quorum_node.controller.described_configs import describe_configs
from quorum_node.controller.scram import described_credentials
from quorum_node.protocol.acls import DescribeAclsRequest
from quorum_node.protocol.alter_configs import AlterConfigsRequest
from quorum_node.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from quorum_node.protocol.api_versions import ApiVersionsRequest
from quorum_node.protocol.broker_apis import FORWARDED
from quorum_node.protocol.configs import (
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from quorum_node.protocol.delete_records import DeleteRecordsRequest
from quorum_node.protocol.describe import DescribeClusterRequest
from quorum_node.protocol.describe_client_quotas import DescribeClientQuotasRequest
from quorum_node.protocol.describe_log_dirs import DescribeLogDirsRequest
from quorum_node.protocol.describe_producers import DescribeProducersRequest
from quorum_node.protocol.describe_topic_partitions import DescribeTopicPartitionsRequest
from quorum_node.protocol.describe_transactions import DescribeTransactionsRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import FetchRequest
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest
from quorum_node.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from quorum_node.protocol.list_offsets import ListOffsetsRequest
from quorum_node.protocol.list_transactions import ListTransactionsRequest
from quorum_node.protocol.metadata import MetadataRequest
from quorum_node.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from quorum_node.protocol.produce import ProduceRequest
from quorum_node.protocol.scram import DescribeUserScramCredentialsRequest
from quorum_node.schema.schema import Message
from quorum_node.security.acl_terms import AclOperation, AclResource
from quorum_node.security.rights.request_authorizer import Denial
from quorum_node.server.broker import config_checks, group_rights
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.coordinator_lookup import CoordinatorLookup
from quorum_node.server.broker.data_directories import DataDirectories
from quorum_node.server.broker.delete_records_api import DeleteRecordsApi
from quorum_node.server.broker.fetch_api import FetchApi
from quorum_node.server.broker.forwarding import Forwarding
from quorum_node.server.broker.group_api import GroupApi
from quorum_node.server.broker.log_dirs_api import LogDirsApi
from quorum_node.server.broker.metadata_api import MetadataApi
from quorum_node.server.broker.offsets_api import OffsetsApi
from quorum_node.server.broker.produce_api import ProduceApi
from quorum_node.server.broker.producer_ids import ProducerIds
from quorum_node.server.broker.producers_api import describe_producers
from quorum_node.server.broker.quotas_api import describe_quotas
from quorum_node.server.broker.refusals import refuse
from quorum_node.server.broker.topic_lookup import May, anything, on_topics
from quorum_node.server.broker.transaction_verification import TransactionVerification
from quorum_node.server.broker.transactions_api import describe_transactions, list_transactions
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.rights.port import Guard
from quorum_node.server.wire import authentication

_NO_EPOCH = -1


class BrokerApi:
    """The request handler of the listeners. `static`: topic defaults from the process's configuration."""

    def __init__(
        self,
        broker_id: int,
        replicas: AssignedReplicas,
        metadata: MetadataApi,
        forwarding: Forwarding,
        producer_ids: ProducerIds,
        static: Mapping[str, str],
        directories: DataDirectories,
        coordinators: CoordinatorLookup,
        groups: GroupApi,
        verification: TransactionVerification,
        guard: Guard | None = None,
    ) -> None:
        self._guard = guard
        self._broker_id = broker_id
        self._replicas = replicas
        self._metadata = metadata
        self._forwarding = forwarding
        self._producer_ids = producer_ids
        self._static = static
        self._coordinators = coordinators
        self._groups = groups
        self._produce = ProduceApi(replicas, metadata.endpoint_to, verification)
        self._fetch = FetchApi(replicas, metadata.endpoint_to)
        self._offsets = OffsetsApi(replicas)
        self._deletions = DeleteRecordsApi(replicas)
        self._log_dirs = LogDirsApi(replicas, directories)

    def close(self) -> None:
        """Stop appending batches."""
        self._produce.close()

    def handle(self, inbound: InboundRequest) -> None:
        """Authorize and answer the request, now or later."""
        body, guard = inbound.request.body, self._guard
        if guard is None or body is None:
            self._serve(inbound, body, UNRESTRICTED)
            return
        found = guard.request(inbound, body)
        if not isinstance(found, Denial):
            refusal = group_rights.refusal_of(body, inbound.request.version, found)
            if refusal is not None:
                inbound.reply_made(refusal)
            else:
                self._serve(inbound, body, found)
        elif isinstance(body, ProduceRequest) and not body.acks:
            inbound.leave_unanswered(failed=True)
        else:
            denial = found
            inbound.reply_made(lambda: refuse(body, denial.error, denial.text))

    def _serve(self, inbound: InboundRequest, body: Message | None, rights: ListedRights) -> None:
        match body:
            case ProduceRequest():
                self._produce.handle(
                    inbound,
                    body,
                    on_topics(rights, AclOperation.WRITE),
                    may_transact=body.transactional_id is None
                    or rights.allows(
                        AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, body.transactional_id
                    ),
                )
            case FetchRequest() if body.fetcher_id < 0:
                self._fetch.handle(inbound, body, on_topics(rights, AclOperation.READ))
            case FetchRequest():
                self._fetch.handle(inbound, body)
            case MetadataRequest():
                self._metadata.metadata(inbound, body, rights)
            case DescribeTopicPartitionsRequest():
                self._metadata.topic_partitions(inbound, body, rights)
            case ListOffsetsRequest():
                self._offsets.list(inbound, body, on_topics(rights, AclOperation.DESCRIBE))
            case OffsetForLeaderEpochRequest():
                self._offsets.epoch_ends(inbound, body, _of_replicas_and_readers(rights))
            case InitProducerIdRequest():
                inbound.reply(self._init_producer_id(body, rights))
            case FindCoordinatorRequest():
                self._coordinators.find(inbound, body, rights)
            case DeleteRecordsRequest():
                self._deletions.handle(inbound, body, on_topics(rights, AclOperation.DELETE))
            case DescribeProducersRequest():
                may = on_topics(rights, AclOperation.READ)
                describe_producers(self._replicas, inbound, body, may)
            case ListTransactionsRequest():
                inbound.reply_made(lambda: list_transactions(body))
            case DescribeTransactionsRequest():
                inbound.reply_made(lambda: describe_transactions(body, rights))
            case DescribeLogDirsRequest():
                self._log_dirs.describe(inbound, body)
            case AlterReplicaLogDirsRequest():
                self._log_dirs.alter(inbound, body)
            case DescribeClientQuotasRequest():
                quotas = self._replicas.image.client_quotas
                _describe(inbound, lambda: describe_quotas(quotas, body))
            case DescribeAclsRequest():
                image, is_on = self._replicas.image, self._guard is not None and self._guard.is_on
                _describe(inbound, lambda: described_acls(image, body, has_authorizer=is_on))
            case DescribeUserScramCredentialsRequest():
                image = self._replicas.image
                _describe(inbound, lambda: described_credentials(image, body))
            case DescribeConfigsRequest():
                image, caller = self._replicas.image, inbound.caller
                broker_id, static = self._broker_id, self._static
                _describe(
                    inbound,
                    lambda: describe_configs(image, broker_id, static, body, caller, rights),
                )
            case None:
                inbound.reply_version(self._metadata.api_versions_too_new(), 0)
            case ApiVersionsRequest():
                inbound.reply(self._metadata.api_versions(body, inbound.request.version))
            case DescribeClusterRequest():
                self._metadata.describe_cluster(inbound, body, rights)
            case _ if authentication.refuses(body):
                inbound.reply(authentication.refuse(body, inbound.caller, forwarded=False))
            case _:
                if not self._groups.handle(inbound, body, rights):
                    assert inbound.request.api.key in FORWARDED, "the listener's table has no other"
                    self._forward(inbound, body)

    def _forward(self, inbound: InboundRequest, body: Message) -> None:
        if isinstance(body, IncrementalAlterConfigsRequest | AlterConfigsRequest):
            inbound.in_pieces(self._alter_configs(inbound, body))
        else:
            self._forwarding.forward(inbound, body)

    def _alter_configs(
        self, inbound: InboundRequest, body: config_checks.Request
    ) -> Iterator[None]:
        refused = yield from config_checks.refusals(self._broker_id, body)
        if not refused:
            self._forwarding.forward(inbound, body)
        elif len(refused) == len(body.resources):
            inbound.reply_made(lambda: config_checks.joined(body, refused, None))
        else:
            part = config_checks.without(body, refused)
            self._forwarding.forward(
                inbound, part, lambda answer: config_checks.joined(body, refused, answer)
            )

    def _init_producer_id(
        self, body: InitProducerIdRequest, rights: ListedRights
    ) -> InitProducerIdResponse:
        transactional_id = body.transactional_id
        if transactional_id is None and not _may_produce(rights):
            return InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if transactional_id is not None and not rights.allows(
            AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, transactional_id
        ):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return InitProducerIdResponse(error_code=error)
        if transactional_id:
            return InitProducerIdResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        has_half = (body.producer_id == NO_PRODUCER) != (body.producer_epoch == _NO_EPOCH)
        if has_half or body.transactional_id is not None:
            return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST)
        producer_id = self._producer_ids.take()
        if producer_id is None:
            # The client retries; the requested block arrives meanwhile.
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)


def _describe(inbound: InboundRequest, make: Callable[[], Message]) -> None:
    """Describe a part of the image on the thread: a few bytes of a request ask for any number of entries."""
    inbound.use_thread()
    inbound.reply_made(make)


def _may_produce(rights: ListedRights) -> bool:
    """Whether the principal may use a producer id: it has IDEMPOTENT_WRITE, or may write to some topic, which need not exist."""
    return rights.allows(AclOperation.IDEMPOTENT_WRITE, AclResource.CLUSTER) or rights.allows_any(
        AclOperation.WRITE, AclResource.TOPIC
    )


def _of_replicas_and_readers(rights: Rights) -> May:
    """The topics that OffsetForLeaderEpoch may read: all for brokers (CLUSTER_ACTION), else those with the right DESCRIBE."""
    if rights.allows(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER):
        return anything
    return on_topics(rights, AclOperation.DESCRIBE)
