"""Properties: text by key, read from a file and overrides, checked by the table of keys.

Owns the messages about invalid values: key, value, and reason.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from quorum_node.configuration.key import REQUIRED, Key
from quorum_node.configuration.value_kinds import WrongValue
from quorum_node.java_properties import parse_properties

T = TypeVar("T")
_NAME = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)*", re.ASCII)
_LONGEST_NAME = 120
"""Pattern of key names. Other text may be part of a private key and is not shown."""


class ConfigError(ValueError):
    """An invalid configuration; the message states key, value, and reason."""


class Properties:
    """Key → text. An empty value counts as absent."""

    def __init__(self, raw: dict[str, str]) -> None:
        self._raw = raw

    def has(self, key: Key[Any]) -> bool:
        """Whether the key has a value that is not empty."""
        return bool(self._raw.get(key.name))

    def text(self, key: Key[Any]) -> str:
        """The raw value; empty if there is none."""
        return self._raw.get(key.name, "")

    def get(self, key: Key[T]) -> T:
        """The value, or the default. Raises ConfigError."""
        return self._get(key, key.name, "")

    def get_for(self, key: Key[T], listener: str) -> T:
        """The value for one listener, named in lower case: its own value precedes the general one."""
        own = key.name_for(listener)
        return self._get(key, own if self._raw.get(own) else key.name, listener)

    def _get(self, key: Key[T], name: str, listener: str) -> T:
        text = self._raw.get(name)
        if text:
            try:
                return key.kind.parse(text)
            except WrongValue as wrong:
                raise ConfigError(f"{name}={text}: {wrong}") from None
        if key.default is REQUIRED:
            raise ConfigError(f"{name} is not set; it has no default")
        return key.default_of(listener)

    @property
    def raw(self) -> Mapping[str, str]:
        """All properties, unchecked: for settings that are parsed together."""
        return self._raw

    def wrong(self, key: Key[Any], why: str) -> ConfigError:
        """The error for a value that is invalid in combination with others."""
        return ConfigError(f"{key.name}={self.text(key)}: {why}")

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuse unknown keys: otherwise a misspelt key would silently have its default.

        The value may be a secret and is not shown.
        """
        names = list(known)
        for key in self._raw:
            if key not in names:
                if not _is_name(key):
                    raise ConfigError(
                        "a line has an invalid key and is not shown, as it may be part of a secret: write"
                        " line ends within a value as \\n"
                    )
                near = get_close_matches(key, names, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(f"{key}: no such key{hint}")


def _is_name(text: str) -> bool:
    """Whether it may be a key: words with dots.

    A word without dots must not have upper-case letters between lower-case ones, as base64 has.
    """
    if len(text) > _LONGEST_NAME or not _NAME.fullmatch(text.lower()):
        return False
    return "." in text or text in (text.lower(), text.upper())


def read_pairs(path: Path, overrides: Iterable[str] = ()) -> dict[str, str]:
    """The unchecked properties of a file; `overrides` (key=value) take precedence. Raises ConfigError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"the configuration file {path} can't be read: {why}") from error
    try:
        pairs = parse_properties(text)
    except ValueError as error:
        raise ConfigError(f"the configuration file {path}: {error}") from error
    for override in overrides:
        key, found, value = override.partition("=")
        if not found:
            shown = repr(override) if "." in override and _is_name(override) else "(not shown)"
            raise ConfigError(f"--override {shown} is not key=value")
        pairs[key.strip()] = value.strip()
    return pairs
