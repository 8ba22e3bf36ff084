"""What a quorum on kind is restored from: backups in a claim or in an object store, a claim of an older quorum, or a directory that
`quorum-pipeline restore` wrote.

The object store listens on the gateway address of the cluster's own network, which pods can reach, with a certificate of
an authority of its own.
"""

import base64
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from support.envtest.kube_api import Json
from support.generated_certificates import authority, issue, key_pem, pem
from support.kind_env import kube
from support.kind_env.environment import STORAGE_CLASS, KindEnv
from support.kind_env.testbed import Disk, Disks, nodes, run
from support.object_store import REGION, ObjectStore

_BUCKET = "backups"
_PREFIX = "production"
_MEMBER_USER = 65532
_RESTORE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class BackupTarget:
    """`spec.backup` without its schedule, and `spec.restoreFrom`, of a quorum named `q`."""

    backup: Json
    restore_from: Json


def claim_target(env: KindEnv) -> BackupTarget:
    """A PersistentVolumeClaim, which is created."""
    name = "backups"
    env.cluster.api.create(kube.core(env.namespace, "persistentvolumeclaims"), _claim(name))
    return BackupTarget({"claimName": name}, {"claimName": name, "path": "q"})


def _claim(name: str, **more: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": "200Mi"}},
            **more,
        },
    }


def restored_directory(env: KindEnv, claim: str) -> Json:
    """Run `quorum-pipeline restore` on the log in the volume of that claim, into a new claim; returns `spec.restoreFrom`.

    No process may write to the log.
    """
    volumes, disks = env.cluster.volumes, Disks(env.cluster.name)
    source = disks.mount_point(volumes.disk_of_claim(env.namespace, claim))
    output = env.folder / "restored"
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "quorum_pipeline",
        "restore",
        "--log",
        source,
    ]
    run(
        [*command, "--output", output, "--voter", "1@localhost:9093", "--master", "none"],
        timeout_s=_RESTORE_TIMEOUT_S,
    )
    free = next(name for name, phase in volumes.phases().items() if phase == "Available")
    copied = disks.mount_point(Disk.of_volume(free)) / "restored"
    shutil.copytree(output, copied)
    # As the how-to page says: members run as this user, and the files are readable by their owner only.
    for each in (copied, *copied.rglob("*")):
        os.chown(each, _MEMBER_USER, _MEMBER_USER)
    name = "restored"
    env.cluster.api.create(
        kube.core(env.namespace, "persistentvolumeclaims"), _claim(name, volumeName=free)
    )
    return {"claimName": name, "path": "restored"}


@contextmanager
def object_store_target(env: KindEnv) -> Iterator[BackupTarget]:
    """An object store with https, and the Secrets that its users need."""
    host = nodes.gateway_address(env.cluster.name)
    certificate, trusted = _certificate(env.folder, host)
    with ObjectStore(host=host, certificate=certificate, authority=trusted) as store:
        store.create_bucket(_BUCKET)
        _create_secret(
            env,
            "store-credentials",
            AWS_ACCESS_KEY_ID=store.access_key.encode(),
            AWS_SECRET_ACCESS_KEY=store.secret_key.encode(),
        )
        _create_secret(env, "store-ca", **{"ca.crt": trusted.read_bytes()})
        location = {
            "bucket": _BUCKET,
            "endpoint": store.endpoint,
            "region": REGION,
            "credentialsSecretName": "store-credentials",
            "caSecretName": "store-ca",
        }
        yield BackupTarget(
            {"objectStore": {**location, "prefix": _PREFIX}},
            {"objectStore": {**location, "prefix": f"{_PREFIX}/q"}},
        )


def _certificate(folder: Path, host: str) -> tuple[tuple[Path, Path], Path]:
    """Files of a certificate, of its key, and of the authority."""
    now, day = datetime.now(UTC), timedelta(days=1)
    issuer = authority(start=now - day, end=now + day)
    issued = issue(issuer=issuer, start=now - day, end=now + day, hosts=(host,))
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key, trusted = (folder / name for name in ("store.crt", "store.key", "ca.crt"))
    certificate.write_bytes(pem(issued.certificate, issuer.certificate))
    key.write_bytes(key_pem(issued.key))
    trusted.write_bytes(pem(issuer.certificate))
    return (certificate, key), trusted


def _create_secret(env: KindEnv, name: str, **values: bytes) -> None:
    secret: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "data": {key: base64.b64encode(value).decode() for key, value in values.items()},
    }
    env.cluster.api.create(kube.core(env.namespace, "secrets"), secret)
