"""Checks of arguments before anything is sent: numbers in their ranges, pairs of options, text that can be sent."""

import argparse
import re
from urllib.parse import quote

from quorum_node.api import MAX_TIMEOUT_MS
from quorum_node.quorumctl.client import WrongUsage

_MOST = 2**63 - 1
_MOST_PAUSE_S = 86_400
_MOST_IN_URL = 14_000
"""Characters of an encoded key or prefix. A node refuses a request whose line and headers have more than 16 KiB."""
_RANGES = {
    "timeout_ms": ("--timeout-ms", 1, MAX_TIMEOUT_MS),
    "partition": ("--partition", 0, 2**31 - 1),
    "interval": ("--interval", 0, _MOST_PAUSE_S),
    "count": ("--count", 1, _MOST),
    "max_records": ("--max-records", 1, _MOST),
    "from_offset": ("--from-offset", 0, _MOST),
    "expected_offset": ("--expected-offset", 0, _MOST),
    "expected_epoch": ("--expected-epoch", 0, 2**31 - 1),
}
_FILES = frozenset({"tls", "command_config", "token_file"})
"""Options that name files. On Linux these names are bytes of any encoding."""
_IN_PATHS = re.compile("[A-Za-z0-9_-]+")


def check_arguments(parsed: argparse.Namespace) -> None:
    """Raises WrongUsage for the first argument that can't be used."""
    for name, value in vars(parsed).items():
        if isinstance(value, str) and name not in _FILES and not _is_text(value):
            raise WrongUsage(f"the argument {value!r} is not a text in UTF-8")
        if name in _RANGES and value is not None:
            option, least, most = _RANGES[name]
            if not least <= value <= most:  # nan is outside of every range
                raise WrongUsage(f"{option}: {value} is not a number from {least} to {most}")
    _check_length("prefix", quote(getattr(parsed, "prefix", ""), safe=""))
    offset, epoch = (getattr(parsed, f"expected_{name}", None) for name in ("offset", "epoch"))
    if (offset is None) != (epoch is None):
        raise WrongUsage("--expected-offset and --expected-epoch belong together: give both")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def key_path(key: str) -> str:
    """The path of a key, `type/resource/name`. Raises WrongUsage."""
    parts = key.split("/")
    if len(parts) != 3 or not all(parts):
        raise WrongUsage(
            f"{key!r} is not a key: write type/resource/name, such as topic/orders/retention.ms"
            " (resource '-' is the cluster default)"
        )
    if not {".", ".."}.isdisjoint(parts):
        # An HTTP client removes such parts, and another key would be read or written.
        raise WrongUsage(f"{key!r} is not a key: no part of it can be '.' or '..'")
    # Otherwise a part of the key after `?` or `#` would not be in the path, and another key would be written.
    path = "/v1/configs/" + "/".join(quote(part, safe="") for part in parts)
    _check_length("key", path)
    return path


def _check_length(name: str, encoded: str) -> None:
    if len(encoded) > _MOST_IN_URL:
        raise WrongUsage(
            f"the {name} is too long: encoded for a URL it has {len(encoded)} characters, and at most {_MOST_IN_URL} are"
            " possible; POST /v1/append accepts longer names"
        )


def replica_uuid(text: str) -> str:
    """A UUID as part of a path; the node checks it. Raises WrongUsage for what would make another path."""
    if not _IN_PATHS.fullmatch(text):
        raise WrongUsage(
            f"{text!r} is not a UUID of 22 base64url characters, as `quorumctl describe replication` prints it"
        )
    return text
