"""The table of the controller's APIs: the command for each request, and its refusal on other nodes.

Must not know how a command decides, nor when an answer is sent (`controller_api.py`). The rights that each API needs are in
`security/rights/api_table.py`.
"""

from functools import partial

from quorum_node.controller.controller_heartbeats import (
    controller_heartbeat,
    refuse_controller_heartbeat,
)
from quorum_node.controller.features import refuse_update_features, update_features
from quorum_node.controller.heartbeats import heartbeat, refuse_heartbeat
from quorum_node.controller.producer_ids import allocate_producer_ids, refuse_producer_ids
from quorum_node.controller.registration import (
    refuse_controller_registration,
    refuse_registration,
    refuse_unregister,
    register_broker,
    register_controller,
    unregister_broker,
)
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    UnregisterBrokerRequest,
)
from quorum_node.protocol.controller_heartbeat import ControllerHeartbeatRequest
from quorum_node.protocol.controller_registration import ControllerRegistrationRequest
from quorum_node.protocol.features import UpdateFeaturesRequest
from quorum_node.protocol.producer_ids import AllocateProducerIdsRequest
from quorum_node.schema.schema import Message
from quorum_node.server.controller.route import Route
from quorum_node.server.controller.topic_routes import TOPIC_ROUTES

_impure = partial(Route, is_pure=False)

ROUTES: dict[type[Message], Route] = {
    BrokerRegistrationRequest: _impure(register_broker, refuse_registration),
    BrokerHeartbeatRequest: _impure(heartbeat, refuse_heartbeat),
    UnregisterBrokerRequest: _impure(unregister_broker, refuse_unregister),
    ControllerRegistrationRequest: _impure(register_controller, refuse_controller_registration),
    AllocateProducerIdsRequest: _impure(allocate_producer_ids, refuse_producer_ids),
    ControllerHeartbeatRequest: _impure(controller_heartbeat, refuse_controller_heartbeat),
    UpdateFeaturesRequest: _impure(update_features, refuse_update_features),
    **TOPIC_ROUTES,
}
