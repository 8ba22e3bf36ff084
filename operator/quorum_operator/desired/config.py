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


def build(owner: Owner, overrides: dict[str, str], *, secured: bool) -> dict[str, Any]:
    """The ConfigMap."""
    wanted = properties(owner, overrides, secured=secured)
    lines = [f"{key}={value}\n" for key, value in sorted(wanted.items())]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, owner.config_map),
        "data": {CONFIG_FILE: "".join(lines)},
    }
