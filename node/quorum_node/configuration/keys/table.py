"""The table of all configuration keys.

Names are Kafka's where Kafka has one; `admin.*`, `formation.*`, `failure.*`, `termination.*`, `quorum.*`,
`unstable.broker.role.enable`,
`metadata.log.reserve.bytes` and `metadata.log.scrub.bytes.per.second` are ours. Parsing, refusals and the reference
(`reference.py`) follow from it. Rules between keys are where values are put together (`node_config.py` and others).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quorum_node.configuration.key import Key, Scope
from quorum_node.configuration.keys import (
    broker,
    controller,
    group_limits,
    groups,
    listeners,
    log,
    node,
    quorum,
    security,
)

SECTIONS: Mapping[str, tuple[Key[Any], ...]] = {
    **node.SECTIONS,
    **listeners.SECTIONS,
    **security.SECTIONS,
    **quorum.SECTIONS,
    **log.SECTIONS,
    **controller.SECTIONS,
    **group_limits.SECTIONS,
    **broker.SECTIONS,
    **groups.SECTIONS,
}
"""All keys, by sections of the reference."""


def all_keys() -> Iterator[Key[Any]]:
    """In the order of the reference."""
    return (key for section in SECTIONS.values() for key in section)


def known_names(of_listeners: Iterable[str] = listeners.LISTENERS) -> frozenset[str]:
    """All names that are valid in the properties of a node with these listeners, in lower case."""
    own = (
        key.name_for(listener)
        for key in all_keys()
        if key.scope is Scope.LISTENER
        for listener in of_listeners
    )
    return frozenset((*(key.name for key in all_keys()), *own))
