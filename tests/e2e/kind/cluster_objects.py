"""The objects that the cluster's tests apply: pods as the product's are, non-root and read-only."""

from typing import Any

Object = dict[str, Any]

SERVER = """
import http.server, os, socket
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(socket.gethostname().encode())
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
"""

WRITER = """
import errno, os, time
while True:
    try:
        with open("/data/log", "ab", buffering=0) as log:
            log.write(b"x" * 4096)
            os.fsync(log.fileno())
        print("ok", os.path.getsize("/data/log"), flush=True)
    except OSError as failure:
        print(errno.errorcode[failure.errno], flush=True)
    time.sleep(0.1)
"""


def pod_spec(image: str, program: str, claim: str | None = None) -> Object:
    container: Object = {
        "name": "main",
        "image": image,
        "command": ["python3", "-c", program],
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    user = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532}
    spec: Object = {
        "terminationGracePeriodSeconds": 0,
        "securityContext": user,
        "containers": [container],
    }
    if claim:
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return spec


def writer_pod(name: str, image: str, claim: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": pod_spec(image, WRITER, claim),
    }


def claim(name: str, storage_class: str | None, *, volume: str | None = None) -> Object:
    """With `volume` it binds to that one PersistentVolume and no other."""
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "100Mi"}},
    }
    if storage_class:
        spec["storageClassName"] = storage_class
    if volume:
        spec["volumeName"] = volume
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": spec,
    }


def spread_servers(image: str, replicas: int, node_port: int) -> list[Object]:
    """A StatefulSet with one pod per host, its headless service, and one with a node port."""
    labels = {"app": "server"}
    spec = pod_spec(image, SERVER)
    spec["containers"][0]["readinessProbe"] = {
        "httpGet": {"path": "/", "port": 8080},
        "periodSeconds": 1,
    }
    spec["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }
    ]
    ports = [{"name": "http", "port": 8080}]
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True, "ports": ports}
    outside = {"type": "NodePort", "ports": [{**ports[0], "nodePort": node_port}]}
    return [
        _service("server", {**headless, "selector": labels}),
        _service("outside", {**outside, "selector": labels}),
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "server"},
            "spec": {
                "serviceName": "server",
                "replicas": replicas,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
    ]


def _service(name: str, spec: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
