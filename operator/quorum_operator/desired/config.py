"""The ConfigMap with the node properties shared by all members."""

from typing import Any

from quorum_operator.desired import tls
from quorum_operator.desired.names import (
    CONFIG_FILE,
    DATA_PATH,
    LATCH_PATH,
    TOKEN_KEY,
    TOKEN_PATH,
    Owner,
    metadata,
)
from quorum_operator.desired.revision import CANDIDATE_FILE, written


def properties(
    owner: Owner, overrides: dict[str, str], *, secured: bool, revoking: bool = False
) -> dict[str, str]:
    """Properties by name; `overrides` come from spec.config, whose keys the CRD restricts. `secured`: with
    certificates.
    """
    own = {
        "metadata.log.dir": DATA_PATH,
        "controller.quorum.bootstrap.servers": owner.bootstrap_servers,
        "admin.token.file": f"{TOKEN_PATH}/{TOKEN_KEY}",
        "failure.latch.file": f"{LATCH_PATH}/failed",
        "termination.message.file": "/dev/termination-log",
    }
    return {**written(overrides), **own, **(tls.properties(revoking=revoking) if secured else {})}


def build(
    owner: Owner,
    overrides: dict[str, str],
    *,
    secured: bool,
    candidate: dict[str, str] | None = None,
    revoking: bool = False,
) -> dict[str, Any]:
    """The ConfigMap. `candidate`: the new properties, which only a canary reads while other members keep earlier
    ones.
    """
    files = {CONFIG_FILE: _text(owner, overrides, secured, revoking)}
    if candidate is not None:
        files[CANDIDATE_FILE] = _text(owner, candidate, secured, revoking)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, owner.config_map),
        "data": files,
    }


def _text(owner: Owner, overrides: dict[str, str], secured: bool, revoking: bool) -> str:
    wanted = properties(owner, overrides, secured=secured, revoking=revoking)
    return "".join(f"{key}={_escaped(value)}\n" for key, value in sorted(wanted.items()))


def _escaped(value: str) -> str:
    """Escape a value for a properties file: a line break in it can't begin a property that spec.config must not contain."""
    found = value.replace("\\", "\\\\")
    return found.replace("\n", "\\n").replace("\r", "\\r")
