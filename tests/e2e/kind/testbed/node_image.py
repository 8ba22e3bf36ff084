"""The image of kind's nodes: kind's own where it can be pulled, else one built here.

Ours is the Debian tree `debian.NODE`, the files of `node/overlay`, the Kubernetes programs, and an
archive with the images that kubeadm names, which a unit imports into containerd at the first start.
"""

import functools
import os
import platform
import shutil
import tempfile
from pathlib import Path

from testbed import archives, daemon, debian, fingerprint, programs
from testbed.commands import CommandFailed, TestbedError, pipe, run, succeeds
from testbed.pins import KUBERNETES_VERSION, PULLED_NODE_IMAGE
from testbed.places import KIND_DIRECTORY, cache_directory, exclusive
from testbed.progress import say, step

_CHOICE = "METADATAQUORUM_NODE_IMAGE"
_PULL_TIMEOUT_S = 600.0
_REGISTRY = "registry.k8s.io"
_KUBERNETES_LINKS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "etcd",
    "nodenet",
    "local-provisioner",
    "kubectl",
)
_PROGRAMS_ON_NODE = ("kubeadm", "kubelet", "kubectl", "crictl")
_UNITS_ON = {"preload.service": "containerd.service", "kubelet.service": "multi-user.target"}
"""By what each is wanted."""
_UNITS_OFF = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "dev-hugepages.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "getty@tty1.service",
    "remote-fs.target",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-firstboot.service",
    "systemd-logind.service",
    "systemd-modules-load.service",
    "systemd-networkd.service",
    "systemd-pstore.service",
    "systemd-timesyncd.service",
)


def ensure() -> str:
    """Pulls or builds, as METADATAQUORUM_NODE_IMAGE says (pull, build; unset: try the one, then the
    other). Returns the name of an image that the docker daemon has."""
    choice = os.environ.get(_CHOICE, "")
    if choice not in ("", "pull", "build"):
        raise TestbedError(f"{_CHOICE} is {choice!r}: set it to pull or build, or unset it")
    if choice != "build":
        if daemon.has_image(PULLED_NODE_IMAGE):
            return PULLED_NODE_IMAGE
        if choice == "pull" or (not daemon.has_image(image_name()) and registry_answers()):
            _pull()
            return PULLED_NODE_IMAGE
    return _built()


@functools.cache
def registry_answers() -> bool:
    """Whether an image of the public registry can be had: a small question with a short limit."""
    question = ["docker", "manifest", "inspect", PULLED_NODE_IMAGE.partition("@")[0]]
    with step("asking whether images can be pulled", "at most 15 s"):
        answer = succeeds(question, timeout_s=15)
    say(
        "images can be pulled" if answer else "no image can be pulled: what is needed is built here"
    )
    return answer


def image_name() -> str:
    key = fingerprint.of(
        debian.NODE.key,
        KUBERNETES_VERSION,
        *_UNITS_ON,
        *_UNITS_OFF,
        paths=[
            KIND_DIRECTORY / "node",
            KIND_DIRECTORY / "host" / "packet-filter-layer.sh",
            *programs.sources(),
        ],
    )
    return f"metadataquorum-kind-node:{KUBERNETES_VERSION}-{key}"


def cached_archive() -> Path:
    return cache_directory() / "images" / f"{image_name().replace(':', '-')}.tar.zst"


def _pull() -> None:
    with step(f"pulling {PULLED_NODE_IMAGE.partition('@')[0]}", "about 400 MB"):
        try:
            run(["docker", "pull", "-q", PULLED_NODE_IMAGE], timeout_s=_PULL_TIMEOUT_S)
        except CommandFailed as failure:
            raise TestbedError(f"{failure}\nTo build it here instead: {_CHOICE}=build") from None


def _built() -> str:
    image = image_name()
    with exclusive("node-image"):
        if daemon.has_image(image):
            return image
        if cached_archive().exists():
            with step("loading the node image from the cache"):
                pipe(["zstd", "-dc", cached_archive()], ["docker", "load", "-q"], timeout_s=600)
            return image
        base = debian.image(debian.NODE)
        binaries = (programs.kubernetes(), programs.coredns(), programs.pause())
        with step("building the node image"):
            _build(image, base, *binaries)
        with step("keeping the node image in the cache"):
            _keep(image)
    return image


def _keep(image: str) -> None:
    target = cached_archive()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    compress = ["zstd", "-3", "-T0", "-q", "-c"]
    pipe(["docker", "save", image], compress, timeout_s=600, output=partial)
    partial.replace(target)


def _build(image: str, base: str, kubernetes: Path, coredns: Path, pause: Path) -> None:
    tags = _image_tags()
    with tempfile.TemporaryDirectory(prefix="metadataquorum-node-") as scratch:
        context = Path(scratch)
        overlay = context / "overlay"
        shutil.copytree(KIND_DIRECTORY / "node" / "overlay", overlay, symlinks=True)
        shutil.copy(KIND_DIRECTORY / "node" / "Dockerfile", context)
        _fill_in(overlay, tags["pause"])
        (overlay / "kind" / "version").write_text(f"{KUBERNETES_VERSION}\n")
        binaries = overlay / "usr" / "bin"
        binaries.mkdir(parents=True)
        shutil.copy(kubernetes, binaries / "kubemulti")
        for name in _PROGRAMS_ON_NODE:
            (binaries / name).symlink_to("kubemulti")
        _arrange_units(overlay / "etc" / "systemd" / "system")
        preload = overlay / "kind" / "images"
        preload.mkdir()
        _write_preload(preload / "node.tar", base, kubernetes, coredns, pause, tags)
        build = ["docker", "build", "-q", "--build-arg", f"BASE={base}", "-t", image, "."]
        run(build, timeout_s=900, directory=context)


def _image_tags() -> dict[str, str]:
    """The tags that kubeadm of this version asks for, by the last part of the image's name."""
    kubeadm = programs.called_as("kubeadm")
    listing = [str(kubeadm), "config", "images", "list", "--kubernetes-version", KUBERNETES_VERSION]
    lines = run(listing, timeout_s=60).stdout.split()
    return {line.rpartition(":")[0].rpartition("/")[2]: line.rpartition(":")[2] for line in lines}


def _fill_in(overlay: Path, pause_tag: str) -> None:
    files = [*(overlay / "kind" / "manifests").iterdir(), overlay / "etc/containerd/config.toml"]
    for file in files:
        text = file.read_text().replace("@KUBERNETES_VERSION@", KUBERNETES_VERSION)
        file.write_text(text.replace("@PAUSE_TAG@", pause_tag))


def _arrange_units(directory: Path) -> None:
    for unit, wanting in _UNITS_ON.items():
        wanted = directory / f"{wanting}.wants"
        wanted.mkdir(parents=True, exist_ok=True)
        (wanted / unit).symlink_to(f"../{unit}")
    for unit in _UNITS_OFF:
        (directory / unit).symlink_to("/dev/null")


def _write_preload(
    target: Path, base: str, kubernetes: Path, coredns: Path, pause: Path, tags: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory(prefix="metadataquorum-layers-") as scratch:
        layers = Path(scratch)
        kube = archives.layer_of_file(
            layers / "kube", kubernetes, "/usr/local/bin/kubemulti", _KUBERNETES_LINKS
        )
        dns = archives.layer_of_file(layers / "coredns", coredns, "/coredns")
        sandbox = archives.layer_of_file(layers / "pause", pause, "/pause")
        script = KIND_DIRECTORY / "host" / "packet-filter-layer.sh"
        collect = ["docker", "run", "--rm", "-i", "--network=none", base, "/bin/bash"]
        pipe(["cat", script], collect, timeout_s=120, output=layers / "filter")
        packet_filter = archives.layer_of_tar(layers / "filter")

        def kube_image(name: str, *others: archives.Layer) -> archives.Image:
            return archives.Image(f"{_REGISTRY}/{name}", (*others, kube))

        images = [
            kube_image(f"kube-apiserver:{KUBERNETES_VERSION}"),
            kube_image(f"kube-controller-manager:{KUBERNETES_VERSION}"),
            kube_image(f"kube-scheduler:{KUBERNETES_VERSION}"),
            kube_image(f"kube-proxy:{KUBERNETES_VERSION}", packet_filter),
            kube_image(f"etcd:{tags['etcd']}"),
            archives.Image(f"{_REGISTRY}/coredns/coredns:{tags['coredns']}", (dns,), ("/coredns",)),
            archives.Image(f"{_REGISTRY}/pause:{tags['pause']}", (sandbox,), ("/pause",)),
        ]
        architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
        archives.write(target, images, architecture)
