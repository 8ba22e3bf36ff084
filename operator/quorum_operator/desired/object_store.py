"""A pod's access to an object store: arguments, environment variables and the volume with its CA. Pure.

Credentials are references to the Secret's keys: the operator passes no value on.
"""

from typing import Any

from quorum_operator.desired.names import STORE_CA_PATH
from quorum_operator.object_store_crd import (
    ACCESS_KEY,
    CA_KEY,
    SECRET_KEY,
    SESSION_TOKEN,
    ObjectStoreSpec,
)

_CA_VOLUME = "store-ca"

Object = dict[str, Any]


def options(store: ObjectStoreSpec, prefix: str = "--") -> list[str]:
    """Options with the address of the store, each with a value: `--endpoint URL`."""
    arguments = []
    if store.endpoint is not None:
        arguments += [f"{prefix}endpoint", store.endpoint]
    if store.region is not None:
        arguments += [f"{prefix}region", store.region]
    return arguments


def environment(store: ObjectStoreSpec) -> list[Object]:
    """The credentials, and the file with the CA certificates."""
    secret = store.credentials_secret_name
    found: list[Object] = [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        for key in (ACCESS_KEY, SECRET_KEY)
    ]
    token = {"name": secret, "key": SESSION_TOKEN, "optional": True}
    found.append({"name": SESSION_TOKEN, "valueFrom": {"secretKeyRef": token}})
    if store.ca_secret_name is not None:
        found.append({"name": "AWS_CA_BUNDLE", "value": f"{STORE_CA_PATH}/{CA_KEY}"})
    return found


def volumes(store: ObjectStoreSpec) -> list[Object]:
    """The CA certificates."""
    if store.ca_secret_name is None:
        return []
    items = [{"key": CA_KEY, "path": CA_KEY}]
    secret = {"secretName": store.ca_secret_name, "items": items, "defaultMode": 0o440}
    return [{"name": _CA_VOLUME, "secret": secret}]


def mounts(store: ObjectStoreSpec) -> list[Object]:
    """The mount of that volume."""
    if store.ca_secret_name is None:
        return []
    return [{"name": _CA_VOLUME, "mountPath": STORE_CA_PATH, "readOnly": True}]
