"""Output in any encoding: a character that the encoding of stdout does not have is escaped as in JSON.

`json.loads` reads these escapes, so a line of JSON stays one. Python's `backslashreplace` writes `\\xfc`, which is no JSON.
"""

import codecs
import io
import json
import sys

_NAME = "json-escapes"


def escape_unencodable() -> None:
    """Let stdout escape characters instead of raising UnicodeEncodeError."""
    codecs.register_error(_NAME, _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors=_NAME)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
