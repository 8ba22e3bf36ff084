"""The config ConfigMap: the node properties that all members share."""

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
from quorum_operator.desired.revision import CANDIDATE_FILE


def properties(owner: Owner, overrides: dict[str, str], *, secured: bool) -> dict[str, str]:
    """Property → value; `overrides` come from spec.config, whose keys the CRD restricts. `secured`: with certificates."""
    own = {
        "metadata.log.dir": DATA_PATH,
        "controller.quorum.bootstrap.servers": owner.bootstrap_servers,
        "admin.token.file": f"{TOKEN_PATH}/{TOKEN_KEY}",
        "failure.latch.file": f"{LATCH_PATH}/failed",
        "termination.message.file": "/dev/termination-log",
    }
    return {**overrides, **own, **(tls.properties() if secured else {})}


def build(
    owner: Owner,
    overrides: dict[str, str],
    *,
    secured: bool,
    candidate: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The ConfigMap. `candidate`: of the spec, where members may be on an earlier one; a canary reads it."""
    files = {CONFIG_FILE: _text(owner, overrides, secured)}
    if candidate is not None:
        files[CANDIDATE_FILE] = _text(owner, candidate, secured)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, owner.config_map),
        "data": files,
    }


def _text(owner: Owner, overrides: dict[str, str], secured: bool) -> str:
    wanted = properties(owner, overrides, secured=secured)
    return "".join(f"{key}={value}\n" for key, value in sorted(wanted.items()))
