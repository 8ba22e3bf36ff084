"""Whether a request comes from the process of a broker that is registered now. PURE.

Source: KIP-380 and KIP-631, "Broker ID Conflicts": a process that another one has replaced has a stale epoch.
"""

from quorum_node.controller.view import View
from quorum_node.protocol.errors import ErrorCode


def epoch_problem(view: View, broker_id: int, broker_epoch: int) -> ErrorCode | None:
    """STALE_BROKER_EPOCH for an unknown broker, too; a stock controller says the same."""
    broker = view.image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return None
