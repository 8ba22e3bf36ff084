"""The image of a stock Kafka broker: the public one where it can be pulled, else one built of Maven Central's jars.

Both have the jars in /opt/kafka/libs and `java` on the path, so examples/kafka/brokers.yaml runs on either.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from testbed import daemon, debian, fingerprint, node_image
from testbed.commands import run
from testbed.pins import KAFKA_IMAGE
from testbed.places import REPOSITORY, exclusive
from testbed.progress import say, step

_CHOICE = "METADATAQUORUM_KAFKA_IMAGE"
_DOCKERFILE = REPOSITORY / "examples" / "kafka" / "Dockerfile"
_REPOSITORY = "metadataquorum-kafka"


def ensure(jars: Callable[[], Path]) -> str:
    """Pulls or builds; the name of an image that the docker daemon has. `jars`: their folder, asked for to build."""
    named = os.environ.get(_CHOICE)
    if named:
        return named
    if daemon.has_image(KAFKA_IMAGE):
        return KAFKA_IMAGE
    if os.environ.get("METADATAQUORUM_NODE_IMAGE") != "build" and node_image.registry_answers():
        with step(f"pulling {KAFKA_IMAGE}"):
            run(["docker", "pull", "-q", KAFKA_IMAGE], timeout_s=600)
        return KAFKA_IMAGE
    return _built(jars())


def _built(jars: Path) -> str:
    base = debian.image(debian.JAVA)
    # The folder's own name is the hash of what was resolved into it
    name = f"{_REPOSITORY}:{fingerprint.of(base, jars.name, paths=[_DOCKERFILE])}"
    with exclusive("image-kafka"):
        if not daemon.has_image(name):
            with step(f"building {name}"), tempfile.TemporaryDirectory() as context:
                shutil.copytree(jars, Path(context) / "libs")
                build = ["docker", "build", "-q", "--build-arg", f"BASE={base}", "-t", name]
                run([*build, "-f", _DOCKERFILE, "."], timeout_s=300, directory=Path(context))
    say(f"stock Kafka's image is {name}")
    return name
