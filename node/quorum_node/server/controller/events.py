"""What people read of the controller, in the node's log."""

from collections.abc import Sequence

import structlog

from quorum_node.records.identity import ReplicaKey
from quorum_node.records.metadata import BrokerRegistrationChangeRecord, MetadataMessage

_LOG = structlog.get_logger("quorum_node")


class ControllerEvents:
    """One line for each thing that somebody may want to know later."""

    def activated(self, epoch: int) -> None:
        """This node decides from now on."""
        _LOG.info(f"active controller in epoch {epoch}", leaderEpoch=epoch)

    def deactivated(self, why: str) -> None:
        """It does not any more."""
        _LOG.info(f"no longer the active controller: {why}")

    def held_back(self, levels: Sequence[str]) -> None:
        """It leads, and must not decide."""
        _LOG.warning(
            "this node leads, but can't be the active controller: it does not support the finalized"
            f" {', '.join(levels)}; let a node lead that does, or lower the levels with kafka-features"
        )

    def not_registered(self, why: str) -> None:
        """It asks again after a pause."""
        _LOG.info(f"not registered as a controller yet: {why}")

    def superseded(self) -> None:
        """It was registered."""
        _LOG.warning("another process has registered as a controller with the id of this one")

    def hands_over(self, successor: ReplicaKey) -> None:
        """Everyone else has a newer snapshot."""
        _LOG.info(f"hands leadership over to {successor} before it writes a snapshot")

    def decided(self, records: Sequence[MetadataMessage]) -> None:
        """Maintenance changed brokers."""
        for record in records:
            if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced > 0:
                _LOG.warning(
                    f"broker {record.broker_id} is fenced: its lease ended without a heartbeat",
                    brokerId=record.broker_id,
                    brokerEpoch=record.broker_epoch,
                )

    def repaired(self, partitions: int, seconds: float) -> None:
        """Leaders and ISRs after brokers came or went."""
        _LOG.info(
            f"{partitions} partitions have a new leader or ISR after {seconds * 1000:.0f} ms",
            partitions=partitions,
        )

    def ids_doubled(self, ids: Sequence[int]) -> None:
        """Registered before one id space was kept."""
        named = ", ".join(map(str, ids))
        _LOG.warning(
            f"node ids {named} are used by a broker and by a controller that are not one process: metrics, configs and"
            " tools mean both; start one of the two under an id of its own, then unregister or remove the other",
            nodeIds=list(ids),
        )

    def elected_unclean(self, partitions: int) -> None:
        """Leaders that may lack acknowledged messages."""
        _LOG.warning(
            f"{partitions} partitions are led from outside of their ISR: acknowledged messages may be lost",
            partitions=partitions,
        )
