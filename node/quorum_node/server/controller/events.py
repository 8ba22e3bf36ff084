"""Log lines of the controller."""

from collections.abc import Sequence

import structlog

from quorum_node.records.identity import ReplicaKey
from quorum_node.records.metadata import BrokerRegistrationChangeRecord, MetadataMessage
from quorum_node.server.observing.repeats import Repeats

_LOG = structlog.get_logger("quorum_node")
_MAX_REASON_CHARACTERS = 1000
"""A reason can contain names from the request."""


class ControllerEvents:
    """One method for each log line."""

    def __init__(self) -> None:
        self._refusals = Repeats()

    def activated(self, epoch: int) -> None:
        """This node is the active controller from now on."""
        _LOG.info(f"active controller in epoch {epoch}", leaderEpoch=epoch)

    def deactivated(self, why: str) -> None:
        """This node is no longer the active controller."""
        _LOG.info(f"no longer the active controller: {why}")

    def held_back(self, levels: Sequence[str]) -> None:
        """This node leads, but can't be the active controller."""
        _LOG.warning(
            "this node leads, but can't be the active controller: it does not support the finalized"
            f" {', '.join(levels)}; make a node the leader that supports them, or lower the levels with kafka-features"
        )

    def not_registered(self, why: str) -> None:
        """The registration failed; it is tried again after a pause."""
        _LOG.info(f"not registered as a controller yet: {why}")

    def refused(self, why: str) -> None:
        """A request is refused with a response that can't contain the reason; it is sent again and again."""
        if self._refusals.is_written(why):
            _LOG.warning(why[:_MAX_REASON_CHARACTERS])

    def superseded(self) -> None:
        """Another process has taken over the registration of this one."""
        _LOG.warning("another process has registered as a controller with the id of this one")

    def hands_over(self, successor: ReplicaKey) -> None:
        """Every other voter has a newer snapshot."""
        _LOG.info(f"hands leadership over to {successor} before it writes a snapshot")

    def decided(self, records: Sequence[MetadataMessage]) -> None:
        """Maintenance has fenced brokers, or changed their state."""
        for record in records:
            if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced > 0:
                _LOG.warning(
                    f"broker {record.broker_id} is fenced: its lease ended without a heartbeat",
                    brokerId=record.broker_id,
                    brokerEpoch=record.broker_epoch,
                )

    def repaired(self, partitions: int, seconds: float) -> None:
        """Leaders and ISRs after brokers were fenced or unfenced."""
        _LOG.info(
            f"{partitions} partitions have a new leader or ISR after {seconds * 1000:.0f} ms",
            partitions=partitions,
        )

    def ids_doubled(self, ids: Sequence[int]) -> None:
        """Broker and controller ids that were registered before one id space was enforced."""
        named = ", ".join(map(str, ids))
        _LOG.warning(
            f"node ids {named} are each used by a broker and by a controller in different processes: metrics, configs and"
            " tools can't tell them apart; start one of the two with an id of its own, then unregister or remove the other",
            nodeIds=list(ids),
        )

    def elected_unclean(self, partitions: int) -> None:
        """Leaders that may lack acknowledged messages."""
        _LOG.warning(
            f"{partitions} partitions have a leader from outside of their ISR: acknowledged messages may be lost",
            partitions=partitions,
        )
