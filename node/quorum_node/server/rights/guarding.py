"""Makes the guard that a configuration asks for.

Owns which settings count, and what an operator hears about a combination that can't work.
"""

from collections.abc import Callable

import structlog

from quorum_node.configuration.listener_config import Migration
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.security.caller import ANONYMOUS_PRINCIPAL
from quorum_node.security.rights.door import DoorSettings
from quorum_node.security.rights.needs import ApiTable
from quorum_node.security.tls.listener_security import SecurityProtocol
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.rights.denials import Denials
from quorum_node.server.rights.guard import DoorGuard, JudgedReplica

_LOG = structlog.get_logger("quorum_node")


def door_settings(config: NodeConfig, table: ApiTable) -> DoorSettings:
    """What is asked of callers."""
    # Who speaks clear text beside TLS can't show whose id it may use.
    binding = config.tls.binding and config.tls.migration is Migration.NONE
    bound = (each.name for each in config.listeners if each.protocol.has_tls and binding)
    logins = (each.name for each in config.listeners if each.protocol.has_sasl)
    return DoorSettings(
        authorizer=config.controller.authorizer,
        bound_listeners=frozenset(bound),
        login_listeners=frozenset(logins),
        auto_join=config.auto_join,
        open_metrics=config.controller.open_metrics,
        table=table,
    )


def make_guard(
    settings: DoorSettings,
    replica: JudgedReplica,
    voter_ids: Callable[[], frozenset[int]],
    metrics: Metrics,
) -> DoorGuard | None:
    """None where nobody is refused anything: nothing is asked then, and it costs nothing."""
    asked = settings.bound_listeners | settings.login_listeners
    if not settings.authorizer.enabled and not asked:
        return None
    return DoorGuard(settings, replica, voter_ids, Denials(metrics))


def warn_of_nameless_members(config: NodeConfig) -> None:
    """Said at start: such a quorum of several members can not form."""
    authorizer = config.controller.authorizer
    if not authorizer.enabled or ANONYMOUS_PRINCIPAL in authorizer.super_users:
        return
    dials_plain = config.tls.migration is Migration.ACCEPT
    if config.dialled.protocol is SecurityProtocol.PLAINTEXT or dials_plain:
        _LOG.warning(
            f"authorizer.class.name is set, and on listener {config.dialled.name} (PLAINTEXT) nobody can show who"
            f" they are: other members and brokers are {ANONYMOUS_PRINCIPAL} there, and what they ask is refused."
            " Give the listener SSL in listener.security.protocol.map. Or, where a firewall keeps everybody else"
            f" away, add {ANONYMOUS_PRINCIPAL} to super.users: then whoever reaches the port may do everything"
        )
