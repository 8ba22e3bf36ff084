"""Addresses and client credentials for the controllers of a running quorum.

Contains only text, so that it can be sent to executors. Files are read where the connection is opened, so they have to exist
in the executors' pods. No Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quorum_node.host_port import HostPort
from quorum_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from quorum_pipeline.live.quorum import Quorum

NO_REPLICAS = "none"
"""In place of addresses: only the leader is read."""


@dataclass(frozen=True, slots=True)
class Controllers:
    """`tls`: a folder with ca.crt, tls.crt and tls.key; `command_config`: a properties file of Kafka's tools. Both empty: no TLS.
    `replicas`: admin APIs that are read besides the leader; None: those of the other voters.
    """

    addresses: tuple[tuple[str, int], ...]
    tls: str = ""
    command_config: str = ""
    replicas: tuple[tuple[str, int], ...] | None = None

    @property
    def name(self) -> str:
        """The addresses as `host:port`, separated by commas."""
        return _text(self.addresses)

    def options(self) -> dict[str, str]:
        """Return the options of a data source."""
        given = {"tls": self.tls, "commandConfig": self.command_config}
        if self.replicas is not None:
            given["replicas"] = _text(self.replicas) or NO_REPLICAS
        return {"bootstrap": self.name, **{key: each for key, each in given.items() if each}}

    def open(self) -> Quorum:
        """Open a client, to be closed by the caller. Raises PipelineError if the files can't be used."""
        from quorum_node.client_tls import ClientTlsError, tls_of_options
        from quorum_pipeline.live.quorum import Quorum

        folder = Path(self.tls) if self.tls else None
        config = Path(self.command_config) if self.command_config else None
        try:
            tls = tls_of_options(folder, config)
            if tls is not None:
                tls.context()
        except ClientTlsError as error:
            raise PipelineError(str(error)) from None
        return Quorum(self.addresses, tls=tls, replicas=self.replicas)


def controllers_of(
    bootstrap: str, tls: str = "", command_config: str = "", replicas: str = ""
) -> Controllers:
    """Parse the user's options. `replicas`: `host:port` separated by commas, `none`, or empty. Raises PipelineError."""
    # Imported here: Spark starts a Python process for each call to a source, and reading a
    # directory needs no client.
    from quorum_pipeline.live.quorum import parsed_addresses

    others: tuple[tuple[str, int], ...] | None = None
    if replicas:
        others = () if replicas == NO_REPLICAS else tuple(parsed_addresses(replicas))
    return Controllers(tuple(parsed_addresses(bootstrap)), tls, command_config, others)


def _text(addresses: tuple[tuple[str, int], ...]) -> str:
    return ",".join(str(HostPort(*each)) for each in addresses)
