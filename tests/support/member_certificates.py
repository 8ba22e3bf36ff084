"""Certificates of members for a quorum with an authorizer: without them its members could not even vote.

Owns the files. A quorum of tests that says more about certificates is `tls_quorum`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

_HOUR = timedelta(hours=1)
_ANYBODY = "User:ANONYMOUS"


def needs_certificates(properties: Mapping[str, str]) -> bool:
    """Whether members have to say who they are: nobody is anonymous and allowed everything."""
    users = {each.strip() for each in properties.get("super.users", "").split(";")}
    return "authorizer.class.name" in properties and _ANYBODY not in users


class MemberCertificates:
    """One authority, and a folder for each member."""

    def __init__(self, folder: Path) -> None:
        # Most quorums of tests need none, and the library takes a while to load.
        from support.made_certificates import authority

        self._folder = folder
        now = datetime.now(UTC)
        self._ca = authority("members", start=now - _HOUR, end=now + 24 * _HOUR)

    def properties_of(self, node_id: int) -> dict[str, str]:
        """What the node is told, with the files that this names."""
        from support.made_certificates import issue, pem

        now = datetime.now(UTC)
        made = issue(
            f"member-{node_id}",
            issuer=self._ca,
            start=now - _HOUR,
            end=now + 24 * _HOUR,
            hosts=("127.0.0.1", "localhost"),
            uris=(f"urn:metadataquorum:ns:demo:member:{node_id}",),
        )
        folder = self._folder / str(node_id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "keystore.pem").write_bytes(made.keystore)
        (folder / "ca.crt").write_bytes(pem(self._ca.certificate))
        return {
            "listener.name.controller.ssl.keystore.location": str(folder / "keystore.pem"),
            "listener.name.controller.ssl.truststore.location": str(folder / "ca.crt"),
        }
