"""examples/kafka beside what it is tested with."""

import re
import subprocess

import yaml

from support import stock_kafka
from support.trial.bed import KAFKA_IMAGE
from support.trial.kafka import EXAMPLE, documents


def test_the_example_runs_the_version_that_the_interop_tests_run() -> None:
    (version,) = re.findall(r"<kafka.version>(.+)</kafka.version>", stock_kafka.POM.read_text())
    assert f"apache/kafka:{version}" == KAFKA_IMAGE
    assert EXAMPLE.read_text().count(f"image: {KAFKA_IMAGE}\n") == 1


def test_another_quorum_and_image_are_put_in_everywhere() -> None:
    text = yaml.safe_dump_all(documents("q", "here:1"))
    assert "demo" not in text
    assert KAFKA_IMAGE not in text
    assert "controller.quorum.bootstrap.servers=q-bootstrap:9093" in text
    assert "name: q-identity" in text


def test_the_start_script_is_a_shell_script() -> None:
    (config,) = (each for each in documents("q", "i") if each["kind"] == "ConfigMap")
    script = config["data"]["start.sh"]
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
