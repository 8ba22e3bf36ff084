"""IncrementalAlterConfigs and DescribeConfigs on the Kafka listener.

Writes are answered by the leader after their commit. Reads are linearizable, and answered on every replica from its own state. A stock
AdminClient works with the quorum. Must not know sockets or elections.
"""

from quorum_node.controller.authorization import AclOperation, Caller, Rights
from quorum_node.controller.config_descriptions import Asked, describe
from quorum_node.controller.config_rights import config_refused
from quorum_node.controller.configs import cleared_eligible_replicas
from quorum_node.controller.described_room import DescribedRoom, Found
from quorum_node.controller.problem import Problem
from quorum_node.controller.view import Settings
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.configs import (
    AlterConfigsResource,
    AlterConfigsResult,
    ConfigOperation,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.errors import RaftError
from quorum_node.records.metadata import ConfigRecord, encode_metadata
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.partition.port import AppendOutcome, Committed, HostedPartition, TooLarge
from quorum_node.server.wire.errors import controller_error


class ConfigApi:
    """Reads and writes of config values for Kafka's clients."""

    def __init__(self, replica: HostedPartition, node_id: int, settings: Settings) -> None:
        self._replica = replica
        self._reads = replica.reads
        self._node_id = node_id
        self._settings = settings

    def alter(
        self, inbound: InboundRequest, body: IncrementalAlterConfigsRequest, rights: Rights
    ) -> None:
        """Append all resources of a request as one batch; answered after the commit."""
        records: list[ConfigRecord] = []
        for resource in body.resources:
            kind, name = resource.resource_type, resource.resource_name
            refused = config_refused(rights, inbound.caller, AclOperation.ALTER_CONFIGS, kind, name)
            if refused is not None:
                inbound.reply(_alter_response(body, refused.code, refused.text))
                return
        for resource in body.resources:
            problem = _append_changes(resource, records)
            if problem is not None:
                inbound.reply(_alter_response(body, ErrorCode.INVALID_CONFIG, problem))
                return
        if body.validate_only or not records:
            inbound.reply(_alter_response(body, ErrorCode.NONE, None))
            return

        def done(outcome: AppendOutcome) -> None:
            inbound.reply(_alter_response(body, *_outcome_error(outcome)))

        cleared = cleared_eligible_replicas(self._replica.committed.image, records)
        self._replica.append(tuple(map(encode_metadata, (*records, *cleared))), done)

    def describe(
        self, inbound: InboundRequest, body: DescribeConfigsRequest, rights: Rights
    ) -> None:
        """The present values, after a majority has confirmed the leader.

        A few bytes of a request ask for hundreds of values, and one confirmation answers all requests that wait for it. So all are answered on
        the thread.
        """
        inbound.use_thread()

        def done(error: RaftError | None) -> None:
            caller, image = inbound.caller, self._replica.committed.image
            inbound.reply_made(lambda: self._description(caller, body, rights, error, image))

        reader = self._reads.submit(done)
        inbound.when_abandoned(lambda: self._reads.cancel(reader))

    def _description(
        self,
        caller: Caller,
        body: DescribeConfigsRequest,
        rights: Rights,
        error: RaftError | None,
        image: ClusterImage,
    ) -> DescribeConfigsResponse:
        synonyms, room = body.include_synonyms, DescribedRoom()
        return DescribeConfigsResponse(
            results=tuple(
                self._describe_one(caller, rights, resource, error, room, image, synonyms=synonyms)
                for resource in body.resources
            )
        )

    def _describe_one(
        self,
        caller: Caller,
        rights: Rights,
        resource: DescribeConfigsResource,
        error: RaftError | None,
        room: DescribedRoom,
        image: ClusterImage,
        *,
        synonyms: bool,
    ) -> DescribeConfigsResult:
        found: Found
        if error is not None:
            found = Problem(controller_error(error), error.value)
        else:
            settings = self._settings
            kind, name = resource.resource_type, resource.resource_name
            asked = Asked(kind, name, frozenset(resource.configuration_keys or ()), synonyms)
            problem = config_refused(rights, caller, AclOperation.DESCRIBE_CONFIGS, kind, name)
            found = problem or room.describe(
                lambda: describe(image, self._node_id, settings.static_configs, asked)
            )
        return DescribeConfigsResult(
            error_code=found.code if isinstance(found, Problem) else ErrorCode.NONE,
            error_message=found.text if isinstance(found, Problem) else None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=() if isinstance(found, Problem) else found,
        )


def _append_changes(resource: AlterConfigsResource, records: list[ConfigRecord]) -> str | None:
    """Add the changes of one resource. Returns the reason if a change is not supported."""
    for change in resource.configs:
        if change.config_operation == ConfigOperation.SET:
            if change.value is None:
                return f"{change.name}: SET needs a value"
            value = change.value
        elif change.config_operation == ConfigOperation.DELETE:
            value = None
        else:
            return f"{change.name}: only SET and DELETE are supported"
        record = ConfigRecord(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            name=change.name,
            value=value,
        )
        records.append(record)
    return None


def _outcome_error(outcome: AppendOutcome) -> tuple[ErrorCode, str | None]:
    match outcome:
        case Committed():
            return ErrorCode.NONE, None
        case TooLarge():
            return (
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{outcome.size_bytes} bytes exceed the largest batch",
            )
        case RaftError():
            return controller_error(outcome), outcome.value


def _alter_response(
    body: IncrementalAlterConfigsRequest, error: ErrorCode, text: str | None
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            AlterConfigsResult(
                error_code=error,
                error_message=text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in body.resources
        )
    )
