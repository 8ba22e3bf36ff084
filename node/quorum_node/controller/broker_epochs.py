"""Checks whether a request comes from the registered process of a broker. PURE.

Source: KIP-380 and KIP-631, "Broker ID Conflicts": a process that was replaced by another one has a
stale epoch.
"""

from quorum_node.controller.view import View
from quorum_node.protocol.errors import ErrorCode


def epoch_problem(view: View, broker_id: int, broker_epoch: int) -> ErrorCode | None:
    """STALE_BROKER_EPOCH for an unknown broker, too, as in a stock controller."""
    broker = view.image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return None
