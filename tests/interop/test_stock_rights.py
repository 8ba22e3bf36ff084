"""Which right each API needs, asked of a stock controller with StandardAuthorizer and of one of our nodes.

Each client holds one right by an entry of the log and none otherwise. The APIs that it is not refused are what this right permits. The
column of stock Kafka in the table of rights (`security/rights/api_table.py`) has to be what the stock controller does, and our node has to
permit the same, except where `DEVIATIONS` says why not.
"""

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from quorum_node.protocol.acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from quorum_node.protocol.api import Api
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS, APIS, CREATE_ACLS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.security.acl_terms import AclOperation, AclResource
from quorum_node.security.authorizer import STANDARD_AUTHORIZER
from quorum_node.security.rights.api_table import STOCK
from quorum_node.security.rights.needs import on_named
from support.answered_codes import codes
from support.generated_certificates import Issued, issue
from support.local_quorum import wait_until
from support.one_request import ask
from support.request_samples import request_of
from support.secured_java_quorum import SecuredJavaQuorum
from support.tls_quorum import HOURS, TlsQuorum, client_context, now, write_folder

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]

Address = tuple[str, int]
Right = tuple[AclResource, AclOperation]
NOTHING = "nothing"
SENDER = 77
"""Not a member: what is permitted does not change the quorum."""
CLUSTER, TOPIC = "kafka-cluster", "*"
_OP = AclOperation
RIGHTS: dict[str, Right] = {
    f"{operation.name}-on-{resource.name}": (resource, operation)
    for resource, operations in (
        (AclResource.CLUSTER, (_OP.CREATE, _OP.DELETE, _OP.ALTER, _OP.DESCRIBE, _OP.CLUSTER_ACTION, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS)),
        (AclResource.TOPIC, (_OP.READ, _OP.CREATE, _OP.DELETE, _OP.ALTER, _OP.DESCRIBE, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS)),
    )
    for operation in operations
}  # fmt: skip
IMPLIED_BY = {
    _OP.DESCRIBE: (_OP.READ, _OP.DELETE, _OP.ALTER),
    _OP.DESCRIBE_CONFIGS: (_OP.ALTER_CONFIGS,),
}
"""As Kafka's authorizers do."""
_MEMBERS = "the caller has to be a member of the quorum, or a super user"
_OWN_ID = "the node id in the request has to be that of the caller's certificate"
_CLUSTER_ACTION = frozenset({f"{_OP.CLUSTER_ACTION.name}-on-CLUSTER"})
_DESCRIBE = frozenset({f"{_OP.DELETE.name}-on-CLUSTER", f"{_OP.DESCRIBE.name}-on-CLUSTER"})
DEVIATIONS: dict[int, tuple[str, frozenset[str], frozenset[str]]] = {
    **{key: (_MEMBERS, frozenset(), _CLUSTER_ACTION) for key in (52, 53, 54, 82)},
    **{key: (_OWN_ID, frozenset(), _CLUSTER_ACTION) for key in (1, 56, 59, 62, 63, 67, 70, 73)},
    60: (
        "with ALTER, as in stock Kafka, read-only users could use no tool",
        _DESCRIBE,
        frozenset(),
    ),
    50: (
        "a stock controller announces it and does not handle it, so it refuses nobody",
        frozenset(),
        frozenset({NOTHING, *RIGHTS})
        - {f"{each.name}-on-CLUSTER" for each in (_OP.ALTER, _OP.DELETE, _OP.DESCRIBE)},
    ),
}
"""By API key: why our node differs, the clients that only it permits, and those that only the stock controller permits."""
SASL_ONLY = frozenset({17, 36})
"""A controller announces them on SASL listeners."""
UNKNOWN_TOPIC_KEY, TOKENS_KEY = 20, 38
ASKED_OF_TOPICS = frozenset({32, 33, 44})
"""Their requests name a topic here, so the rights for other resources do not count."""
REFUSALS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)


@dataclass
class Side:
    """One of the two quorums: where it is asked, and with which certificates."""

    address: Address
    folder: Path
    ca: Issued
    contexts: dict[str, ssl.SSLContext] = field(default_factory=dict)

    def add(self, name: str) -> None:
        """A client by its subject, without any role."""
        made = issue(name, issuer=self.ca, start=now() - HOURS, end=now() + HOURS, hosts=())
        write_folder(self.folder / name, made, self.ca.certificate)
        self.contexts[name] = client_context(self.folder / name, self.folder / name / "ca.crt")

    def grant(self, name: str, right: Right, admin: ssl.SSLContext) -> None:
        resource, operation = right
        entry = AclCreation(
            resource_type=int(resource),
            resource_name=CLUSTER if resource is AclResource.CLUSTER else TOPIC,
            resource_pattern_type=3,
            principal=f"User:CN={name}",
            host="*",
            operation=int(operation),
            permission_type=3,
        )
        request = CreateAclsRequest(creations=(entry,))
        answer = ask(self.address, CREATE_ACLS, CREATE_ACLS.max_version, request, 20, admin)
        assert isinstance(answer, CreateAclsResponse)
        assert [each.error_code for each in answer.results] == [0], answer

    def may(self, name: str, api: Api, version: int) -> bool:
        """Whether the answer is another one than a refusal."""
        answer = ask(self.address, api, version, request_of(api, SENDER), 20, self.contexts[name])
        return not REFUSALS & {code for _, code in codes(answer)}

    def permitted(self, api: Api, version: int) -> frozenset[str]:
        """The clients that this API does not refuse."""
        return frozenset(name for name in self.contexts if self.may(name, api, version))


@dataclass
class Both:
    stock: Side
    ours: Side
    asked: Mapping[int, int]
    """Versions by key, of the APIs that a stock controller has."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    root = tmp_path_factory.mktemp("rights")
    users = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:CN=admin"}
    with (
        SecuredJavaQuorum(root / "stock") as java,
        TlsQuorum(root / "ours", 1, properties=users) as quorum,
    ):
        java.start()
        quorum.form()
        admin = client_context(quorum.folder("admin"), quorum.folder("admin") / "ca.crt")
        stock = Side(("127.0.0.1", java.controllers[1].port), root / "stock-clients", java.ca)
        ours = Side(("127.0.0.1", quorum.leader.port), root / "our-clients", quorum.ca)
        for side, super_user in ((stock, java.tls), (ours, admin)):
            assert super_user is not None
            side.add(NOTHING)
            for name, right in RIGHTS.items():
                side.add(name)
                side.grant(name, right, super_user)
            wait_until(
                lambda side=side: side.may(f"{_OP.ALTER.name}-on-CLUSTER", CREATE_ACLS, 3),
                "the entries take effect",
            )
        asked = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        told = ask(stock.address, API_VERSIONS, 3, asked, 20, stock.contexts[NOTHING])
        assert isinstance(told, ApiVersionsResponse)
        known = {each.api_key: each.max_version for each in told.api_keys}
        yield Both(
            stock,
            ours,
            {key: min(known[key], APIS[key].max_version) for key in known if key in APIS},
        )


def expected(key: int) -> frozenset[str]:
    """The clients that the column of stock Kafka permits."""
    needs = STOCK[key]
    assert needs is not None
    if key == UNKNOWN_TOPIC_KEY:
        # Who may describe the topic is told that it does not exist.
        needs = (*needs, on_named(_OP.DESCRIBE, AclResource.TOPIC))
    if key == TOKENS_KEY:
        needs = ()  # delegation tokens are off, so no right is looked at
    if not needs:
        return frozenset({NOTHING, *RIGHTS})
    return frozenset(
        name
        for name, (resource, operation) in RIGHTS.items()
        for need in needs
        if resource is need.resource
        and operation in {need.operation, *IMPLIED_BY.get(need.operation, ())}
        and not (key in ASKED_OF_TOPICS and resource is AclResource.CLUSTER)
    )


def test_stock_controller_permits_what_the_table_says(both: Both) -> None:
    found = {key: both.stock.permitted(APIS[key], version) for key, version in both.asked.items()}
    wrong = {
        f"{key} {APIS[key].name}": (sorted(permitted), sorted(expected(key)))
        for key, permitted in found.items()
        if STOCK.get(key) is not None and permitted != expected(key)
    }
    assert {key for key, needs in STOCK.items() if needs is not None} <= found.keys() | SASL_ONLY
    assert wrong == {}


def test_our_node_permits_the_same_except_for_named_deviations(both: Both) -> None:
    """A deviation that is gone is an error, too."""
    differing = {}
    for key, version in both.asked.items():
        stock, ours = (each.permitted(APIS[key], version) for each in (both.stock, both.ours))
        if stock != ours:
            differing[key] = (ours - stock, stock - ours)
    named = {key: (more, fewer) for key, (_, more, fewer) in DEVIATIONS.items()}
    wrong = {
        APIS[key].name: (differing.get(key), named.get(key))
        for key in differing.keys() | named.keys()
        if differing.get(key) != named.get(key)
    }
    assert wrong == {}
