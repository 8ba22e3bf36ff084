"""Which events show that a pod's data volume has failed, and which do not."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_operator.kube.mounts import MountFailure, mount_failure, unusable_volume

pytestmark = pytest.mark.requirement("OP-04")
SETTINGS = settings(max_examples=300, deadline=None, derandomize=True)
START = 1_780_000_000.0
VOLUME = "pvc-0d5f"

OWN = (
    'MountVolume.SetUp failed for volume "{}" : mount failed: exit status 32: wrong fs type, bad superblock',
    'MountVolume.NewMounter initialization failed for volume "{}" : path "/mnt/x" does not exist',
    'MountVolume.MountDevice failed for volume "{}" : rpc error: code = Internal desc = input/output error',
    'AttachVolume.Attach failed for volume "{}" : rpc error: code = NotFound desc = volume vol-1 not found',
    'AttachVolume.Attach failed for volume "{}" : rpc error: code = Internal desc = volume vol-1 is in the error state',
    'MountVolume.NewMounter initialization failed for volume "{}" : path "/mnt/host/node 1/x" does not exist',
    'MountVolume.SetUp failed for volume "{}" : rpc error: code = NotFound desc = failed to find LV: 0d5f',
)
_INTERNAL = ' failed for volume "{}" : rpc error: code = Internal desc = '
ATTACHED_ELSEWHERE = (
    # Compute Engine, Azure, OpenStack, EC2: what their drivers say while a drained host still has the volume.
    (
        f"AttachVolume.Attach{_INTERNAL}failed cloud service attach disk call: googleapi: Error 400:"
        " RESOURCE_IN_USE_BY_ANOTHER_RESOURCE - The disk resource 'd' is already being used by 'i'"
    ),
    (
        f'AttachVolume.Attach{_INTERNAL}Code="AttachDiskWhileBeingDetached" Message="Cannot attach data disk because the'
        ' disk is currently being detached or the last detach operation failed."'
    ),
    f"AttachVolume.Attach{_INTERNAL}Disk 'd' cannot be attached as the disk is already owned by VM 'v'",
    f"AttachVolume.Attach{_INTERNAL}volume 'v' status must be 'available'. Currently in 'detaching'",
    f"AttachVolume.Attach{_INTERNAL}could not attach volume: IncorrectState: vol-1 is not 'available'.",
    f"AttachVolume.Attach{_INTERNAL}could not attach volume: RequestLimitExceeded: try again",
    f"AttachVolume.Attach{_INTERNAL}could not attach volume: UnauthorizedOperation: not allowed",
    # Longhorn, Ceph, DigitalOcean, PowerStore.
    (
        f"AttachVolume.Attach{_INTERNAL}volume v failed to attach to node n3: the volume is currently attached to"
        " different node n1"
    ),
    f"AttachVolume.Attach{_INTERNAL}Node to be attached n3 is different from previous spec n1",
    f"MountVolume.MountDevice{_INTERNAL}rbd image replicapool/csi-vol-e4d2 is still being used",
    (
        'AttachVolume.Attach failed for volume "{}" : rpc error: code = FailedPrecondition desc = volume "v" is attached'
        " to the wrong droplet (1)"
    ),
    'AttachVolume.Attach failed for volume "{}" : rpc error: code = AlreadyExists desc = published on another node',
    "AttachVolume.Attach failed for volume \"{}\" : rpc error: code = NotFound desc = host with node ID 'n' not found",
    # Whatever a driver says: an attach is an order to a storage system.
    f"AttachVolume.Attach{_INTERNAL}the back end of the pool answers with error 5013",
)
_SETUP = 'MountVolume.SetUp failed for volume "{}" : '
OF_THE_HOST_OR_NETWORK = (
    f"{_SETUP}mkdir /var/lib/kubelet/pods/u/volumes: no space left on device",
    f"{_SETUP}fork/exec /usr/bin/mount: cannot allocate memory",
    f"{_SETUP}mount failed: exit status 32: mount.nfs4: No route to host",
    f"{_SETUP}rpc error: code = Internal desc = failed to find the device: read tcp: connection reset by peer",
    f"{_SETUP}rpc error: code = Internal desc = Post https://storage: x509: certificate has expired",
)
NOT_OWN = (
    *ATTACHED_ELSEWHERE,
    *OF_THE_HOST_OR_NETWORK,
    'Multi-Attach error for volume "{}" Volume is already exclusively attached to one node',
    'Multi-Attach error for volume "{}" Volume is already used by pod(s) q-3-1-0',
    'AttachVolume.Attach failed for volume "{}" : timed out waiting for external-attacher of a.b CSI driver',
    'MountVolume.SetUp failed for volume "{}" : rpc error: code = DeadlineExceeded desc = context deadline exceeded',
    'AttachVolume.Attach failed for volume "{}" : rpc error: code = Unavailable desc = connection refused',
    (
        'MountVolume.MountDevice failed for volume "{}" : rpc error: code = Aborted desc = an operation with the given'
        " Volume ID vol-1 already exists"
    ),
    (
        'MountVolume.MountDevice failed for volume "{}" : kubernetes.io/csi: driver name a.b not found in the list of'
        " registered CSI drivers"
    ),
    'AttachVolume.Attach failed for volume "{}" : volume attachment is being deleted',
    'AttachVolume.Attach failed for volume "{}" : disk vol-1 is in use by instance i-2',
    'MountVolume.SetUp failed for volume "{}" : fetching NodePublishSecretRef failed: secret "x" not found',
    (
        "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[]: timed out waiting for the"
        " condition"
    ),
    (
        "Unable to attach or mount volumes: unmounted volumes=[config], unattached volumes=[data config]: timed out"
        " waiting for the condition"
    ),
    'MountVolume.SetUp failed for volume "config" : failed to sync configmap cache: timed out',
    'MountVolume.SetUp failed for volume "config" : configmap "q-config" not found',
    'MountVolume.SetUp failed for volume "token" : references non-existent secret key',
    'MountVolume.SetUp failed for volume "kube-api-access-x2" : failed to fetch token: the server is busy',
    'MountVolume.SetUp failed for volume "pvc-of-another-pod" : input/output error',
)
OVER = ("Pulling", "Pulled", "Created", "Started", "Failed", "BackOff", "FailedCreatePodSandBox")


def text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def event(reason: str, message: str, at: float, *, by: str = "last") -> dict[str, Any]:
    """`by`: the field with the time."""
    made: dict[str, Any] = {
        "metadata": {"name": reason, "creationTimestamp": text(at)},
        "reason": reason,
        "message": message,
    }
    if by == "last":
        made["metadata"]["creationTimestamp"] = text(START)
        made |= {"firstTimestamp": text(START), "lastTimestamp": text(at), "count": 4}
    elif by == "series":
        made["metadata"]["creationTimestamp"] = text(START)
        made["series"] = {"count": 4, "lastObservedTime": text(at)}
    elif by == "server":  # the clock of the host is five minutes ahead
        made["metadata"]["managedFields"] = [{"manager": "kubelet", "time": text(at)}]
        made["lastTimestamp"] = text(at + 300)
    return made


def pod(**status: Any) -> dict[str, Any]:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-q-3-1-0"}},
        {"name": "config", "configMap": {"name": "q-config"}},
        {"name": "token", "secret": {"secretName": "q-admin"}},
    ]
    return {"metadata": {"uid": "u"}, "spec": {"volumes": volumes}, "status": status}


def reason_of(message: str) -> str:
    return "FailedAttachVolume" if "ttach" in message.split(" ")[0] else "FailedMount"


times = st.integers(0, 600).map(lambda s: START + s)
clocks = st.sampled_from(["last", "series", "created", "server"])
failures = st.builds(
    lambda message, at, by: event(reason_of(message), message.format(VOLUME), at, by=by),
    st.sampled_from(OWN + NOT_OWN),
    times,
    clocks,
)
ends = st.builds(
    lambda reason, at, by: event(reason, "", at, by=by), st.sampled_from(OVER), times, clocks
)
attached = st.builds(
    lambda name, at: event(
        "SuccessfulAttachVolume", f'AttachVolume.Attach succeeded for volume "{name}"', at
    ),
    st.sampled_from([VOLUME, "pvc-of-another-pod"]),
    times,
)


def at_of(each: dict[str, Any]) -> float:
    """When it was posted last, as this file wrote it."""
    meta = each["metadata"]
    fields = [entry["time"] for entry in meta.get("managedFields", [])]
    reported = fields or [
        each.get("series", {}).get("lastObservedTime")
        or each.get("lastTimestamp")
        or meta["creationTimestamp"]
    ]
    return datetime.fromisoformat(reported[0]).timestamp()


@SETTINGS
@given(st.lists(failures | ends | attached, max_size=7), st.booleans())
def test_only_a_current_mount_failure_of_the_data_volume_counts(
    events: list[dict[str, Any]], with_sandbox: bool
) -> None:
    conditions = [{"type": "PodReadyToStartContainers", "status": str(with_sandbox)}]
    found = mount_failure(pod(conditions=conditions), events, VOLUME)
    own = {message.format(VOLUME) for message in OWN}
    named = f'"{VOLUME}"'
    about_it = [e for e in events if named in e["message"] and e["reason"].startswith("Failed")]
    over = [e for e in events if e["reason"] in OVER]
    over += [e for e in events if e["reason"] == "SuccessfulAttachVolume" and named in e["message"]]
    last = max(map(at_of, about_it), default=0.0)
    candidates = [e for e in about_it if at_of(e) == last]
    standing = last > max(map(at_of, over), default=0.0) and not with_sandbox
    if found is not None:
        assert standing
        assert found.message in own
        assert found.at == last
    elif standing and candidates:
        assert any(e["message"] not in own for e in candidates), (
            "the failure of the pod itself counts"
        )


@pytest.mark.parametrize("message", OWN)
def test_mount_failure_duration_is_measured_on_the_api_server_clock(message: str) -> None:
    reported = event(reason_of(message), message.format(VOLUME), START + 60, by="server")
    assert mount_failure(pod(), [reported], VOLUME) == MountFailure(
        message.format(VOLUME), START + 60
    )
    assert mount_failure(pod(), [reported], "pvc-other") is None
    assert mount_failure(pod(), [reported], None) is None


@pytest.mark.parametrize("message", NOT_OWN)
def test_mount_failure_that_a_replacement_would_have_too_is_ignored(message: str) -> None:
    reported = event(reason_of(message), message.format(VOLUME), START + 60)
    assert mount_failure(pod(), [reported], VOLUME) is None


def test_failure_of_another_volume_of_the_pod_with_this_name_is_ignored() -> None:
    reported = event(
        "FailedMount", 'MountVolume.SetUp failed for volume "config" : I/O error', START
    )
    assert mount_failure(pod(), [reported], "config") is None


PLACE = f"/var/lib/kubelet/pods/u/volumes/kubernetes.io~local-volume/{VOLUME}"


@pytest.mark.parametrize(
    ("reason", "message", "counts"),
    [
        ("CreateContainerError", f'failed to stat "{PLACE}": input/output error', True),
        ("StartError", f"error mounting {PLACE}: structure needs cleaning", True),
        ("CreateContainerError", f'failed to stat "{PLACE}-2": input/output error', False),
        ("CreateContainerError", "failed to mount /var/lib/containerd: input/output error", False),
        ("CreateContainerError", f"context deadline exceeded, {PLACE}", False),
        ("CreateContainerError", "", False),
        ("CreateContainerConfigError", 'secret "q-admin" not found', False),
        ("StartError", "exec: quorum-node: executable file not found in $PATH", False),
        ("StartError", "OCI runtime create failed: memory limit too low", False),
        ("ContainerCannotRun", "container has runAsNonRoot and image will run as root", False),
        ("ImagePullBackOff", f"{PLACE}: input/output error", False),
    ],
)
@pytest.mark.parametrize("ended", [False, True])
def test_container_start_failure_counts_only_for_an_unreadable_data_volume(
    reason: str, message: str, counts: bool, ended: bool
) -> None:
    reported = {"reason": reason, "message": message}
    backing_off = {
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {"terminated": {**reported, "exitCode": 128}},
    }
    status = backing_off if ended else {"state": {"waiting": reported}}
    assert (unusable_volume(pod(containerStatuses=[status]), VOLUME) is not None) == counts
    running = {**status, "state": {"running": {}}}
    assert unusable_volume(pod(containerStatuses=[running]), VOLUME) is None
