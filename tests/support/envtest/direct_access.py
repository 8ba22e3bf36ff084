"""Direct access of an operator to the API server, without the recording proxy.

Owns the credentials: a token of the operator's service account, with the rights from the manifests. Used when times are
measured, because the proxy would take most of the time.
"""

from pathlib import Path

import yaml

from support.envtest.kube_api import ApiError, Json
from support.kind_env import kube
from support.kind_env.kube import Kube
from support.yaml_text import read_yaml

_LASTS_S = 4 * 3600


def kubeconfig_of_account(api: Kube, administrators: Path, namespace: str, name: str) -> str:
    """A kubeconfig of a service account, which is created if it is missing, for the cluster of another kubeconfig."""
    path = kube.core(namespace, "serviceaccounts", name)
    meta = {"name": name, "namespace": namespace}
    try:
        api.create(path.rpartition("/")[0], {"metadata": meta})
    except ApiError as error:
        if error.status != 409:
            raise
    wanted = {"spec": {"expirationSeconds": _LASTS_S}}
    token = api.create(f"{path}/token", wanted)["status"]["token"]
    document: Json = read_yaml(administrators.read_text())
    for user in document["users"]:
        user["user"] = {"token": token}
    return yaml.safe_dump(document)
