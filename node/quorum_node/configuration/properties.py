"""Properties: texts by key, read from a file and overrides, looked up by the table.

Owns the words of every refusal of a single value: which key, which value, and why.
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
"""What is called otherwise may be a line of a private key."""


class ConfigError(ValueError):
    """A configuration that can't be used; the message says which key, which value, and why."""


class Properties:
    """Key → text. What is empty counts as absent."""

    def __init__(self, raw: dict[str, str]) -> None:
        self._raw = raw

    def has(self, key: Key[Any]) -> bool:
        """Whether the key has a value that is not empty."""
        return bool(self._raw.get(key.name))

    def text(self, key: Key[Any]) -> str:
        """The value as it is written; empty if there is none."""
        return self._raw.get(key.name, "")

    def get(self, key: Key[T]) -> T:
        """The value, or the default. Raises ConfigError."""
        return self._get(key, key.name, "")

    def get_for(self, key: Key[T], listener: str) -> T:
        """The same for one listener, named in small letters: its own value goes before that of all."""
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
        """All of them, unchecked: for settings that are read together."""
        return self._raw

    def wrong(self, key: Key[Any], why: str) -> ConfigError:
        """The error to raise for a value that is wrong beside others."""
        return ConfigError(f"{key.name}={self.text(key)}: {why}")

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """A misspelt key would silently leave its default in force. Its value may be a secret and is not shown."""
        names = list(known)
        for key in self._raw:
            if key not in names:
                if not _is_name(key):
                    raise ConfigError(
                        "a line has a key that is none, and is not shown as it may be a secret: line ends within a value"
                        " are written \\n"
                    )
                near = get_close_matches(key, names, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(f"{key}: no such key{hint}")


def _is_name(text: str) -> bool:
    """Whether it can be a key: words with dots; one without has no capital letters between small ones, as base64 has."""
    if len(text) > _LONGEST_NAME or not _NAME.fullmatch(text.lower()):
        return False
    return "." in text or text in (text.lower(), text.upper())


def read_pairs(path: Path, overrides: Iterable[str] = ()) -> dict[str, str]:
    """The unchecked properties of a file; `overrides` are key=value texts that win. Raises ConfigError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {path} can't be read: {error}") from error
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
