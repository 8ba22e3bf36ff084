"""The ports of a node with TLS. See `secured_ports`."""

from collections.abc import Callable, Iterator
from typing import cast

from quorum_node.api import TlsDescription
from quorum_node.configuration.keys.listeners import ADMIN_LISTENER
from quorum_node.configuration.listener_config import Migration
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.security.certificate_identity import Role
from quorum_node.security.tls.material import Material
from quorum_node.security.tls.peers import next_expiry
from quorum_node.server.admin.tls_view import tls_document
from quorum_node.server.listener.mixed_authentication import MixedAuthentication
from quorum_node.server.listener.tls_authentication import TlsAuthentication
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.refused_peers import RefusedPeers
from quorum_node.server.peers.dialling import Dialling
from quorum_node.server.peers.tls_dialling import TlsDialling
from quorum_node.server.process.secured_ports import VoterAt
from quorum_node.server.process.tls_rotation import TlsRotation
from quorum_node.server.starting.tls_loading import TlsOfPorts


class PortsWithTls:
    """See `SecuredPorts`."""

    def __init__(
        self, config: NodeConfig, tls: TlsOfPorts, metrics: Metrics, voter_at: VoterAt
    ) -> None:
        self._config = config
        self._tls = tls
        reports = RefusedPeers()

        def counting(name: str) -> Callable[[str], None]:
            label = name.lower()
            return lambda why: metrics.count_labelled("connections_closed", f"{label} {why}")

        self.authentications: dict[str, TlsAuthentication | MixedAuthentication] = {
            name: TlsAuthentication(name, files, config.tls, reports, counting(name))
            for name, files in tls.items()
            if config.is_member or name != config.quorum_listener
        }
        self._mixed: MixedAuthentication | None = None
        if config.tls.migration is not Migration.NONE:
            for name in {config.dialled.name, ADMIN_LISTENER} & self.authentications.keys():
                self.authentications[name] = MixedAuthentication(
                    cast(TlsAuthentication, self.authentications[name])
                )
            self._mixed = cast(MixedAuthentication, self.authentications[config.dialled.name])
        dialled = tls.get(config.quorum_listener)
        plain = dialled is None or config.tls.migration is Migration.ACCEPT
        self.dialling = (
            None
            if plain or dialled is None
            else TlsDialling(
                dialled,
                config.tls,
                reports,
                voter_at,
                lambda reason: metrics.count_labelled("dialled_refusals", reason),
            )
        )
        metrics.ask_at_scrape(self._gauges)
        self._reports, self._metrics, self._voter_at = reports, metrics, voter_at
        self._rotation: TlsRotation | None = None
        self._described: tuple[Material, TlsDescription] | None = None

    def dial_brokers(self, broker_at: VoterAt) -> Dialling | None:
        """See `SecuredPorts`."""
        return self._dial_as_broker(broker_at, Role.BROKER)

    def dial_controllers_as_broker(self) -> Dialling | None:
        """See `SecuredPorts`."""
        return None if self.dialling is None else self._dial_as_broker(self._voter_at, Role.MEMBER)

    def _dial_as_broker(self, node_at: VoterAt, role: Role) -> Dialling | None:
        files = self._tls.get(self._config.between_brokers.name)
        if files is None:
            return None
        return TlsDialling(
            files,
            self._config.tls,
            self._reports,
            node_at,
            lambda reason: self._metrics.count_labelled("dialled_refusals", reason),
            role,
        )

    def describe(self) -> TlsDescription | None:
        """See `SecuredPorts`: the certificate of the listener that members connect to, else of any listener."""
        files = self._tls.get(self._config.dialled.name) or next(iter(self._tls.values()))
        material, problem = files.material, files.problem or files.own_problem
        if self._described is None or self._described[0] is not material:
            self._described = material, tls_document(material)
        text = None if problem is None else str(problem)
        update: dict[str, object] = {"problem": text}
        if self._mixed is not None:
            update["migration"] = self._config.tls.migration.value
            update["clear_text"] = list(self._mixed.in_clear_text())
        return self._described[1].model_copy(update=update)

    def _gauges(self) -> dict[str, float | dict[str, float]]:
        own, authorities = dict[str, float](), dict[str, float]()
        problems, revoked = dict[str, float](), dict[str, float]()
        for name, files in self._tls.items():
            label, trust = name.lower(), files.trust
            own[label] = files.material.pair.leaf.not_valid_after_utc.timestamp()
            first = next_expiry(() if trust is None else trust.certificates)
            if first is not None:
                authorities[label] = first.timestamp()
            problems[label] = float((files.problem or files.own_problem) is not None)
            revoked[label] = float(len(files.material.revoked))
        return {
            "certificate_not_after_seconds": own,
            "authority_not_after_seconds": authorities,
            "certificate_problem": problems,
            "revoked_certificates": revoked,
        }

    def start(self, renew: Callable[..., None]) -> None:
        """See `SecuredPorts`."""
        self._rotation = TlsRotation(
            self._tls,
            self.authentications,
            frozenset(self._dialled_listeners()),
            self._config.tls.files_poll_ms,
            renew,
        )
        self._rotation.start()

    def _dialled_listeners(self) -> Iterator[str]:
        """Those whose certificates this node presents to others."""
        yield self._config.quorum_listener
        yield self._config.dialled.name
        if self._config.broker is not None:
            yield self._config.between_brokers.name

    def stop(self) -> None:
        """See `SecuredPorts`."""
        if self._rotation is not None:
            self._rotation.stop()
