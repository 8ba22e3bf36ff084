"""The table of permissions: what each API of the controllers' listeners needs. PURE.

Owns the rows; `docs/reference/api-permissions.md` is generated from them. `STOCK`: permissions that the ControllerApis
of Apache Kafka 4.3.1 check. `RULES`: permissions that this node checks. Where they differ, the row's note has the reason.
"""

from quorum_node.protocol.apis import FETCH, FETCH_SNAPSHOT
from quorum_node.security.acl_terms import METADATA_TOPIC, AclOperation, AclResource
from quorum_node.security.certificate_identity import Role
from quorum_node.security.rights.needs import ApiTable, Need, Rule, on_named

_OP, _ON = AclOperation, AclResource
CLUSTER_ACTION = Need(_OP.CLUSTER_ACTION)
ALTER = Need(_OP.ALTER)
DESCRIBE = Need(_OP.DESCRIBE)
ALTER_CONFIGS = Need(_OP.ALTER_CONFIGS)
READ_LOG = Need(_OP.READ, _ON.TOPIC, METADATA_TOPIC)
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that a broker creates itself, outside of an Envelope."""

_EVERY_ROLE = frozenset(Role)
_MEMBER = frozenset({Role.MEMBER})
_BROKER = frozenset({Role.BROKER})
_REPLICAS = frozenset({Role.MEMBER, Role.BROKER})
_ADMIN = frozenset({Role.ADMIN})
_OPERATORS = frozenset({Role.OPERATOR, Role.ADMIN})
_LOOKING = frozenset({Role.MEMBER, Role.OPERATOR, Role.READER, Role.ARCHIVER, Role.ADMIN})
_READING = frozenset({Role.ARCHIVER, Role.ADMIN})

_CONFIG_NEEDS = (
    ALTER_CONFIGS,
    on_named(_OP.ALTER_CONFIGS, _ON.TOPIC),
    on_named(_OP.ALTER_CONFIGS, _ON.GROUP),
)
_CONFIG_NOTE = "on CLUSTER for brokers and client metrics; loggers need CLUSTER_ACTION on CLUSTER"
_DESCRIBE_CONFIG_NEEDS = (
    Need(_OP.DESCRIBE_CONFIGS),
    on_named(_OP.DESCRIBE_CONFIGS, _ON.TOPIC),
    on_named(_OP.DESCRIBE_CONFIGS, _ON.GROUP),
)
_TOKEN_NOTE = "delegation tokens are disabled: every request is refused"
_RAFT = Rule((CLUSTER_ACTION,), _MEMBER, members_only=True)
_OF_BROKERS = Rule((CLUSTER_ACTION,), _BROKER)
_OF_CONTROLLERS = Rule((CLUSTER_ACTION,), _MEMBER)
_ALTERING = Rule((ALTER,), _ADMIN)
_VOTERS = Rule((ALTER,), _OPERATORS, own_voter=True)
_LOOKING_AT = Rule((DESCRIBE,), _LOOKING)

RULES: dict[int, Rule] = {
    1: Rule((CLUSTER_ACTION,), _REPLICAS),
    17: Rule((), _EVERY_ROLE, note="before authentication, on SASL listeners only"),
    18: Rule(
        (),
        _EVERY_ROLE,
        note="after the handshake of TLS; on SASL listeners also before authentication",
    ),
    19: Rule(
        (Need(_OP.CREATE), on_named(_OP.CREATE, _ON.TOPIC)),
        _ADMIN,
        {Role.BROKER: INTERNAL_TOPICS},
        note="a broker creates its internal topics outside of an Envelope",
    ),
    20: Rule((Need(_OP.DELETE), on_named(_OP.DELETE, _ON.TOPIC)), _ADMIN),
    29: _LOOKING_AT,
    30: _ALTERING,
    31: _ALTERING,
    32: Rule(
        _DESCRIBE_CONFIG_NEEDS,
        _LOOKING - {Role.OPERATOR},
        note="on CLUSTER for brokers and client metrics",
    ),
    33: Rule(_CONFIG_NEEDS, _ADMIN, note=_CONFIG_NOTE),
    36: Rule((), _EVERY_ROLE, note="before authentication, on SASL listeners only"),
    37: Rule((on_named(_OP.ALTER, _ON.TOPIC),), _ADMIN),
    38: Rule((), _EVERY_ROLE, note=_TOKEN_NOTE),
    39: Rule((), _EVERY_ROLE, note=_TOKEN_NOTE),
    40: Rule((), _EVERY_ROLE, note=_TOKEN_NOTE),
    41: Rule((), _EVERY_ROLE, note=_TOKEN_NOTE),
    43: _ALTERING,
    44: Rule(_CONFIG_NEEDS, _ADMIN, note=_CONFIG_NOTE),
    45: Rule((ALTER,), _OPERATORS),
    46: _LOOKING_AT,
    49: Rule((ALTER_CONFIGS,), _ADMIN),
    50: _LOOKING_AT,
    51: _ALTERING,
    52: _RAFT,
    53: _RAFT,
    54: _RAFT,
    55: _LOOKING_AT,
    56: _OF_BROKERS,
    57: _ALTERING,
    58: Rule(
        (CLUSTER_ACTION,),
        _BROKER,
        note="the request inside is authorized for the principal that the Envelope names, without a role",
    ),
    59: Rule((CLUSTER_ACTION,), _REPLICAS),
    60: Rule(
        (DESCRIBE,),
        _LOOKING,
        note="with ALTER, as in stock Kafka, read-only users could use no tool",
    ),
    62: _OF_BROKERS,
    63: _OF_BROKERS,
    64: _ALTERING,
    67: _OF_BROKERS,
    70: _OF_CONTROLLERS,
    73: _OF_BROKERS,
    80: _VOTERS,
    81: _VOTERS,
    82: _RAFT,
    20000: Rule((ALTER,), _OPERATORS),
    20001: _RAFT,
    20002: _RAFT,
    20003: _OF_CONTROLLERS,
}
"""By API key."""

AS_A_READER: dict[int, Rule] = {
    FETCH.key: Rule(
        (CLUSTER_ACTION, READ_LOG), _READING, note="without a replica id: the log only"
    ),
    FETCH_SNAPSHOT.key: Rule((CLUSTER_ACTION, READ_LOG), _READING, note="without a replica id"),
}
"""Replaces the rule above for a request that does not come from a replica of the log (`claims.py`)."""

CONTROLLER_TABLE = ApiTable(RULES, AS_A_READER)
"""APIs of the controllers' listeners."""

STOCK: dict[int, tuple[Need, ...] | None] = {
    **{key: rule.needs for key, rule in RULES.items()},
    38: (on_named(_OP.CREATE_TOKENS, _ON.USER),),
    41: None,
    50: None,
    60: (ALTER,),
    20000: None,
    20001: None,
    20002: None,
    20003: None,
}
"""Permission on a stock controller; None if it does not have the API, or announces it without handling it."""
