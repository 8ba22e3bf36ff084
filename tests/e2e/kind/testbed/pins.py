"""Every version of the testbed, in one place. Raising one of them changes the hash of what is cached."""

KUBERNETES_VERSION = "v1.34.4"
"""Built here where no image can be pulled. From 1.35 the kubelet refuses cgroup v1, so 1.34 it is."""

NEWER_KUBERNETES = {"1.35": "v1.35.4", "1.36": "v1.36.3", "1.37": "v1.37.2"}
"""By minor version: control planes that the harness is run against in the long set; `programs/control_plane` has their modules."""

KIND_VERSION = "v0.33.0"

PULLED_NODE_IMAGE = (
    "kindest/node:v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d"
)
"""kind's own node image of the same minor, as the release notes of KIND_VERSION name it."""

KAFKA_IMAGE = "apache/kafka:4.3.1"
"""The version of tests/interop/kafka/pom.xml, and of examples/kafka/brokers.yaml."""

PYTHON_BASE_IMAGE = "python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b"
JAVA_BASE_IMAGE = (
    "eclipse-temurin:17-jre@sha256:13cc28a6cc72a38ce1f00c906be3580c1a3e604b8984d694f369a96742abc93b"
)
"""Indexes of all architectures. The Dockerfiles have the same defaults."""
DEBIAN_SUITE = "bookworm"

MINIMUM_GO = (1, 24)
"""What kind, helm and Kubernetes at these versions need to be compiled."""
