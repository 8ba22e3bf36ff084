"""The table of permissions: what each route of the admin API needs. PURE.

Owns the rows and the look-up. An admin token stands for the role admin. Must not know how a route
responds.
"""

from dataclasses import dataclass

from quorum_node.security.acl_terms import AclOperation
from quorum_node.security.certificate_identity import Role
from quorum_node.security.rights.api_table import ALTER, ALTER_CONFIGS, DESCRIBE, READ_LOG
from quorum_node.security.rights.needs import Need, Rule

_LOOKING = frozenset({Role.MEMBER, Role.OPERATOR, Role.READER, Role.ARCHIVER, Role.ADMIN})
_OPERATORS = frozenset({Role.OPERATOR, Role.ADMIN})
_ADMIN = frozenset({Role.ADMIN})
_DESCRIBE_CONFIGS = Need(AclOperation.DESCRIBE_CONFIGS)

_OPEN = Rule((), frozenset(Role), note="for probes")
_METRICS = Rule((), frozenset(Role), note="open by default; can be configured to need DESCRIBE")
_LOOK = Rule((DESCRIBE,), _LOOKING)
_VOTERS = Rule((ALTER,), _OPERATORS)
_SEE_CONFIGS = Rule((_DESCRIBE_CONFIGS,), _LOOKING - {Role.OPERATOR})

CLOSED_METRICS = _LOOK
ROUTES: dict[tuple[str, str], Rule] = {
    ("GET", "/livez"): _OPEN,
    ("GET", "/readyz"): _OPEN,
    ("GET", "/metrics"): _METRICS,
    ("GET", "/openapi.json"): _LOOK,
    ("GET", "/v1/node"): _LOOK,
    ("GET", "/v1/quorum"): _LOOK,
    ("GET", "/v1/brokers"): _LOOK,
    ("GET", "/v1/voter-history"): _LOOK,
    ("POST", "/v1/voters"): _VOTERS,
    ("DELETE", "/v1/voters/{id}/{uuid}"): _VOTERS,
    ("PUT", "/v1/voters/{id}/{uuid}/endpoints"): _VOTERS,
    ("POST", "/v1/resign"): _VOTERS,
    ("POST", "/v1/alter-quorum"): _VOTERS,
    ("DELETE", "/v1/alter-quorum"): _VOTERS,
    ("POST", "/v1/snapshot"): _VOTERS,
    ("GET", "/v1/configs"): _SEE_CONFIGS,
    ("GET", "/v1/configs/{resource_type}/{resource_name}/{name}"): _SEE_CONFIGS,
    ("PUT", "/v1/configs/{resource_type}/{resource_name}/{name}"): Rule((ALTER_CONFIGS,), _ADMIN),
    ("POST", "/v1/append"): Rule((Need(AclOperation.ALL),), _ADMIN),
    ("GET", "/v1/log"): Rule(
        (READ_LOG,), frozenset({Role.ARCHIVER, Role.ADMIN}), note="the log contains keys of SCRAM"
    ),
    ("POST", "/v1/reassignments"): _VOTERS,
    ("POST", "/v1/reassignments/describe"): _LOOK,
    ("GET", "/v1/reassignments"): _LOOK,
}
"""By method and path; a part in braces matches any one part."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """Rules by the parts of a path: a literal part precedes one in braces."""

    named: dict[str, "_Branch"]
    rules: dict[str, tuple[str, Rule]]
    """Path as in the table, and rule, by method."""


_ANY_PART = "{}"


def _tree() -> _Branch:
    root = _Branch({}, {})
    for (method, path), rule in ROUTES.items():
        branch = root
        for part in path.strip("/").split("/"):
            name = _ANY_PART if part.startswith("{") else part
            branch = branch.named.setdefault(name, _Branch({}, {}))
        branch.rules[method] = path, rule
    return root


_TREE = _tree()


def route_rule(method: str, path: str) -> Rule | None:
    """The rule of a request; None if there is no such route, so it is refused. HEAD is GET."""
    found = _row(method, path)
    return None if found is None else found[1]


def route_name(method: str, path: str) -> str:
    """Method and path as in the table, for logs and metrics: the path of a request is untrusted text."""
    found = _row(method, path)
    return f"{method} {found[0]}" if found is not None else "no route"


def _row(method: str, path: str) -> tuple[str, Rule] | None:
    branch = _TREE
    for part in path.removeprefix("/").split("/"):
        found = branch.named.get(part) if part != _ANY_PART else None
        found = found or (branch.named.get(_ANY_PART) if part else None)
        if found is None:
            return None
        branch = found
    return branch.rules.get("GET" if method == "HEAD" else method)
