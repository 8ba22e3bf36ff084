"""Checks the values that a broker or a controller registers before they become a record. PURE.

Owns which values every node can replay. Stock brokers and controllers exit when they replay a
listener without a name or with an unknown security protocol. A record with too many elements can't
be decoded by any node; the record grows when directories are cordoned later.
Source: BrokerRegistration, ControllerRegistration and ListenerInfo of a stock 4.3 controller.
"""

from collections.abc import Sequence

from quorum_node.protocol.broker_registration import RegisteredListener, SupportedFeatureRange

MAX_LISTENERS = 100
MAX_FEATURES = 1000
MAX_DIRECTORIES = 1000
_PROTOCOLS = range(4)
"""Numbers of Kafka's security protocols: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."""


def registration_fault(
    node_id: int,
    listeners: Sequence[RegisteredListener],
    features: Sequence[SupportedFeatureRange],
    directories: Sequence[object] = (),
) -> str | None:
    """Why these values can't be registered, or None."""
    if node_id < 0:
        return f"a node id is not negative, but this one is {node_id}"
    for number, most, of in (
        (len(listeners), MAX_LISTENERS, "listeners"),
        (len(features), MAX_FEATURES, "features"),
        (len(directories), MAX_DIRECTORIES, "directories"),
    ):
        if number > most:
            return f"at most {most} {of} can be registered, not {number}"
    names = {each.name for each in listeners}
    if len(names) < len(listeners):
        return "the request contains a listener more than once"
    return next(filter(None, map(_listener_fault, listeners)), None)


def _listener_fault(listener: RegisteredListener) -> str | None:
    if not listener.name:
        return "a listener has no name"
    if listener.security_protocol not in _PROTOCOLS:
        return f"listener {listener.name} has the unknown security protocol {listener.security_protocol}"
    if not listener.host.strip() or not listener.port:
        return f"listener {listener.name} has no host or no port"
    return None
