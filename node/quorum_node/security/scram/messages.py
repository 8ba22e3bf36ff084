"""The messages of a SCRAM exchange, as bytes. PURE.

Owns their syntax: RFC 5802, section 7, as far as Kafka accepts it (ASCII names, no channel
binding). Signed parts are kept as received, and not rebuilt from parsed values.
"""

import base64
import re
from dataclasses import dataclass

MAX_MESSAGE_BYTES = 16 << 10
"""Far more than any client sends. It limits the work for an unauthenticated client."""
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL = re.compile(
    rf"(?P<unsigned>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_WITH_BINDING = re.compile(r"(?:y|p=[^,]*),")
_RESERVED = re.compile(r"n,[^,]*,m=")


class MalformedScram(ValueError):
    """Not the expected message. The text states the reason and contains nothing of the message."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """`header`: the GS2 header; `bare`: the rest, which is signed."""

    header: str
    bare: str
    user: str
    authorization_id: str | None
    nonce: str
    extensions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """`unsigned`: all but the proof."""

    unsigned: str
    channel_binding: bytes
    nonce: str
    proof: bytes


def parse_client_first(data: bytes) -> ClientFirst:
    """The first message of a client. Raises MalformedScram."""
    text = _text(data)
    match = _FIRST.fullmatch(text)
    if match is None:
        if _WITH_BINDING.match(text):
            raise MalformedScram(
                "channel binding is not supported: the message has to begin with n,"
            )
        if _RESERVED.match(text):
            raise MalformedScram(
                "it has an extension that must be understood (m=), and none is known"
            )
        raise MalformedScram("it is not a client's first message")
    pairs = (each.partition("=") for each in match["extensions"].split(",") if each)
    return ClientFirst(
        match["header"],
        match["bare"],
        _name(match["user"]),
        None if match["authzid"] is None else _name(match["authzid"]),
        match["nonce"],
        tuple((name, value) for name, _, value in pairs),
    )


def parse_client_final(data: bytes) -> ClientFinal:
    """The last message of a client. Raises MalformedScram."""
    match = _FINAL.fullmatch(_text(data))
    if match is None:
        raise MalformedScram("it is not a client's last message")
    return ClientFinal(
        match["unsigned"],
        base64.b64decode(match["binding"]),
        match["nonce"],
        base64.b64decode(match["proof"]),
    )


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    """The challenge."""
    return f"r={nonce},s={base64.b64encode(salt).decode()},i={iterations}"


def server_final(signature: bytes) -> str:
    """The server's own proof."""
    return f"v={base64.b64encode(signature).decode()}"


def is_nonce(text: str) -> bool:
    """Whether a nonce has characters that may stand in a message."""
    return re.fullmatch(_NONCE, text) is not None


def _text(data: bytes) -> str:
    if len(data) > MAX_MESSAGE_BYTES:
        raise MalformedScram(f"it has more than {MAX_MESSAGE_BYTES} bytes")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise MalformedScram("it has characters beyond ASCII") from None


def _name(text: str) -> str:
    return text.replace("=2C", ",").replace("=3D", "=")
