"""Distinguished names in Java's text form, on which Kafka's rules and principals are based. PURE.

Owns the text of `javax.security.auth.x500.X500Principal.getName()`: RFC 2253 as implemented by
Java. The last RDN comes first; nine attributes have names, all others are written as object
identifier with the value in hexadecimal; `#` and `=` are always escaped. An interop test compares
it with Java.
"""

import re

from quorum_node.security.principals import der

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_STRING_TAGS = frozenset({12, 19, 20, 22, 27, 30})
"""UTF8, Printable, T61, IA5, General and BMPString. Java decodes each of them as UTF-8."""
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()
_ESCAPED = frozenset(',=+<>#;"\\')
_PADDING = " \r"


def subject_text(certificate: bytes) -> str:
    """The subject of a certificate in DER. Empty for an empty subject. Raises MalformedDer."""
    return name_text(der.subject_of(certificate))


def name_text(name: bytes) -> str:
    """A Name in DER (RFC 5280, section 4.1.2.4). Raises MalformedDer."""
    rdns = list(der.elements(der.only(name, der.SEQUENCE).content))
    return ",".join(_rdn_text(rdn) for rdn in reversed(rdns))


def _rdn_text(rdn: der.Element) -> str:
    attributes = list(der.elements(rdn.content))
    if rdn.tag != der.SET or not attributes:
        raise der.MalformedDer("a relative distinguished name is a set of at least one attribute")
    return "+".join(_attribute_text(attribute) for attribute in attributes)


def _attribute_text(attribute: der.Element) -> str:
    parts = list(der.elements(attribute.content)) if attribute.tag == der.SEQUENCE else []
    if len(parts) != 2 or parts[0].tag != der.OBJECT_IDENTIFIER:
        raise der.MalformedDer("an attribute is an object identifier and a value")
    identifier, value = der.object_identifier(parts[0].content), parts[1]
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _STRING_TAGS:
        return f"{keyword or identifier}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(_decoded(value.content))}"


def _decoded(content: bytes) -> str:
    """Invalid UTF-8 becomes U+FFFD; a surrogate, complete or truncated, becomes one of them, as in Java."""
    return _SURROGATE.sub(_REPLACEMENT, content).decode(errors="replace")


def _escaped(text: str) -> str:
    core = text.lstrip(_PADDING)
    leading = len(text) - len(core)
    core = core.rstrip(_PADDING)
    trailing = len(text) - leading - len(core)
    middle = "".join(
        f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in core
    )
    padding = [f"\\{char}" for char in text]
    return "".join((*padding[:leading], middle, *padding[len(text) - trailing :]))
