"""The kubelets of a modelled cluster: pods that wait, run, crash with a growing back-off, become ready, and end."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from quorum_operator.desired.names import Owner
from quorum_operator.kube import paths
from quorum_operator.quantity import value_of
from support.modelled_cluster.hosts import Host, Hosts
from support.modelled_cluster.process import Exit, Process, config_file
from support.modelled_cluster.raft import Key, ModelledQuorum
from support.modelled_cluster.store import Object, Store, time_text
from support.modelled_cluster.volumes import ModelledDisk, Volumes
from support.random_changes.spec_acts import NODE_IMAGE, SAME_IMAGE

CREATE_S = 0.75
READY_S = 0.75
END_S = 0.5
BACK_OFF_S, BACK_OFF_MOST_S = 10.0, 300.0
_LEAST_MEMORY = 32 << 20
_IMAGES = (NODE_IMAGE, SAME_IMAGE)


@dataclass
class Runtime:
    """The containers of one pod. Times in seconds since 1970."""

    address: str
    next_at: float
    process: Process | None = None
    serving_since: float | None = None
    began_at: float | None = None
    waiting: Object | None = None
    ended: Object | None = None
    restarts: int = 0
    latched: bool = False
    formatted: bool = False
    """A process has opened its directory; the mark is in an emptyDir, as the latch."""
    disk: ModelledDisk | None = None
    """The mounted one. It stays mounted when its claim or its volume is deleted."""
    end_at: float | None = None
    ready: tuple[bool, str] | None = None
    events: set[str] = field(default_factory=set)

    @property
    def mounted(self) -> bool:
        return self.disk is not None


class Kubelets:
    """Of all hosts, for one namespace. `quorum_of`: the quorum of a cluster id."""

    def __init__(
        self,
        store: Store,
        owner: Owner,
        hosts: Hosts,
        volumes: Volumes,
        quorum_of: Callable[[str], ModelledQuorum],
        rng: random.Random,
    ) -> None:
        self._store, self._owner, self._hosts, self._volumes = store, owner, hosts, volumes
        self._quorum_of, self._rng = quorum_of, rng
        self.runtimes: dict[str, Runtime] = {}
        """By the UID of the pod."""
        self._serial = 1

    def _path(self, plural: str, name: str | None = None) -> str:
        return paths.namespaced(plural, self._owner.namespace, name)

    # ---- For others

    def running(self) -> Iterator[tuple[Object, Runtime, Process]]:
        """Pods with a process on a host that is on, by name; also pods whose deletion was forced."""
        for pod in self._pods.values():
            found = self.runtimes.get(pod["metadata"]["uid"])
            if found is not None and found.process is not None:
                yield pod, found, found.process

    @property
    def _pods(self) -> dict[str, Object]:
        found = self._store.of(self._path("pods"))
        return {each["metadata"]["name"]: each for each in found}

    def process_of(self, pod: str) -> Process | None:
        """The process in the pod of this name."""
        found = self._store.get(self._path("pods", pod))
        runtime = self.runtimes.get(found["metadata"]["uid"]) if found is not None else None
        return runtime.process if runtime is not None else None

    def kill(self, pod: str, now: float) -> bool:
        """SIGKILL; whether there was a process."""
        found = self._store.get(self._path("pods", pod))
        runtime = self.runtimes.get(found["metadata"]["uid"]) if found is not None else None
        if runtime is None or runtime.process is None:
            return False
        self._ended(runtime, Exit(137), now)
        return True

    def power_off(self, host: str, now: float) -> None:
        """All processes of a host end."""
        for pod in self._pods.values():
            runtime = self.runtimes.get(pod["metadata"]["uid"])
            if pod["spec"].get("nodeName") == host and runtime and runtime.process is not None:
                self._ended(runtime, Exit(255, reason="Unknown"), now)
                runtime.next_at, runtime.restarts = now, max(runtime.restarts - 1, 0)

    # ---- Time

    def step(self, now: float) -> None:
        pods = self._pods
        there = {each["metadata"]["uid"] for each in pods.values()}
        for uid in [each for each in self.runtimes if each not in there]:
            runtime = self.runtimes.pop(uid)
            self._stop(runtime)
        for pod in pods.values():
            host = self._hosts.by_name.get(pod["spec"].get("nodeName") or "")
            if host is None:
                continue
            if host.runs:
                runtime = self._runtime(pod, host, now)
                self._run(pod, runtime, host, now)
            if not self._hosts.is_ready(host.name):
                self._lose_sight(pod, now)

    def _runtime(self, pod: Object, host: Host, now: float) -> Runtime:
        uid = pod["metadata"]["uid"]
        if uid not in self.runtimes:
            self._serial += 1
            address = f"10.244.{host.number}.{self._serial}"
            self.runtimes[uid] = Runtime(address, now + CREATE_S)
        return self.runtimes[uid]

    def _run(self, pod: Object, runtime: Runtime, host: Host, now: float) -> None:
        """Its processes go on without the kubelet; starts, ends and reports need it."""
        process = runtime.process
        if process is not None:
            self._read_files(pod, process, now)
            fault = process.fault()
            if fault is not None and not process.frozen:
                runtime.latched = runtime.latched or fault.code == 74
                self._ended(runtime, fault, now)
            elif process.serves:
                runtime.serving_since = runtime.serving_since or now
            else:
                runtime.serving_since = None
        if not host.kubelet or host.name in self._hosts.links.hosts:
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._terminate(pod, runtime, now)
            return
        if pod["status"].get("phase") in ("Failed", "Succeeded"):
            return
        if self._keep_alive(pod, runtime, now):
            self._report(pod, runtime, now)

    def _keep_alive(self, pod: Object, runtime: Runtime, now: float) -> bool:
        """Whether the pod goes on."""
        deadline = pod["spec"].get("activeDeadlineSeconds")
        if deadline is not None and runtime.mounted:
            self._stop(runtime)
            status = {**pod["status"], "phase": "Failed", "reason": "DeadlineExceeded"}
            self._store.set_status(self._path("pods", pod["metadata"]["name"]), status)
            return False
        image = pod["spec"]["containers"][0].get("image")
        if runtime.process is not None and runtime.process.image != image:
            self._ended(runtime, Exit(143), now)
        if runtime.process is None and now >= runtime.next_at:
            self._start(pod, runtime, now)
        return True

    def _start(self, pod: Object, runtime: Runtime, now: float) -> None:
        waiting = self._obstacle(pod, runtime, now)
        if waiting is not None:
            runtime.waiting, runtime.next_at = waiting, now + 1.0
            return
        disk = runtime.disk
        if disk is None:
            claim = self._volumes.claim(f"data-{pod['metadata']['name']}")
            disk = runtime.disk = self._volumes.disk_of(claim)
            assert disk is not None
            disk.closed = False  # fsGroup
        overrides = Process(pod, disk, self._quorum_of("")).overrides
        process = Process(pod, disk, self._quorum_of(overrides["cluster.id"]))
        self._read_files(pod, process, now)
        ended = self._too_small(pod) or process.start(
            self._properties(pod),
            self._rng,
            latched=runtime.latched,
            formatted=runtime.formatted,
        )
        runtime.waiting = None
        if ended is not None:
            runtime.latched = runtime.latched or ended.code == 74
            self._ended(runtime, ended, now)
            return
        runtime.process, runtime.began_at, runtime.serving_since = process, now, None
        runtime.formatted = True
        process.quorum.start(process.key, disk.replica, now)  # type: ignore[arg-type]

    def _too_small(self, pod: Object) -> Exit | None:
        limits = (pod["spec"]["containers"][0].get("resources") or {}).get("limits") or {}
        memory = value_of(str(limits.get("memory", "1Gi")))
        small = memory is not None and memory < _LEAST_MEMORY
        return Exit(137, reason="OOMKilled") if small else None

    def _properties(self, pod: Object) -> str:
        found = self._store.get(self._path("configmaps", self._owner.config_map)) or {}
        return str((found.get("data") or {}).get(config_file(pod), ""))

    def _read_files(self, pod: Object, process: Process, now: float) -> None:
        name = pod["metadata"]["name"].removesuffix("-0")
        process.read_token(self._store.get(self._path("secrets", self._owner.token_secret)), now)
        process.read_certificates(
            self._owner, self._store.get(self._path("secrets", f"{name}-tls")), now
        )

    def _obstacle(self, pod: Object, runtime: Runtime, now: float) -> Object | None:
        """Why the container is not created."""
        name, spec = pod["metadata"]["name"], pod["spec"]
        creating = {"reason": "ContainerCreating"}
        if not runtime.mounted:
            for volume in spec.get("volumes") or []:
                missing = self._missing(volume)
                if missing is not None:
                    self._event(
                        pod,
                        f'MountVolume.SetUp failed for volume "{volume["name"]}" : {missing}',
                        now,
                    )
                    return creating
            claim = self._volumes.claim(f"data-{name}")
            disk = self._volumes.disk_of(claim)
            if claim is None or disk is None:
                return creating
            if disk.failed:
                bound = claim["spec"]["volumeName"]
                text = f'MountVolume.NewMounter initialization failed for volume "{bound}" : stat: input/output error'
                self._event(pod, text, now)
                return creating
        container = spec["containers"][0]
        image, policy = container.get("image"), container.get("imagePullPolicy")
        if image not in _IMAGES or policy == "Always":
            reason = "ErrImagePull" if runtime.waiting is None else "ImagePullBackOff"
            return {"reason": reason, "message": f"failed to pull image {image}"}
        for variable in container.get("env") or []:
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference and self._store.get(self._path("secrets", reference["name"])) is None:
                text = f'secret "{reference["name"]}" not found'
                return {"reason": "CreateContainerConfigError", "message": text}
        return None

    def _missing(self, volume: Object) -> str | None:
        for kind, plural, key in (
            ("configMap", "configmaps", "name"),
            ("secret", "secrets", "secretName"),
        ):
            source = volume.get(kind) or {"optional": True}
            if source.get("optional"):
                continue
            if self._store.get(self._path(plural, source[key])) is None:
                return f'{kind.lower()} "{source[key]}" not found'
        return None

    def _ended(self, runtime: Runtime, ended: Exit, now: float) -> None:
        self._stop(runtime)
        runtime.ended = {
            "exitCode": ended.code,
            "reason": ended.reason,
            "message": ended.message,
            "finishedAt": time_text(now),
        }
        runtime.restarts += 1
        delay_s = 0.5
        if runtime.restarts > 1:
            delay_s = min(BACK_OFF_S * 2 ** (runtime.restarts - 2), BACK_OFF_MOST_S)
            text = "back-off restarting failed container"
            runtime.waiting = {"reason": "CrashLoopBackOff", "message": text}
        runtime.next_at = now + delay_s

    def _stop(self, runtime: Runtime) -> None:
        process, runtime.process = runtime.process, None
        runtime.serving_since = None
        if process is not None:
            process.quorum.stop(process.key)

    def _terminate(self, pod: Object, runtime: Runtime, now: float) -> None:
        process = runtime.process
        if runtime.end_at is None:
            grace_s = pod["spec"].get("terminationGracePeriodSeconds", 30)
            stuck = process is not None and (process.frozen or process.disk.frozen)
            runtime.end_at = now + (grace_s if stuck else END_S)
            if process is not None and not stuck and process.quorum.leader == process.key:
                process.quorum.resign(process.key, None)
        if now >= runtime.end_at:
            self._stop(runtime)
            self._store.end(self._path("pods", pod["metadata"]["name"]))

    # ---- Reports

    def _report(self, pod: Object, runtime: Runtime, now: float) -> None:
        process = runtime.process
        status: Object = {"name": "node", "restartCount": runtime.restarts}
        if process is not None:
            assert runtime.began_at is not None
            status["state"] = {"running": {"startedAt": time_text(runtime.began_at)}}
        else:
            waiting = runtime.waiting or {"reason": "ContainerCreating"}
            status["state"] = {"waiting": waiting}
        status["lastState"] = {"terminated": runtime.ended} if runtime.ended else {}
        ready = self._is_ready(runtime, now)
        status["ready"] = ready
        if runtime.ready is None or runtime.ready[0] != ready:
            runtime.ready = ready, time_text(now)
        conditions = [
            e for e in pod["status"].get("conditions") or [] if e["type"] == "PodScheduled"
        ]
        if runtime.mounted:
            conditions.append({"type": "PodReadyToStartContainers", "status": "True"})
        entry = {"type": "Ready", "status": str(ready), "lastTransitionTime": runtime.ready[1]}
        started = runtime.mounted
        self._store.set_status(
            self._path("pods", pod["metadata"]["name"]),
            {
                "phase": "Running" if started else "Pending",
                **({"podIP": runtime.address} if started else {}),
                "conditions": [*conditions, entry],
                "containerStatuses": [status],
            },
        )

    def _is_ready(self, runtime: Runtime, now: float) -> bool:
        """Readiness means caught up."""
        process, since = runtime.process, runtime.serving_since
        if process is None or since is None or now - since < READY_S:
            return False
        return process.quorum.has_caught_up(Key(*process.key))

    def _lose_sight(self, pod: Object, now: float) -> None:
        """The controller of Nodes calls the pods of a host that is not ready not ready."""
        status = pod["status"]
        conditions = status.get("conditions") or []
        if not any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
            return
        others = [each for each in conditions if each["type"] != "Ready"]
        entry = {"type": "Ready", "status": "False", "lastTransitionTime": time_text(now)}
        path = self._path("pods", pod["metadata"]["name"])
        self._store.set_status(path, {**status, "conditions": [*others, entry]})

    def _event(self, pod: Object, message: str, now: float) -> None:
        meta = pod["metadata"]
        name = f"{meta['name']}.{meta['uid']}.FailedMount"
        found = self._store.get(self._path("events", name))
        if found is not None and now - _seconds(found["lastTimestamp"]) < 10.0:
            return
        involved = {"kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        body = {
            "metadata": {"name": name},
            "involvedObject": involved,
            "reason": "FailedMount",
            "message": message,
            "lastTimestamp": time_text(now),
        }
        self._store.apply(self._path("events", name), body)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
