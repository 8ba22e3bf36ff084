"""JSON documents that are nested deeper than Python can decode, copy or compare. Without any other package.

The API server stores up to 10000 levels in fields without a schema, such as the affinity of a quorum, and lists them
together with the quorums of other users: one such object would end the watches of all quorums. How many levels Python
can handle depends on its version and the operation, from 500 to more than 10000, and only a part of that can be configured.
So what is nested deeper than any valid object of Kubernetes is left out before a document is decoded. The search
for it uses no recursion.
"""

import json
import re
from itertools import accumulate
from typing import Any

MOST_LEVELS = 150
"""Levels that are kept. Valid objects have less than a third; `read_json` refuses a document with more than 100."""
LEFT_OUT = '"nested too deeply"'
"""The JSON value instead of what was left out."""

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"?'
"""Also one that does not end, as in an answer that was cut: otherwise the search would begin again at each quote in it."""
_STRINGS = re.compile(_STRING, re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")
_TOKENS = re.compile(_STRING + r"|[\[\]{}]", re.DOTALL)
_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}


def shallow(text: str) -> str:
    """The JSON document, with `LEFT_OUT` in place of every object and array below `MOST_LEVELS` others.

    Whether what is left out is valid JSON is not checked.
    """
    if text.count("{") + text.count("[") <= MOST_LEVELS:
        return text
    # Without the strings this is several times faster, and nearly always all that is needed.
    steps = map(_STEPS.__getitem__, _BRACKETS.findall(_STRINGS.sub("", text)))
    return text if max(accumulate(steps), default=0) <= MOST_LEVELS else _without_inner(text)


def _without_inner(text: str) -> str:
    kept: list[str] = []
    begin, level = 0, 0
    for token in _TOKENS.finditer(text):
        step = _STEPS.get(token.group(), 0)
        if step == 1 and level == MOST_LEVELS:
            kept += [text[begin : token.start()], LEFT_OUT]
            begin = len(text)
        if step == -1 and level == MOST_LEVELS + 1:
            begin = token.end()
        level += step
    return "".join([*kept, text[begin:]])


class _Shallow(json.JSONDecoder):
    """Decodes shallow documents only."""

    def decode(self, s: str, *arguments: Any) -> Any:
        """See `json.JSONDecoder`."""
        return super().decode(shallow(s), *arguments)


def limit_nesting() -> None:
    """Let `json.loads` leave out what is nested too deeply, also where kopf and HTTP clients call it."""
    # There is no public way, and a test shows that kopf's watches depend on it.
    json._default_decoder = _Shallow()  # type: ignore[attr-defined] # noqa: SLF001
