"""Errors of requests on a partition. PURE.

Owns the results of the data path. Must not know their numbers on the wire: each has the name of Kafka's error code.
Source: Kafka's protocol guide, "Error Codes".
"""

from enum import Enum


class BrokerError(Enum):
    """NONE, or the reason of a failure. The value is the text of the message."""

    NONE = "ok"
    OFFSET_OUT_OF_RANGE = "the log has no such offset"
    NOT_LEADER_OR_FOLLOWER = "this broker does not lead the partition"
    REQUEST_TIMED_OUT = "not replicated within the request's timeout"
    NOT_ENOUGH_REPLICAS = "fewer replicas are in sync than min.insync.replicas asks for"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        "written, but fewer replicas are in sync than min.insync.replicas asks for"
    )
    CORRUPT_MESSAGE = "the batch's length or checksum is wrong"
    MESSAGE_TOO_LARGE = "the batch is larger than max.message.bytes"
    RECORD_LIST_TOO_LARGE = "the batch is larger than a segment of the log"
    INVALID_RECORD = "the bytes are not one batch of the present format as a producer sends it"
    INVALID_TIMESTAMP = "the time of a record is out of range"
    UNSUPPORTED_COMPRESSION_TYPE = "zstd needs version 7 of Produce, or a newer one"
    UNKNOWN_SERVER_ERROR = "the batch has a compression codec that does not exist"
    INVALID_REQUIRED_ACKS = "acks is neither -1, 0 nor 1"
    OUT_OF_ORDER_SEQUENCE_NUMBER = "the producer's sequence number is not the next one"
    INVALID_PRODUCER_EPOCH = "the producer's epoch is older than the known one"
    INVALID_TXN_STATE = "the batch belongs to no transaction that is open in this partition"
    TRANSACTION_COORDINATOR_FENCED = "a later coordinator has ended transactions of this producer"
    KAFKA_STORAGE_ERROR = "the log directory of this replica failed"
    FENCED_LEADER_EPOCH = "the leader epoch is older than the known one"
    UNKNOWN_LEADER_EPOCH = "the leader epoch is newer than the known one"
    OFFSET_NOT_AVAILABLE = "the leader does not know its high watermark yet"
    UNKNOWN_TOPIC_OR_PARTITION = "there is no such partition here"


class IsrError(Enum):
    """Why the controller did not accept a proposed ISR."""

    NOT_ATTEMPTED = "another part of the request failed"
    INELIGIBLE_REPLICA = "a member is fenced, is shutting down or was restarted"
    OVERTAKEN = "the partition changed meanwhile, or was deleted"
    """FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST, NEW_LEADER_ELECTED, UNKNOWN_TOPIC_*: metadata
    that this broker has not applied yet has the reason.
    """
    UNANSWERED = "no controller answered"
    """Whether it was accepted is unknown: the same proposal is sent again."""
