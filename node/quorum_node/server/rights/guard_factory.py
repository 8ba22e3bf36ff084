"""Creates the guard that a configuration requires.

Owns which settings are used, and the warning about a combination that can't work.
"""

from collections.abc import Callable

import structlog

from quorum_node.configuration.listener_config import Migration
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.security.caller import ANONYMOUS_PRINCIPAL
from quorum_node.security.rights.needs import ApiTable
from quorum_node.security.rights.request_authorizer import AccessSettings
from quorum_node.security.tls.listener_security import SecurityProtocol
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.rights.denials import Denials
from quorum_node.server.rights.guard import CachingGuard, GuardedReplica

_LOG = structlog.get_logger("quorum_node")


def access_settings(config: NodeConfig, table: ApiTable) -> AccessSettings:
    """The settings of authorization."""
    # On a listener that also accepts clear text, clients can't prove whose id they use.
    binding = config.tls.binding and config.tls.migration is Migration.NONE
    bound = (each.name for each in config.listeners if each.protocol.has_tls and binding)
    logins = (each.name for each in config.listeners if each.protocol.has_sasl)
    return AccessSettings(
        authorizer=config.controller.authorizer,
        bound_listeners=frozenset(bound),
        login_listeners=frozenset(logins),
        auto_join=config.auto_join,
        open_metrics=config.controller.open_metrics,
        table=table,
    )


def make_guard(
    settings: AccessSettings,
    replica: GuardedReplica,
    voter_ids: Callable[[], frozenset[int]],
    metrics: Metrics,
) -> CachingGuard | None:
    """None if no request is ever refused: then nothing is checked, and there is no cost."""
    asked = settings.bound_listeners | settings.login_listeners
    if not settings.authorizer.enabled and not asked:
        return None
    return CachingGuard(settings, replica, voter_ids, Denials(metrics))


def warn_of_anonymous_members(config: NodeConfig) -> None:
    """Logged at the start: with these settings a quorum of several members can't form."""
    authorizer = config.controller.authorizer
    if not authorizer.enabled or ANONYMOUS_PRINCIPAL in authorizer.super_users:
        return
    dials_plain = config.tls.migration is Migration.ACCEPT
    if config.dialled.protocol is SecurityProtocol.PLAINTEXT or dials_plain:
        _LOG.warning(
            f"authorizer.class.name is set, but on listener {config.dialled.name} (PLAINTEXT) clients can't"
            f" authenticate: other members and brokers are {ANONYMOUS_PRINCIPAL} there, and their requests are refused."
            " Give the listener SSL in listener.security.protocol.map. Or, if a firewall blocks all other"
            f" clients, add {ANONYMOUS_PRINCIPAL} to super.users: every client that reaches the port may then do everything"
        )
