"""Messages for answers that are not those of an admin API, and for none: one line each, with a remedy. Pure."""

import httpx
from pydantic import ValidationError

from quorum_node.quorumctl.trust import uses_tls

_MOST_SHOWN = 200
"""Characters of a text of a server in a message."""
_IS_IT_THE_LISTENER = "is this the admin listener of a node?"


def no_answer(url: str, error: httpx.TransportError, *, alone: bool) -> str:
    """The node at `url` sent no response. `alone`: no other node was named."""
    return f"{url} does not answer ({_shown(str(error))}): {_advice(url, str(error), alone=alone)}"


def unknown_outcome(url: str, path: str, error: httpx.TransportError) -> str:
    """The node at `url` may have received a request for a change, and sent no response."""
    text = f"{url} did not answer ({_shown(str(error))}), and may have made the change: {advice_on_repeating(path)}"
    if not uses_tls(url):
        return text
    return f"{text}; if it refused the certificate of --tls, its log says so"


def advice_on_repeating(path: str) -> str:
    """What to do before a change with an unknown outcome is requested again. `path`: of the request."""
    if path.startswith("/v1/configs/"):
        return "repeating the command is safe unless another client writes the same key"
    return "check the quorum before you repeat the command"


def unreadable(url: str, error: ValidationError | httpx.RequestError) -> str:
    """A response with a status of success whose content is not a document of this API."""
    return f"{url} sent a response that this version of quorumctl can't read ({_fault(error)}): {_IS_IT_THE_LISTENER}"


def unexpected(url: str, answer: httpx.Response) -> str:
    """A response with another status, without an error of this API."""
    text = _shown(answer.text) or answer.reason_phrase or "without a text"
    return f"{url} answered {answer.status_code}: {text}: {_IS_IT_THE_LISTENER}"


def _advice(url: str, reason: str, *, alone: bool) -> str:
    secure = uses_tls(url)
    if "has expired" in reason or "not yet valid" in reason:
        return "renew its certificate, or correct the clock of this host"
    if "certificate is not valid for" in reason:
        return "use a host name or address that its certificate contains"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return "is --tls the folder with the ca.crt of this quorum?"
    if "WRONG_VERSION_NUMBER" in reason:
        return "it does not use TLS: write http:// if it is an admin listener"
    if "disconnected" in reason or "TLSV1" in reason:
        if secure:
            return "it may refuse the certificate of --tls; the log of the node says why"
        return "write https:// if it is an admin listener with TLS"
    several = " Give several nodes with --admin URL,URL or QUORUMCTL_ADMIN" if alone else ""
    return f"is the node running, and is this its admin listener?{several}"


def _fault(error: ValidationError | httpx.RequestError) -> str:
    if isinstance(error, httpx.RequestError):
        return _shown(str(error))
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return _shown(f"{field}: {first['msg']}" if field else first["msg"])


def _shown(text: str) -> str:
    return " ".join(text.split())[:_MOST_SHOWN]
