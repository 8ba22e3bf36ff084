"""Requests of which the sender may use some items only: a stock broker and ours answer the same, item by item.

Each client holds one right, or those that belong together, for names with a prefix.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from quorum_node.security.acl_terms import AclOperation, AclResource
from support.local_quorum import wait_until
from support.mixed_rights import cluster_requests, group_requests, topic_requests
from support.mixed_rights.clusters import Right, Side
from support.mixed_rights.items import Case
from support.secured_brokers import SecuredBrokers
from support.tls_python_brokers import ADMIN, TlsPythonBrokers
from support.unauthorized_clients import LockedQuorum

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

STOCK, OURS = 101, 201
_OP, _ON = AclOperation, AclResource
_SINGLE: tuple[Right, ...] = tuple(
    (resource, operation)
    for resource, operations in (
        (_ON.CLUSTER, (_OP.CREATE, _OP.ALTER, _OP.DESCRIBE, _OP.CLUSTER_ACTION, _OP.IDEMPOTENT_WRITE, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS)),
        (_ON.TOPIC, (_OP.READ, _OP.WRITE, _OP.CREATE, _OP.DELETE, _OP.ALTER, _OP.DESCRIBE, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS)),
        (_ON.GROUP, (_OP.READ, _OP.DELETE, _OP.DESCRIBE, _OP.DESCRIBE_CONFIGS)),
    )
    for operation in operations
)  # fmt: skip
CLIENTS: dict[str, tuple[Right, ...]] = {
    "nobody": (),
    **{f"{operation.name}-on-{resource.name}": ((resource, operation),) for resource, operation in _SINGLE},
    "consumer": ((_ON.TOPIC, _OP.READ), (_ON.GROUP, _OP.READ)),
    "describer": ((_ON.TOPIC, _OP.DESCRIBE), (_ON.GROUP, _OP.DESCRIBE)),
    "deleter": ((_ON.TOPIC, _OP.READ), (_ON.GROUP, _OP.DELETE)),
    "owner": ((_ON.TOPIC, _OP.ALL), (_ON.GROUP, _OP.ALL)),
}  # fmt: skip


@dataclass
class Both:
    """The two clusters."""

    stock: Side
    ours: Side


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    root = tmp_path_factory.mktemp("mixed")
    settings = {
        "offsets_topic_num_partitions": "1",
        "offsets_topic_replication_factor": "1",
        # The batches have old timestamps. A stock broker deletes such records 30 s after its start.
        "log_retention_ms": "-1",
    }
    users = {"super.users": ADMIN}
    with (
        LockedQuorum(root / "quorum-of-stock", 1, **users) as of_stock,
        LockedQuorum(root / "quorum-of-ours", 1, **users) as of_ours,
    ):
        of_stock.form()
        of_ours.form()
        with (
            SecuredBrokers(
                root / "stock", of_stock, 1, auto_create_topics_enable="false", **settings
            ) as java,
            TlsPythonBrokers(of_ours, root / "ours", 1, **settings) as ours,
        ):
            java.start()
            ours.start()
            stock = Side(of_stock, STOCK, java.secure_port(STOCK))
            found = Both(stock, Side(of_ours, OURS, ours.nodes[OURS].port))
            wait_until(stock.is_live, "the stock broker is unfenced", 120)
            for side in (found.stock, found.ours):
                side.fill()
                for name, rights in CLIENTS.items():
                    side.add(name, rights)
                wait_until(lambda side=side: side.sees("owner", "mine"), "the rights count", 60)  # type: ignore[misc]
                wait_until(side.has_producer_ids, "a block of producer ids has come", 60)
            yield found
            found.stock.close()
            found.ours.close()


@pytest.mark.parametrize(
    "cases",
    [
        group_requests.commits,
        group_requests.fetches,
        group_requests.coordinators,
        group_requests.administration,
        group_requests.members,
        topic_requests.metadata,
        topic_requests.produces,
        topic_requests.fetches,
        topic_requests.partitions,
        topic_requests.configs,
        cluster_requests.cluster,
        cluster_requests.producers,
        cluster_requests.forwarded,
    ],
)
def test_items_are_refused_as_by_a_stock_broker(
    both: Both, cases: Callable[[], Iterator[Case]]
) -> None:
    differences = []
    for who in CLIENTS:
        assert both.stock.commits()
        assert both.ours.commits()
        for case in cases():
            stock, ours = both.stock.answer(who, case), both.ours.answer(who, case)
            if stock != ours:
                api, version, make = case
                body = make(both.ours.ids)
                differences.append(
                    f"{who}: {api.name} {version} {body}\n  stock {stock}\n  ours  {ours}"
                )
    assert not differences, f"{len(differences)}\n" + "\n".join(differences)
