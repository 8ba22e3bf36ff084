"""Metadata, DescribeCluster and ApiVersions of a broker, answered from the committed image.

Owns the translation of the image into answers, and the choice of a broker's endpoint: that of the listener which the client uses.
Source: the rules of a stock broker for Metadata 0 to 13; KIP-516, KIP-700, KIP-1073 (fenced brokers).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from quorum_node.controller.authorization import (
    UNRESTRICTED,
    AclOperation,
    AclResource,
    ListedRights,
)
from quorum_node.controller.feature_levels import ANNOUNCED, KRAFT_VERSION
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.topics import Topic
from quorum_node.protocol.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeature,
    SupportedFeature,
)
from quorum_node.protocol.broker_apis import BROKER_APIS, FIRST_ANNOUNCED
from quorum_node.protocol.describe import (
    ENDPOINTS_OF_BROKERS,
    ENDPOINTS_OF_CONTROLLERS,
    NO_AUTHORIZED_OPERATIONS,
    ClusterNode,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from quorum_node.protocol.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
)
from quorum_node.server.broker.authorized_operations import (
    authorized_operations,
    operations_on_cluster,
)
from quorum_node.server.broker.internal_topics import INTERNAL_TOPICS
from quorum_node.server.broker.live_replicas import offline_replicas
from quorum_node.server.broker.topic_lookup import May, missing_topic, on_topics
from quorum_node.server.broker.topic_partitions_api import describe_topic_partitions
from quorum_node.server.listener.port import InboundRequest

_NO_LEADER = _NO_CONTROLLER = -1
_TOPIC_IDS_SINCE = 12
"""First version in which a topic may be named by its id, and a name may be null, as in a stock broker."""
_LISTENER_ERRORS_SINCE = 6
"""First version in which a client understands LISTENER_NOT_FOUND."""
_ALL_REPLICAS_SINCE = 1
"""First version in which replicas are named that the client can't reach."""
_SOFTWARE_SINCE = 3
"""First version of ApiVersions in which a client names its software."""
_SOFTWARE = re.compile("[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
_ZERO_SINCE = 4
"""First version of ApiVersions with features whose levels begin at 0. Older Java clients can't read one (KAFKA-17492)."""
_MANY = 100
"""Topics or partitions from which Metadata is answered on the thread: each takes up to 10 µs."""

Endpoint = tuple[str, int, str | None]
"""Host, port, rack."""
MayLead = Callable[[UUID, int], bool]


@dataclass(frozen=True, slots=True)
class _Leaders:
    """Which leaders a client can use. `live`: the brokers on its listener that are not fenced. The others as of `MetadataApi`.

    `elsewhere`: the brokers that are not fenced and lack its listener; empty for a client too old for LISTENER_NOT_FOUND.
    `names_all`: whether the client is told of replicas that it can't reach.
    """

    live: set[int]
    elsewhere: set[int]
    broker_id: int
    may_lead: MayLead
    names_all: bool

    def named(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        """Those of these replicas that the client is told of."""
        if self.names_all:
            return replicas
        return tuple(each for each in replicas if each in self.live)

    def refusal(self, topic: Topic, number: int) -> ErrorCode:
        """Why the leader of this partition can't be used, or NONE."""
        leader = topic.partitions[number].leader
        if leader in self.elsewhere:
            return ErrorCode.LISTENER_NOT_FOUND
        if leader not in self.live:
            return ErrorCode.LEADER_NOT_AVAILABLE
        if leader == self.broker_id and not self.may_lead(topic.topic_id, number):
            return ErrorCode.LEADER_NOT_AVAILABLE
        return ErrorCode.NONE


class MetadataApi:
    """The handler of these APIs. `image` and `epoch`: the image that the replicas of this broker have applied, and its offset.

    `may_lead`: see `AssignedReplicas`. A client that came too early would get an error; with acks=0, its records would be lost.
    """

    def __init__(
        self,
        broker_id: int,
        image: Callable[[], ClusterImage],
        cluster_id: Callable[[], str],
        epoch: Callable[[], int],
        may_lead: MayLead = lambda topic_id, partition_id: True,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._cluster_id = cluster_id
        self._epoch = epoch
        self._may_lead = may_lead
        self._api_keys = tuple(
            ApiVersion(
                api_key=api.key,
                min_version=FIRST_ANNOUNCED.get(api.key, api.min_version),
                max_version=api.max_version,
            )
            for api in BROKER_APIS.values()
        )

    def endpoint_to(self, broker_id: int, listener: str) -> Endpoint | None:
        """The endpoint of a live broker for clients of the listener with this name."""
        broker = self._image().brokers.get(broker_id)
        if broker is None or broker.fenced:
            return None
        for each in broker.end_points:
            if each.name == listener:
                return each.host, each.port, broker.rack
        return None

    def api_versions(self, body: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """The answer to ApiVersions: the APIs of this listener, and the levels of features."""
        if version >= _SOFTWARE_SINCE and not _is_valid(body):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
        levels = self._image().features.levels
        return ApiVersionsResponse(
            error_code=0,
            api_keys=self._api_keys,
            supported_features=tuple(
                SupportedFeature(
                    name=name, min_version=levels.min_level, max_version=levels.max_level
                )
                for name, levels in ANNOUNCED.items()
                if levels.min_level > 0 or (version >= _ZERO_SINCE and name != KRAFT_VERSION)
            ),
            finalized_features_epoch=self._epoch(),
            finalized_features=tuple(
                FinalizedFeature(name=name, max_version_level=level, min_version_level=level)
                for name, level in sorted(levels.items())
                if level
            ),
        )

    def api_versions_too_new(self) -> ApiVersionsResponse:
        """The answer to an ApiVersions request in an unsupported version: UNSUPPORTED_VERSION and the supported versions (KIP-511)."""
        error = ErrorCode.UNSUPPORTED_VERSION
        return ApiVersionsResponse(error_code=error, api_keys=self._api_keys)

    def describe_cluster(
        self,
        inbound: InboundRequest,
        body: DescribeClusterRequest,
        rights: ListedRights = UNRESTRICTED,
    ) -> None:
        """Answer DescribeCluster for brokers; requests for controllers have to be sent to controllers."""
        version, cluster_id = inbound.request.version, self._cluster_id()
        if version >= 1 and body.endpoint_type != ENDPOINTS_OF_BROKERS:
            is_known = body.endpoint_type == ENDPOINTS_OF_CONTROLLERS
            inbound.reply(
                DescribeClusterResponse(
                    error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
                    if is_known
                    else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                    error_message="this is a listener of brokers: send the request for controllers to a controller"
                    if is_known
                    else f"there are no endpoints of type {body.endpoint_type}",
                    cluster_id=cluster_id,
                    brokers=(),
                )
            )
            return
        brokers = tuple(
            ClusterNode(broker_id=broker_id, host=host, port=port, rack=rack, is_fenced=is_fenced)
            for broker_id, (host, port, rack), is_fenced in _brokers(
                self._image(), inbound.caller.listener
            )
            if not is_fenced or body.include_fenced_brokers
        )
        inbound.reply(
            DescribeClusterResponse(
                error_code=0,
                endpoint_type=ENDPOINTS_OF_BROKERS,
                cluster_id=cluster_id,
                controller_id=self._broker_id
                if any(each.broker_id == self._broker_id for each in brokers)
                else _NO_CONTROLLER,
                brokers=brokers,
                cluster_authorized_operations=operations_on_cluster(rights)
                if body.include_cluster_authorized_operations
                else NO_AUTHORIZED_OPERATIONS,
            )
        )

    def metadata(
        self, inbound: InboundRequest, body: MetadataRequest, rights: ListedRights = UNRESTRICTED
    ) -> None:
        """Answer Metadata, on the thread if there is much to describe. Each topic needs DESCRIBE; of all topics, the others are left out."""
        image, version = self._image(), inbound.request.version
        everything = body.topics is None or (not body.topics and version == 0)
        if _is_much(image, None if everything else body.topics):
            inbound.use_thread()
        listener, cluster_id = inbound.caller.listener, self._cluster_id()

        def description() -> MetadataResponse:
            brokers = tuple(
                MetadataBroker(node_id=broker_id, host=host, port=port, rack=rack)
                for broker_id, (host, port, rack), is_fenced in _brokers(image, listener)
                if not is_fenced
            )
            live = {each.node_id for each in brokers}
            elsewhere = _not_fenced(image) - live if version >= _LISTENER_ERRORS_SINCE else set()
            names_all = version >= _ALL_REPLICAS_SINCE
            leaders = _Leaders(live, elsewhere, self._broker_id, self._may_lead, names_all)
            may = on_topics(rights, AclOperation.DESCRIBE)
            topics = _topics(image, body, version, leaders, may)
            return MetadataResponse(
                brokers=brokers,
                cluster_id=cluster_id,
                controller_id=self._broker_id,
                topics=topics
                if not body.include_topic_authorized_operations
                else tuple(_with_operations(each, rights) for each in topics),
                cluster_authorized_operations=operations_on_cluster(rights)
                if body.include_cluster_authorized_operations
                else NO_AUTHORIZED_OPERATIONS,
            )

        inbound.reply_made(description)

    def topic_partitions(
        self,
        inbound: InboundRequest,
        body: DescribeTopicPartitionsRequest,
        rights: ListedRights = UNRESTRICTED,
    ) -> None:
        """Answer DescribeTopicPartitions, on the thread: all topics are sorted, and those before the page checked as well."""
        image, listener = self._image(), inbound.caller.listener
        inbound.use_thread()

        def description() -> DescribeTopicPartitionsResponse:
            brokers = _brokers(image, listener)
            live = frozenset(broker_id for broker_id, _, is_fenced in brokers if not is_fenced)
            return describe_topic_partitions(image, live, body, rights)

        inbound.reply_made(description)


def _is_valid(body: ApiVersionsRequest) -> bool:
    """Whether the client names its software as KIP-511 requires it."""
    named = (body.client_software_name, body.client_software_version)
    return all(_SOFTWARE.fullmatch(each) for each in named)


def _brokers(image: ClusterImage, listener: str) -> Iterator[tuple[int, Endpoint, bool]]:
    by_id = image.brokers.by_id
    for broker_id in sorted(by_id):
        broker = by_id[broker_id]
        for each in broker.end_points:
            if each.name == listener:
                yield broker_id, (each.host, each.port, broker.rack), broker.fenced


def _not_fenced(image: ClusterImage) -> set[int]:
    return {broker_id for broker_id, broker in image.brokers.by_id.items() if not broker.fenced}


def _is_much(image: ClusterImage, asked: tuple[MetadataRequestTopic, ...] | None) -> bool:
    """Whether there is much to describe. `asked`: None for all topics."""
    if asked is None:
        return image.topics.partition_count >= _MANY
    if len(asked) >= _MANY:
        return True
    topics = (
        image.topics.named(each.name)
        if each.name is not None
        else image.topics.get(each.topic_id or UUID(int=0))
        for each in asked
    )
    return sum(len(topic.partitions) for topic in topics if topic is not None) >= _MANY


def _topics(
    image: ClusterImage, body: MetadataRequest, version: int, leaders: _Leaders, may: May
) -> tuple[MetadataTopic, ...]:
    if body.topics is None or (not body.topics and version == 0):
        return tuple(_described(image, topic, leaders) for topic in image.topics if may(topic.name))
    # Repeated topics are dropped: a topic of many partitions, repeated thousands of times, would fill the memory.
    # If a topic has a name, its id is ignored: thousands of ids with one name would cause as many answers.
    asked = {each.topic_id if each.name is None else each.name: each for each in body.topics}
    if version < _TOPIC_IDS_SINCE and any(
        each.name is None or each.topic_id is not None for each in body.topics
    ):
        return tuple(map(_refused, asked.values()))
    return tuple(_asked(image, each, leaders, may) for each in asked.values())


def _refused(asked: MetadataRequestTopic) -> MetadataTopic:
    """The refusal of a topic, if a request names topics by id in a version that does not support ids."""
    return MetadataTopic(
        error_code=ErrorCode.INVALID_REQUEST,
        name=asked.name or "",
        topic_id=asked.topic_id,
        partitions=(),
    )


def _asked(
    image: ClusterImage, asked: MetadataRequestTopic, leaders: _Leaders, may: May
) -> MetadataTopic:
    by_name = asked.name is not None
    topic = (
        image.topics.named(asked.name or "")
        if by_name
        else image.topics.get(asked.topic_id or UUID(int=0))
    )
    if not may(asked.name or "" if topic is None else topic.name):
        # A caller without the right, who requested a topic by id, must not learn the name.
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if by_name or topic is not None:
            return MetadataTopic(
                error_code=denied, name=asked.name, topic_id=asked.topic_id, partitions=()
            )
    if topic is not None:
        return _described(image, topic, leaders)
    # Topics are not created automatically: that is the administrator's decision.
    return MetadataTopic(
        error_code=missing_topic(asked.name) if by_name else ErrorCode.UNKNOWN_TOPIC_ID,
        name=asked.name,
        topic_id=asked.topic_id,
        is_internal=asked.name in INTERNAL_TOPICS,
        partitions=(),
    )


_WITHOUT_OPERATIONS = frozenset(
    {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_REQUEST}
)


def _with_operations(topic: MetadataTopic, rights: ListedRights) -> MetadataTopic:
    """Also for a topic that does not exist: its name can have access control entries."""
    if topic.error_code in _WITHOUT_OPERATIONS or topic.name is None:
        return topic
    operations = authorized_operations(rights, AclResource.TOPIC, topic.name)
    return replace(topic, topic_authorized_operations=operations)


def _described(image: ClusterImage, topic: Topic, leaders: _Leaders) -> MetadataTopic:
    partitions = []
    for number in sorted(topic.partitions):
        partition = topic.partitions[number]
        error = leaders.refusal(topic, number)
        replicas, isr = leaders.named(partition.replicas), leaders.named(partition.isr)
        leader = partition.leader if error == ErrorCode.NONE else _NO_LEADER
        if error == ErrorCode.NONE and len(replicas) < len(partition.replicas):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        partitions.append(
            MetadataPartition(
                error_code=error,
                partition_index=number,
                leader_id=leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=replicas,
                isr_nodes=isr,
                offline_replicas=offline_replicas(image.brokers, partition, leaders.live),
            )
        )
    return MetadataTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(partitions),
    )
