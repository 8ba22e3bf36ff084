"""Generates the page of permissions from the tables. PURE.

Owns its text. `make api-permissions-doc` writes the page; a test keeps it up to date.
"""

from collections.abc import Iterable, Iterator

from quorum_node.protocol.apis import APIS, FORWARDABLE
from quorum_node.protocol.broker_apis import BROKER_APIS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.security.certificate_identity import Role
from quorum_node.security.rights.api_table import AS_A_READER, RULES, STOCK
from quorum_node.security.rights.broker_table import BROKER_TABLE
from quorum_node.security.rights.claims import CLAIMING
from quorum_node.security.rights.http_table import ROUTES
from quorum_node.security.rights.needs import Need, Rule

_HEAD = f"""# Permissions of APIs

Generated from `node/quorum_node/security/rights/` by `make api-permissions-doc`; a test keeps the page up to date. A request without permission
fails with {ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name} ({int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)}), or with 403 over HTTP (401 without credentials). It is logged as
`authorizer: denied` and counted in `metadata_quorum_authorization_denials_total`.

Permissions are checked if `authorizer.class.name` is set. Without it everything is allowed on the Kafka port; on the admin port changes need the
admin token, and reads need nothing. On a listener without TLS every caller is `User:ANONYMOUS`, other members and brokers as well. So either nodes
use a listener with TLS, or `User:ANONYMOUS` has to be a super user, and a firewall has to block all other clients.

**Needs** are permissions in terms of Kafka's access control entries; one of several is sufficient. Super users
(`super.users`) have all of them. A permission `on TOPIC` or `on GROUP` without a name is checked for each one that the request names.

**By default** lists the roles that need no entry. A role comes from the certificate of the connection, never from a principal
in an Envelope. A deny entry overrides a role, except that of a member.

**Own id**: the request acts for a node, and the certificate of the connection must be that of this node
(`urn:metadataquorum:NAMESPACE:QUORUM:ROLE:ID`), for super users as well. `quorum.identity.binding=false` disables this check. A request that
only a **member** may send is refused to all other callers except super users, whatever the entries are.

## Kafka port
"""
_BROKER_HEAD = """
## Kafka port of a broker

Permissions of a broker of this software (`process.roles=broker`). Requests that it forwards to the active controller in an Envelope are authorized
there, for the principal in the Envelope.
"""
_HTTP_HEAD = """
## Admin port

Permissions are checked before the body is read. An admin token stands for the role admin. A caller with neither a token nor a certificate gets 401.
Nodes don't forward requests to the leader, so no secret leaves its connection: 421 names the leader.
"""


def markdown() -> str:
    """The whole page."""
    return (
        "\n".join((_HEAD, *_apis(), _BROKER_HEAD, *_apis_of_brokers(), _HTTP_HEAD, *_routes()))
        + "\n"
    )


def _apis() -> Iterator[str]:
    columns = ("API", "key", "stock 4.3.1 needs", "needs", "beyond", "by default", "note")
    yield from _header(columns)
    for key, api in sorted(APIS.items()):
        claims = api.request in CLAIMING
        stock = STOCK[key]
        stock_text = "API not on a controller" if stock is None else _needs(stock)
        yield _row(api.name, str(key), stock_text, *_cells(RULES[key], claims=claims))
        if key in AS_A_READER:
            rule = AS_A_READER[key]
            yield _row(f"{api.name}, reading", str(key), stock_text, *_cells(rule, claims=False))


def _apis_of_brokers() -> Iterator[str]:
    yield from _header(("API of a broker", "key", "needs", "beyond", "by default", "note"))
    for key, api in BROKER_APIS.items():
        claims = api.request in CLAIMING and key not in FORWARDABLE
        yield _row(api.name, str(key), *_cells(BROKER_TABLE.rules[key], claims=claims))
        if key in BROKER_TABLE.as_a_reader:
            rule = BROKER_TABLE.as_a_reader[key]
            yield _row(f"{api.name}, reading", str(key), *_cells(rule, claims=False))


def _routes() -> Iterator[str]:
    yield from _header(("route", "needs", "by default", "note"))
    for (method, path), rule in ROUTES.items():
        needs, _, roles, note = _cells(rule, claims=False)
        yield _row(f"`{method} {path}`", needs, roles, note)


def _cells(rule: Rule, *, claims: bool) -> tuple[str, str, str, str]:
    beyond = ["member"] * rule.members_only + ["own id"] * claims
    note = rule.note
    if rule.own_voter:
        note = "a member for its own id, where it joins by itself"
    return _needs(rule.needs), ", ".join(beyond), _roles(rule), note


def _needs(needs: Iterable[Need]) -> str:
    return " or ".join(need.text for need in needs) or "nothing"


def _roles(rule: Rule) -> str:
    if rule.roles == frozenset(Role):
        return "every caller" if not rule.needs else "every role"
    names = [role.value for role in Role if role in rule.roles]
    for role, topics in rule.limited_roles.items():
        names.append(f"{role.value} ({', '.join(f'`{name}`' for name in sorted(topics))})")
    return ", ".join(names)


def _header(columns: tuple[str, ...]) -> tuple[str, str]:
    return _row(*columns), f"|{' --- |' * len(columns)}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
