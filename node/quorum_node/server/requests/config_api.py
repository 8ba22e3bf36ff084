"""IncrementalAlterConfigs and DescribeConfigs on the Kafka listener.

Writes are answered by the leader after their commit. Reads are linearizable, and answered on every replica from its own state. A stock
AdminClient works with the quorum. Must not know sockets or elections.
"""

from quorum_node.controller.authorization import AclOperation, Rights
from quorum_node.controller.config_rights import config_refused
from quorum_node.controller.configs import cleared_eligible_replicas
from quorum_node.controller.described_configs import describe_configs
from quorum_node.controller.view import Settings
from quorum_node.protocol.configs import (
    AlterConfigsResource,
    AlterConfigsResult,
    ConfigOperation,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.errors import RaftError
from quorum_node.records.metadata import ConfigRecord, encode_metadata
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.partition.port import AppendOutcome, Committed, HostedPartition, TooLarge
from quorum_node.server.wire.errors import controller_error
from quorum_node.server.wire.refusals import refuse_request


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
            if error is not None:
                code, text = controller_error(error), error.value
                inbound.reply_made(lambda: refuse_request(body, code, text))
                return
            caller, image = inbound.caller, self._replica.committed.image
            node_id, static = self._node_id, self._settings.static_configs
            inbound.reply_made(
                lambda: describe_configs(image, node_id, static, body, caller, rights)
            )

        reader = self._reads.submit(done)
        inbound.when_abandoned(lambda: self._reads.cancel(reader))


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
