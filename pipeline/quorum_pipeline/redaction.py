"""Removes credentials of URIs from every text that is shown: messages, progress, results, descriptions of jobs.

Owns the one rule which parts of a text are credentials. Errors of this package apply it to their own text, on executors and in
data sources, too. In a URI they are the user and password before the host, and the values of all parameters:
`s3a://KEY:SECRET@bucket/p`, `sc://host/;token=T`, `x?sig=S`. Messages of Spark, Hadoop and Python may repeat a secret
without its URI, so the process also remembers the secrets of its own arguments. Standard library only.
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote

SHOWN = "..."
"""Text in the place of a credential. The rule leaves it unchanged, so a text may be redacted twice."""
USER = r"(?:[^\s/'\"]*|[^\s/@:'\"]*:(?!\d+/)[^\s@'\"]*)@"
"""After `:/` and more slashes: user and password, up to the last @ before the path, or, as secret keys of S3 contain slashes, up to
an @ in the path unless a port precedes it. One slash before it is enough: `pathlib` joins both. In the syntax of Python and Java.
"""
_USER = re.compile(f"(?<=:/)(/*){USER}")
_PARAMETER = re.compile(r"([?;&][\w.%-]+=)[^\s;&'\"]*?(?=[,:)\]]*(?:[\s;&'\"]|$))")
_WHOLE_PARAMETER = re.compile(r"[?;&]([\w.%-]+)=([^;&]*)")
_NAMES_A_SECRET = re.compile(r"token|pass|secret|key|sig|cred|auth", re.IGNORECASE)
_LONG = 8
"""A secret of this length is removed wherever it is; a shorter one, which may be part of other words, only as a word."""
_remembered: set[str] = set()


def remember_secrets(texts: Iterable[str]) -> None:
    """Remember the secrets of a process's arguments or options, and remove them from every later text."""
    for text in texts:
        for found in (*_passwords(text), *_parameters(text)):
            _remembered.update(each for each in (found, unquote(found)) if each and each != SHOWN)


def redacted(text: object) -> str:
    """Return a text without credentials."""
    shown = _USER.sub(rf"\1{SHOWN}@", str(text))
    shown = _PARAMETER.sub(rf"\1{SHOWN}", shown)
    for each in sorted(_remembered, key=len, reverse=True):
        shown = _without(shown, each)
    return shown


def _without(text: str, secret: str) -> str:
    if len(secret) >= _LONG:
        return text.replace(secret, SHOWN)
    return re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", lambda _: SHOWN, text)


def _passwords(text: str) -> Iterable[str]:
    for found in _USER.finditer(text):
        whole = found[0].lstrip("/").removesuffix("@")
        user, colon, password = whole.partition(":")
        # A user name alone may be any word of a message, such as hdfs; a token is longer.
        yield password if colon else user if len(user) >= 2 * _LONG else ""


def _parameters(text: str) -> Iterable[str]:
    for name, value in _WHOLE_PARAMETER.findall(text):
        if _NAMES_A_SECRET.search(name):
            yield value
