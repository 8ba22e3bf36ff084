"""Encodes and decodes whole messages: the interface of the compiled codecs.

Owns the boundary between compiled code and callers. Must not know frames or headers (`frames.py`).
"""

import struct
from typing import TypeVar

from quorum_node.schema.decoder import MAX_ELEMENTS, decoder
from quorum_node.schema.encoder import FieldNotInVersion, Part, encoder
from quorum_node.schema.primitives import Buffer, MalformedRecord
from quorum_node.schema.schema import MalformedMessage, Message

_M = TypeVar("_M", bound=Message)


def encode(message: Message, version: int) -> bytes:
    """The body of a message, without any header."""
    parts: list[Part] = []
    encode_into(parts, message, version)
    return b"".join(parts)


def encode_into(parts: list[Part], message: Message, version: int) -> None:
    """Appends the body to `parts`; record data is appended, not copied.

    Raises FieldNotInVersion if a value does not fit into its field.
    """
    cls = type(message)
    try:
        encoder(cls, version, version >= cls.FLEXIBLE_SINCE)(message, parts)
    except struct.error as error:
        raise FieldNotInVersion(f"{cls.__name__} version {version}: {error}") from error


def compile_encoder(cls: type[Message], version: int) -> None:
    """Compile the encoder now instead of at its first use."""
    encoder(cls, version, version >= cls.FLEXIBLE_SINCE)


def compile_decoder(cls: type[Message], version: int) -> None:
    """Compile the decoder now instead of at its first use."""
    decoder(cls, version, version >= cls.FLEXIBLE_SINCE)


def decode(
    cls: type[_M],
    version: int,
    buffer: Buffer,
    position: int = 0,
    max_elements: int = MAX_ELEMENTS,
    *,
    whole: bool = True,
) -> _M:
    """A message that fills the buffer from `position` to its end, with a limited number of array elements.

    Without `whole` it may end earlier.
    Records inside are views of `buffer`. Raises MalformedMessage, and nothing else, on invalid bytes.
    """
    try:
        made, end = decoder(cls, version, version >= cls.FLEXIBLE_SINCE)(
            buffer, position, len(buffer), [max_elements]
        )
    except (struct.error, IndexError):
        raise MalformedMessage(f"{cls.__name__} v{version} runs past the end") from None
    except UnicodeDecodeError:
        raise MalformedMessage(f"{cls.__name__} v{version}: a string is not UTF-8") from None
    except MalformedRecord as error:
        raise MalformedMessage(f"{cls.__name__} v{version}: {error}") from None
    if whole and end != len(buffer):
        left = len(buffer) - end
        raise MalformedMessage(f"{left} bytes after {cls.__name__} v{version}")
    message: _M = made
    return message
