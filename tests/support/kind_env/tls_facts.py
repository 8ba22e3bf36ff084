"""Whether the members of a quorum on a cluster speak TLS only, by what they answer and not by what the spec asks for.

Owns the checks. The demo prints the facts and fails on the problems.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from support.envtest.kube_api import ApiError

Json = dict[str, Any]
_NODE = "/v1/node"
_REFUSED = 404
"""The port in clear text has probes and metrics only."""


class Observed(Protocol):
    """What is used of `kind_env.quorum.Quorum`."""

    def status(self) -> Json:
        """The status of the MetadataQuorum."""

    def pods(self) -> list[Json]:
        """The members' pods."""

    def fetch_from(self, pod: str, path: str) -> Json:
        """GET on a pod's admin API, over TLS where the pod has it."""

    def in_clear_text(self, pod: str, path: str) -> Json:
        """GET on the pod's port in clear text. Raises ApiError."""


@dataclass(frozen=True, slots=True)
class TlsFacts:
    """`secured`: members whose processes present a certificate and answer nothing in clear text. `authority`: its generation."""

    members: int
    secured: int
    authority: int | None
    problems: tuple[str, ...]

    @property
    def text(self) -> str:
        """For the table."""
        return f"{self.secured} of {self.members}, authority {self.authority}"


def look(quorum: Observed) -> TlsFacts:
    """Asks every member."""
    told = quorum.status().get("tls") or {}
    problems = [] if told.get("mode") == "Managed" else [f"the status says of TLS: {told or None}"]
    names = [each["metadata"]["name"] for each in quorum.pods()]
    if not names:
        problems.append("there is no member whose TLS could be checked")
    wrong = {name: _why_not_secured(quorum, name) for name in names}
    problems += [f"{name} {why}" for name, why in wrong.items() if why]
    secured = sum(not why for why in wrong.values())
    return TlsFacts(len(names), secured, told.get("authority"), tuple(problems))


def _why_not_secured(quorum: Observed, pod: str) -> str:
    own = quorum.fetch_from(pod, _NODE).get("tls") or {}
    if not own.get("certificate"):
        return "presents no certificate"
    if own.get("migration") not in (None, "none"):
        return f"also accepts clear text: {own['migration']}"
    if own.get("problem"):
        return f"has a problem with its certificate: {own['problem']}"
    try:
        quorum.in_clear_text(pod, _NODE)
    except ApiError as error:
        return "" if error.status == _REFUSED else f"answers {error.status} in clear text"
    return "serves the admin API in clear text"
