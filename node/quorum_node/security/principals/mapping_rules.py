"""Kafka's `ssl.principal.mapping.rules`: from the text of a subject to the name of a principal. PURE.

Owns the syntax of the rules (`DEFAULT` and `RULE:pattern/replacement/[LU]`, KIP-371) and their
application. A rule that matches the whole text replaces *every* match of its pattern, as Kafka does
with Java's `replaceAll`; so write `^…$`. The first matching rule applies. If none matches, the
connection is closed.
"""

import re as text_patterns
from collections.abc import Callable
from dataclasses import dataclass

import re2

from quorum_node.security.errors import SecuritySettingError, is_unicode
from quorum_node.security.principals.java_pattern import TranslatedPattern, translate
from quorum_node.security.principals.pattern_source import UnsupportedPattern
from quorum_node.security.principals.replacement import (
    Part,
    UnusableReplacement,
    parse_replacement,
)

KEY = "ssl.principal.mapping.rules"
DEFAULT_RULES = "DEFAULT"
MAX_SUBJECT_CHARS = 1024
"""A longer subject matches no rule. This bounds the time for a certificate, whatever the rules."""
MAX_NAME_CHARS = 4 * MAX_SUBJECT_CHARS
_LINE_TERMINATORS = text_patterns.compile("[\\n\\r\\u0085\\u2028\\u2029]")
_JAVA_BLANKS = "".join(map(chr, range(33)))
_ANY = "[^\\n\\r\\u0085\\u2028\\u2029]"
_TEXT = rf"(?:\\{_ANY}|[^\\/])*"
_RULE = (
    rf"(?P<default>DEFAULT)"
    rf"|RULE:(?P<pattern>{_TEXT})/(?P<replacement>{_TEXT})/(?P<case>[LU]?)(?P<rest>{_ANY}*?)"
    rf"|(?P<other>{_ANY}*?)"
)
_NEXT_RULE = text_patterns.compile(rf"\s*(?:{_RULE})\s*(?:,\s*|\Z)", text_patterns.ASCII)


class NoRuleFits(ValueError):
    """No rule matches a subject, so the certificate has no principal."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern, its replacement, and the case of the result."""

    pattern: "re2._Regexp"
    replacement: tuple[Part, ...]
    to_case: Callable[[str], str]

    def apply(self, subject: str) -> str | None:
        """The name; None if the rule does not match. Raises NoRuleFits if the name is too long."""
        if not self.pattern.fullmatch(subject):
            return None
        parts: list[str] = []
        size = copied = position = 0
        while position <= len(subject):
            found = self.pattern.search(subject, position)
            if not found:
                break
            start, end = found.span()
            made = "".join(
                p if isinstance(p, str) else found.group(p) or "" for p in self.replacement
            )
            parts += (subject[copied:start], made)
            size += start - copied + len(made)
            if size > MAX_NAME_CHARS:
                raise NoRuleFits(f"the name of a principal has at most {MAX_NAME_CHARS} characters")
            copied = end
            position = end if end > start else end + 1
        return self.to_case("".join((*parts, subject[copied:])))


def _unchanged(text: str) -> str:
    return text


_CASES = {"": _unchanged, "L": str.lower, "U": str.upper}


@dataclass(frozen=True, slots=True)
class MappingRules:
    """The rules in order; None stands for DEFAULT."""

    rules: tuple[_Rule | None, ...]

    def name_of(self, subject: str) -> str:
        """The principal's name, without a type. Raises NoRuleFits.

        A subject with line terminators can match DEFAULT only, as the meaning of `.` and `$` would
        depend on them.
        """
        plain = len(subject) <= MAX_SUBJECT_CHARS and not _LINE_TERMINATORS.search(subject)
        for rule in self.rules:
            name = subject if rule is None else rule.apply(subject) if plain else None
            if name is not None:
                return name
        raise NoRuleFits(f"no rule of {KEY} matches the subject {subject[:200]!r}")


def parse_mapping_rules(text: str, key: str = KEY) -> MappingRules:
    """The rules of a configuration. Raises SecuritySettingError, which names the rule."""
    if not is_unicode(text):
        raise SecuritySettingError(key, "contains bytes that are not UTF-8")
    rules: list[_Rule | None] = []
    for match in _NEXT_RULE.finditer(text.strip(_JAVA_BLANKS)):
        rule = match[0].strip(_JAVA_BLANKS + ",")
        if match["default"]:
            rules.append(None)
        elif match["pattern"] is not None:
            if match["rest"]:
                why = f"{match['rest']!r} follows the rule; only L or U may follow the last /"
                raise SecuritySettingError(key, why, rule)
            rules.append(_compiled(key, rule, match))
        elif match["other"]:
            raise SecuritySettingError(
                key, "neither DEFAULT nor RULE:pattern/replacement/[LU]", rule
            )
    if not rules:
        raise SecuritySettingError(
            key, "there is no rule, so no certificate would have a principal", text
        )
    return MappingRules(tuple(rules))


def _compiled(key: str, rule: str, match: "text_patterns.Match[str]") -> _Rule:
    try:
        translated = translate(match["pattern"])
        pattern = _re2_pattern(translated)
        replacement = parse_replacement(
            match["replacement"], translated.group_count, translated.group_names
        )
    except UnsupportedPattern as error:
        raise SecuritySettingError(key, f"the pattern can't be used: {error}", rule) from None
    except UnusableReplacement as error:
        raise SecuritySettingError(key, f"the replacement can't be used: {error}", rule) from None
    return _Rule(pattern, replacement, _CASES[match["case"]])


def _re2_pattern(translated: TranslatedPattern) -> "re2._Regexp":
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(translated.text, options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        text = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise UnsupportedPattern(f"it is too large ({text.split(':')[0]})") from None
