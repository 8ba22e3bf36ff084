"""Stock brokers on a quorum with certificates: mutual TLS between brokers, SCRAM for clients, an authorizer.

Owns their files and the identities of clients. `quorum` needs an authorizer (`unauthorized_clients.LockedQuorum`). The tests send the requests.
"""

from pathlib import Path

from support import stock_kafka
from support.client_properties import SCRAM_MODULE, by_certificate, by_password
from support.java_brokers import JavaBroker, JavaBrokers
from support.java_clients import Clients
from support.ports import free_ports
from support.tls_quorum import TlsQuorum, certificate_of, write_folder

ADMIN = "User:CN=admin"
"""The principal of the quorum's administrator, by the subject of the certificate."""
_ACLS = "org.apache.kafka.tools.AclCommand"


class SecuredBrokers(JavaBrokers):
    """Brokers 101.. of one quorum."""

    def __init__(self, root: Path, quorum: TlsQuorum, brokers: int, **properties: str) -> None:
        self.quorum = quorum
        self._secure_ports: dict[int, int] = {}
        ports = [node.port for node in quorum.nodes.values()]
        super().__init__(root, quorum.cluster_id, ports, brokers, **properties)

    def properties_of(self, broker: JavaBroker) -> dict[str, str]:
        """See `JavaBrokers`; makes the certificate that this names."""
        folder = self.quorum.folder(f"broker-{broker.id}")
        made = certificate_of("broker", broker.id, self.quorum.ca)
        write_folder(folder, made, *self.quorum.trusted)
        (self._secure_ports[broker.id],) = free_ports(1)
        places = f"BROKERS://{self._secure(broker.id)},CLIENTS://127.0.0.1:{broker.port}"
        # Super users of a broker may do everything at this broker; the controllers have their own rules.
        superusers = ";".join((ADMIN, *(f"User:CN=broker-{each}" for each in self.brokers)))
        return {
            "listeners": places,
            "advertised.listeners": places,
            "inter.broker.listener.name": "BROKERS",
            "listener.security.protocol.map": "CONTROLLER:SSL,BROKERS:SSL,CLIENTS:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": str(folder / "keystore.pem"),
            "ssl.truststore.location": str(folder / "ca.crt"),
            "ssl.client.auth": "required",
            "listener.name.clients.ssl.client.auth": "none",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": superusers,
        }

    def grant(self, principal: str, *rights: str) -> None:
        """Access control entries, by the administrator and through a controller. `rights`: options of kafka-acls."""
        controllers = ",".join(f"127.0.0.1:{node.port}" for node in self.quorum.nodes.values())
        options = ["--bootstrap-controller", controllers, "--add", "--force"]
        self._run(_ACLS, *options, "--allow-principal", principal, *rights)

    def make_user(self, name: str, password: str) -> None:
        """Creates a SCRAM user. Stock Kafka does so through a broker, which forwards the request to a controller."""
        credential = f"SCRAM-SHA-512=[password={password}]"
        options = ["--bootstrap-server", self._secure(min(self.brokers)), "--alter"]
        options += ["--entity-type", "users", "--entity-name", name, "--add-config", credential]
        self._run(stock_kafka.CONFIGS, *options)

    def clients_of(self, name: str, password: str) -> Clients:
        """Stock clients that log in; the caller closes them."""
        return Clients.here(self.bootstrap, self.root / name, self._login(name, password))

    def secure_port(self, broker_id: int) -> int:
        """The port of the listener BROKERS, where callers have certificates."""
        return self._secure_ports[broker_id]

    def _secure(self, broker_id: int) -> str:
        return f"127.0.0.1:{self._secure_ports[broker_id]}"

    def _login(self, name: str, password: str) -> Path:
        path = self.root / f"{name}.properties"
        path.write_text(by_password(name, password, self.quorum.folder("admin") / "ca.crt"))
        return path

    def _run(self, tool: str, *arguments: str) -> None:
        path = self.root / "admin.properties"
        path.write_text(by_certificate(self.quorum.folder("admin")))
        done = stock_kafka.run_tool(tool, *arguments, "--command-config", str(path))
        assert done.returncode == 0, done.stdout + done.stderr
