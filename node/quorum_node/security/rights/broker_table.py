"""The table of permissions: what each API of a broker's listeners needs. PURE.

Owns the rows. Requests that a broker forwards are authorized by the active controller, for the
principal in the Envelope.
Source: the authorizer calls of a stock broker (KafkaApis of Apache Kafka 4.3.1).
"""

from quorum_node.protocol.apis import FORWARDABLE
from quorum_node.security.acl_terms import AclOperation, AclResource
from quorum_node.security.certificate_identity import Role
from quorum_node.security.rights.claims import OBSERVER_ID
from quorum_node.security.rights.needs import ApiTable, Need, Rule, on_named

_OP, _ON = AclOperation, AclResource
_BROKER = frozenset({Role.BROKER})
_NOBODY = frozenset[Role]()
_ADMIN = frozenset({Role.ADMIN})
_DESCRIBE_TOPIC = on_named(_OP.DESCRIBE, _ON.TOPIC)
_READ_TOPIC = on_named(_OP.READ, _ON.TOPIC)
_PRODUCE, _FETCH = 0, 1
_READ_GROUP = Rule((on_named(_OP.READ, _ON.GROUP),), _NOBODY)
_READ_GROUP_AND_TOPIC = Rule(
    (on_named(_OP.READ, _ON.GROUP),), _NOBODY, note="and READ on each TOPIC"
)
_OF_ANYBODY = Rule((), note="no permission")

_RULES: dict[int, Rule] = {
    _PRODUCE: Rule(
        (on_named(_OP.WRITE, _ON.TOPIC),),
        _NOBODY,
        note="and WRITE on TRANSACTIONAL_ID for transactional batches",
    ),
    _FETCH: Rule((Need(_OP.CLUSTER_ACTION),), _BROKER, note="as a broker's replica"),
    2: Rule((_DESCRIBE_TOPIC,), _BROKER | _ADMIN),
    3: Rule((_DESCRIBE_TOPIC,), _ADMIN, note="topics without DESCRIBE permission are omitted"),
    8: _READ_GROUP_AND_TOPIC,
    9: Rule(
        (on_named(_OP.DESCRIBE, _ON.GROUP),),
        _ADMIN,
        note="and DESCRIBE on each TOPIC; of all topics, the others are omitted",
    ),
    10: Rule(
        (on_named(_OP.DESCRIBE, _ON.GROUP), on_named(_OP.DESCRIBE, _ON.TRANSACTIONAL_ID)),
        _ADMIN,
        note="on each key; keys of share groups need CLUSTER_ACTION on CLUSTER",
    ),
    11: _READ_GROUP,
    12: _READ_GROUP,
    13: _READ_GROUP,
    14: _READ_GROUP,
    15: Rule((on_named(_OP.DESCRIBE, _ON.GROUP),), _ADMIN),
    16: Rule((), _ADMIN, note="without DESCRIBE on CLUSTER: the groups with DESCRIBE permission"),
    17: _OF_ANYBODY,
    18: _OF_ANYBODY,
    21: Rule((on_named(_OP.DELETE, _ON.TOPIC),), _ADMIN),
    22: Rule(
        (Need(_OP.IDEMPOTENT_WRITE), on_named(_OP.WRITE, _ON.TOPIC)),
        _NOBODY,
        note="IDEMPOTENT_WRITE on CLUSTER, or WRITE on any topic; WRITE on TRANSACTIONAL_ID if there is one",
    ),
    23: Rule((Need(_OP.CLUSTER_ACTION), _DESCRIBE_TOPIC), _BROKER),
    27: Rule((Need(_OP.ALTER), Need(_OP.CLUSTER_ACTION)), _BROKER),
    29: Rule((Need(_OP.DESCRIBE),), _ADMIN),
    50: Rule((Need(_OP.DESCRIBE),), _ADMIN),
    32: Rule(
        (Need(_OP.DESCRIBE_CONFIGS), on_named(_OP.DESCRIBE_CONFIGS, _ON.TOPIC)),
        _ADMIN,
        note="on CLUSTER for brokers",
    ),
    34: Rule((Need(_OP.ALTER),), _ADMIN),
    35: Rule((Need(_OP.DESCRIBE),), _ADMIN),
    36: _OF_ANYBODY,
    42: Rule((on_named(_OP.DELETE, _ON.GROUP),), _ADMIN),
    47: Rule((on_named(_OP.DELETE, _ON.GROUP),), _ADMIN, note="and READ on each TOPIC"),
    48: Rule((Need(_OP.DESCRIBE_CONFIGS),), _ADMIN),
    60: _OF_ANYBODY,
    61: Rule((_READ_TOPIC,), _ADMIN),
    65: Rule((on_named(_OP.DESCRIBE, _ON.TRANSACTIONAL_ID),), _ADMIN),
    66: Rule((), _ADMIN, note="transactions without DESCRIBE permission are omitted"),
    75: Rule((_DESCRIBE_TOPIC,), _ADMIN),
    **{key: Rule((), note="authorized by the active controller") for key in FORWARDABLE},
}
BROKER_TABLE = ApiTable(
    _RULES,
    {_FETCH: Rule((_READ_TOPIC,), _NOBODY, note="as a consumer")},
    taken_ids=frozenset({OBSERVER_ID}),
)
"""By API key. A broker may have the id that the pipeline uses to observe the metadata log; consumers have negative ids."""
