"""kind, helm, kubectl and the Kubernetes programs: found on PATH where they fit, else compiled.

What is compiled comes from pinned Go modules: kind by `go install`, and the modules in `programs/` of
this folder by `go build`. Each result lies in the cache under a hash of its inputs. helm and CoreDNS
take the libraries that they share with Kubernetes in the versions of `programs/kube`, so that the
compiler's cache has them already.
"""

import functools
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed import fingerprint
from testbed.commands import TestbedError, run
from testbed.pins import (
    KIND_VERSION,
    KUBERNETES_VERSION,
    MINIMUM_GO,
    NEWER_KUBERNETES,
)
from testbed.places import KIND_DIRECTORY, cache_directory, exclusive, state_directory
from testbed.progress import say, step

_MODULES = KIND_DIRECTORY / "programs"
_BUILD_TIMEOUT_S = 3600.0
_STRIP = "-s -w"
_NO_DEBUGGING = "-gcflags=all=-dwarf=false"
"""Debugging information costs a fifth of the compilation, and `_STRIP` removes it. The same for all, as it is part of the cache's keys."""
_CERT_MANAGER = "github.com/cert-manager/cert-manager"


@dataclass(frozen=True, slots=True)
class Tools:
    """The three programs that the demo and the tests call; `directory` holds a link to each."""

    kind: Path
    helm: Path
    kubectl: Path
    directory: Path


def tools() -> Tools:
    """Finds or compiles all three. Links to them are put into one folder, to be added to PATH."""
    found = Tools(kind=kind(), helm=helm(), kubectl=kubectl(), directory=state_directory() / "bin")
    found.directory.mkdir(parents=True, exist_ok=True)
    for name, target in (("kind", found.kind), ("helm", found.helm), ("kubectl", found.kubectl)):
        link = found.directory / name
        if not link.is_symlink() or link.readlink() != target:
            fresh = link.with_suffix(f".{os.getpid()}")
            fresh.symlink_to(target)
            fresh.replace(link)
    return found


@functools.cache
def kind() -> Path:
    wanted = _numbers(KIND_VERSION)[:2]
    on_path = _on_path("kind", ["version"], lambda version: version[:2] >= wanted)
    return on_path or _installed("kind", "sigs.k8s.io/kind", KIND_VERSION, _STRIP)


@functools.cache
def helm() -> Path:
    on_path = _on_path("helm", ["version", "--short"], lambda v: (3, 14) <= v[:2] < (4, 0))
    module = _MODULES / "helm"
    version = re.search(
        r"^\s*helm\.sh/helm/v3 (v\S+)", (module / "go.mod").read_text(), re.MULTILINE
    )
    assert version is not None
    flags = f"{_STRIP} -X helm.sh/helm/v3/internal/version.version={version[1]}"
    package = "helm.sh/helm/v3/cmd/helm"
    options = [f"-ldflags={flags}"]
    return on_path or _built(
        "helm", "helm", options, "1 to 2 minutes, only the first time", package=package
    )


@functools.cache
def kubectl() -> Path:
    """A kubectl within one minor version of the cluster, else the one in the Kubernetes binary."""
    server = _numbers(KUBERNETES_VERSION)
    on_path = _on_path(
        "kubectl",
        ["version", "--client"],
        lambda version: version[0] == server[0] and abs(version[1] - server[1]) <= 1,
    )
    return on_path or called_as("kubectl")


def kubernetes() -> Path:
    """The one binary that is every Kubernetes program and etcd; see programs/kube/main.go."""
    options = _kubernetes_options(KUBERNETES_VERSION)
    return _built("kube", "kubemulti", options, "5 to 10 minutes, only the first time")


def control_plane(minor: str) -> Path:
    """kube-apiserver and kube-controller-manager of another minor version, one of NEWER_KUBERNETES, in one binary."""
    if minor not in NEWER_KUBERNETES:
        known = ", ".join(NEWER_KUBERNETES)
        raise TestbedError(f"no control plane of Kubernetes {minor} is known here, only of {known}")
    options = [*_kubernetes_options(NEWER_KUBERNETES[minor]), f"-modfile={minor}.mod"]
    module = _MODULES / "control_plane"
    inputs = [module / "main.go", module / f"{minor}.mod", module / f"{minor}.sum"]
    return _built(
        "control_plane", "controlplane", options, "5 to 10 minutes, only the first time", inputs
    )


def _kubernetes_options(version: str) -> list[str]:
    """Options of `go build` for Kubernetes programs that report this version."""
    gitted = {"gitVersion": version, "gitMajor": "1", "gitTreeState": "clean"}
    gitted["gitMinor"] = str(_numbers(version)[1])
    gitted |= {"gitCommit": "0" * 40, "buildDate": "1970-01-01T00:00:00Z"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    flags = " ".join(
        f"-X {package}.{key}={value}" for package in packages for key, value in gitted.items()
    )
    return ["-tags=providerless", f"-ldflags={_STRIP} {flags}"]


def called_as(program: str, minor: str | None = None) -> Path:
    """A link to a Kubernetes binary under the name of one of its programs.

    `minor`: of the control plane of this minor version instead of KUBERNETES_VERSION.
    """
    binary = kubernetes() if minor is None else control_plane(minor)
    link = binary.with_name(program)
    if not link.is_symlink():
        fresh = binary.with_name(f".{program}.{os.getpid()}")
        fresh.symlink_to(binary.name)
        fresh.replace(link)
    return link


def coredns() -> Path:
    return _built(
        "coredns", "coredns", [f"-ldflags={_STRIP}"], "1 to 3 minutes, only the first time"
    )


def pause() -> Path:
    return _built("pause", "pause", [f"-ldflags={_STRIP}"], "seconds")


def cert_manager() -> Path:
    """cert-manager's controllers for Certificates and CA issuers; see programs/certmanager/main.go."""
    options = [f"-ldflags={_STRIP}"]
    return _built("certmanager", "certmanager", options, "2 to 4 minutes, only the first time")


def certificate_definitions() -> tuple[Path, ...]:
    """Files with the definitions of cert-manager's own resources, from the module that `cert_manager` is compiled from.

    Those of ACME are not among them. Raises TestbedError where Go is missing.
    """
    go_version()
    told = run(
        ["go", "mod", "download", "-json", _CERT_MANAGER],
        timeout_s=300,
        directory=_MODULES / "certmanager",
        environment=_go_environment(),
    ).stdout
    return tuple(sorted(Path(json.loads(told)["Dir"], "deploy", "crds").glob("cert-manager.io_*")))


def sources() -> tuple[Path, ...]:
    """What the node image is compiled from, for its own hash."""
    return tuple(_MODULES / name for name in ("kube", "coredns", "pause"))


def go_version() -> str:
    """For example go1.26.8. Raises TestbedError where Go is missing or too old."""
    least = ".".join(map(str, MINIMUM_GO))
    advice = f"Go {least} or newer is needed to compile what is missing: https://go.dev/dl"
    if shutil.which("go") is None:
        raise TestbedError(f"no `go` on PATH. {advice}")
    version = run(["go", "env", "GOVERSION"], timeout_s=60, directory=Path("/")).stdout.strip()
    if _numbers(version)[:2] < MINIMUM_GO:
        raise TestbedError(f"`go` is {version}. {advice}")
    return version


def _numbers(version: str) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part) for part in found.groups() if part) if found else (0, 0)


def _on_path(name: str, ask: list[str], fits: Callable[[tuple[int, ...]], bool]) -> Path | None:
    program = shutil.which(name)
    if program is None or Path(program).parent == state_directory() / "bin":
        return None
    reported = run([program, *ask], timeout_s=60, check=False)
    return Path(program) if reported.returncode == 0 and fits(_numbers(reported.stdout)) else None


def _installed(name: str, package: str, version: str, flags: str) -> Path:
    def build(directory: Path) -> None:
        command = [
            "go",
            "install",
            "-trimpath",
            "-buildvcs=false",
            _NO_DEBUGGING,
            f"-ldflags={flags}",
        ]
        run(
            [*command, f"{package}@{version}"],
            timeout_s=_BUILD_TIMEOUT_S,
            directory=directory,
            environment={"GOBIN": str(directory), **_go_environment()},
        )

    key = fingerprint.of(package, version, flags, platform.machine())
    return _cached(name, f"{name}-{version}-{key}", build, "1 to 2 minutes, only the first time")


def _built(
    module: str,
    name: str,
    options: list[str],
    awaiting: str,
    inputs: Sequence[Path] = (),
    package: str = ".",
) -> Path:
    """`package`, compiled from the module; `inputs` are the files that it depends on, the whole folder if empty."""

    def build(directory: Path) -> None:
        command = [
            "go",
            "build",
            "-mod=readonly",
            "-trimpath",
            "-buildvcs=false",
            _NO_DEBUGGING,
            *options,
        ]
        run(
            [*command, "-o", directory / name, package],
            timeout_s=_BUILD_TIMEOUT_S,
            directory=_MODULES / module,
            environment=_go_environment(),
        )

    key = fingerprint.of(*options, platform.machine(), paths=list(inputs) or [_MODULES / module])
    return _cached(name, f"{name}-{key}", build, awaiting)


def _go_environment() -> Mapping[str, str]:
    return {"CGO_ENABLED": "0", "GOWORK": "off"}


def _cached(name: str, entry: str, build: Callable[[Path], None], awaiting: str) -> Path:
    target = cache_directory() / "programs" / entry
    if (target / name).exists():
        return target / name
    with exclusive(f"program-{name}"):
        if (target / name).exists():
            return target / name
        version = go_version()
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{entry}.", dir=target.parent))
        try:
            with step(f"compiling {name} with {version}", awaiting):
                build(scratch)
            scratch.chmod(0o755)
            shutil.rmtree(target, ignore_errors=True)
            scratch.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    say(f"{name} is {target / name}")
    return target / name
