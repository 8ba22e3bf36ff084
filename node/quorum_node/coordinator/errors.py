"""Errors of a coordinator. PURE.

Must not know numbers on the wire: each has the name of Kafka's error code.
Source: Kafka's protocol guide, "Error Codes".
"""

from enum import Enum


class GroupError(Enum):
    """NONE, or the reason of a failure. The value is the text of the message."""

    NONE = "ok"
    UNKNOWN_SERVER_ERROR = "the state of the group is too large to be stored"
    OFFSET_METADATA_TOO_LARGE = (
        "the metadata of the offset is larger than offset.metadata.max.bytes"
    )
    COORDINATOR_LOAD_IN_PROGRESS = "the coordinator is reading its log"
    COORDINATOR_NOT_AVAILABLE = "the coordinator could not store this"
    NOT_COORDINATOR = "another broker coordinates the group"
    ILLEGAL_GENERATION = "the generation of the request is not the present one"
    INCONSISTENT_GROUP_PROTOCOL = "the member supports no protocol that all others do"
    INVALID_GROUP_ID = "the name of the group is empty"
    UNKNOWN_MEMBER_ID = "the group has no such member"
    INVALID_SESSION_TIMEOUT = "the session timeout is outside of group.min.session.timeout.ms and group.max.session.timeout.ms"
    REBALANCE_IN_PROGRESS = "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = "the offsets are too large for one batch"
    NON_EMPTY_GROUP = "the group has members"
    GROUP_ID_NOT_FOUND = "there is no such group"
    MEMBER_ID_REQUIRED = "join again with the member id in this response"
    GROUP_MAX_SIZE_REACHED = "the group is full"
    FENCED_INSTANCE_ID = "another member has taken over the instance id"
    GROUP_SUBSCRIBED_TO_TOPIC = "a member of the group reads the topic"
    UNSTABLE_OFFSET_COMMIT = "a transaction is committing the offset"
    INVALID_PRODUCER_EPOCH = "the producer's epoch is older than the known one"
