"""First credentials of a quorum, in the syntax of stock Kafka's `format --add-scram` (KIP-900). PURE.

Owns the syntax: `SCRAM-SHA-512=[name=alice,password=alice-secret]`, optionally with `iterations`,
`salt` and `saltedpassword` (both in base64). Error messages show nothing that may be a secret: part
of a password with a comma would be parsed as a setting's name.
"""

import base64
from collections.abc import Callable, Iterable

from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.security.errors import SecuritySettingError, is_unicode
from quorum_node.security.scram.credential import (
    made_from_password,
    made_from_salted_password,
)
from quorum_node.security.scram.mechanism import (
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramMechanism,
)

DEFAULT_ITERATIONS = 4_096
_KEY = "--add-scram"
_SETTINGS = ("name", "password", "iterations", "salt", "saltedpassword")


def parse_add_scram(
    arguments: Iterable[str], fresh_salt: Callable[[], bytes]
) -> tuple[UserScramCredentialRecord, ...]:
    """A record for each argument, in order. Raises SecuritySettingError.

    `fresh_salt` is called for an argument without salt; it returns random bytes.
    """
    return tuple(_record(each.strip(), fresh_salt) for each in arguments)


def _record(argument: str, fresh_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    if not is_unicode(argument):
        raise _wrong("contains bytes that are not UTF-8")
    name, found, text = argument.partition("=")
    mechanism = MECHANISMS.get(name)
    if not found or mechanism is None:
        raise _wrong(f"has to begin with one of {', '.join(MECHANISMS)} and an equals sign")
    if not (len(text) >= 2 and text.startswith("[") and text.endswith("]")):
        raise _wrong(
            f"the settings of {name} have to be in brackets, as in [name=alice,password=…]"
        )
    settings = _settings(text[1:-1])
    user = settings.get("name", "")
    if not user:
        raise _wrong("needs the name of a user (name=…)")
    iterations = _iterations(settings.get("iterations"))
    given_salt = settings.get("salt")
    salt = fresh_salt() if given_salt is None else _base64("salt", given_salt)
    if not salt:
        raise _wrong("the salt is empty")
    if "password" in settings:
        made = made_from_password(mechanism, settings["password"], salt, iterations)
    elif "saltedpassword" not in settings:
        raise _wrong(f"needs a password or a saltedpassword for {user!r}")
    elif given_salt is None:
        raise _wrong(f"the saltedpassword of {user!r} needs the salt that it was made with")
    else:
        salted = _salted_password(mechanism, settings["saltedpassword"])
        made = made_from_salted_password(mechanism, salted, salt, iterations)
    return made.record(user, mechanism)


def _settings(text: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for part in text.rstrip(",").split(","):
        name, found, value = part.partition("=")
        if not found or name not in _SETTINGS:
            known = ", ".join(_SETTINGS)
            raise _wrong(f"unknown setting; settings are {known}; a password can't have a comma")
        quoted = len(value) >= 2 and value.startswith('"') and value.endswith('"')
        settings[name] = value[1:-1] if quoted else value
    return settings


def _iterations(text: str | None) -> int:
    if text is None:
        return DEFAULT_ITERATIONS
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not MIN_ITERATIONS <= number <= MAX_ITERATIONS:
        raise _wrong(f"iterations must be a number from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return number


def _salted_password(mechanism: ScramMechanism, text: str) -> bytes:
    salted = _base64("saltedpassword", text)
    if len(salted) != mechanism.key_bytes:
        raise _wrong(f"a saltedpassword of {mechanism.sasl_name} has {mechanism.key_bytes} bytes")
    return salted


def _base64(name: str, text: str) -> bytes:
    """Padding may be left out, as in Java."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise _wrong(f"the {name} is not base64") from None


def _wrong(why: str) -> SecuritySettingError:
    return SecuritySettingError(_KEY, why)
