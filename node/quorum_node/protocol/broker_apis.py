"""The APIs between brokers, controllers and the active controller.

Owns their part of the table in `apis.py`. Must not know how a request is handled.
Source: Kafka's protocol guide, "API Keys", the versions of Kafka 4.3; ControllerHeartbeat is the draft's (KIP-631).
"""

from quorum_node.protocol.api import Api
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from quorum_node.protocol.controller_heartbeat import (
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
)
from quorum_node.protocol.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from quorum_node.protocol.envelope import EnvelopeRequest, EnvelopeResponse
from quorum_node.protocol.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from quorum_node.protocol.producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

UPDATE_FEATURES = Api(57, "UpdateFeatures", UpdateFeaturesRequest, UpdateFeaturesResponse, 0, 2)
ENVELOPE = Api(58, "Envelope", EnvelopeRequest, EnvelopeResponse, 0, 0)
BROKER_REGISTRATION = Api(
    62, "BrokerRegistration", BrokerRegistrationRequest, BrokerRegistrationResponse, 0, 4
)
BROKER_HEARTBEAT = Api(63, "BrokerHeartbeat", BrokerHeartbeatRequest, BrokerHeartbeatResponse, 0, 2)
UNREGISTER_BROKER = Api(
    64, "UnregisterBroker", UnregisterBrokerRequest, UnregisterBrokerResponse, 0, 0
)
ALLOCATE_PRODUCER_IDS = Api(
    67, "AllocateProducerIds", AllocateProducerIdsRequest, AllocateProducerIdsResponse, 0, 0
)
CONTROLLER_REGISTRATION = Api(
    70,
    "ControllerRegistration",
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    0,
    0,
)
CONTROLLER_HEARTBEAT = Api(
    20003,
    "ControllerHeartbeat",
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
    0,
    0,
)

BROKER_APIS: tuple[Api, ...] = (
    UPDATE_FEATURES,
    ENVELOPE,
    BROKER_REGISTRATION,
    BROKER_HEARTBEAT,
    UNREGISTER_BROKER,
    ALLOCATE_PRODUCER_IDS,
    CONTROLLER_REGISTRATION,
    CONTROLLER_HEARTBEAT,
)
