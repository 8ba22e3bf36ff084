"""`quorum-pipeline executor`: the process of an executor's pod. Spark on Kubernetes starts its image with this
argument.

Owns the conversion of the pod's environment to arguments of the executor, which a script in Spark's own image does
(the PyPI package lacks it). It replaces itself by the Java process and needs no Python Spark. Source: Spark 4,
`BasicExecutorFeatureStep`, which sets the environment, and `KubernetesExecutorBackend`, which reads the arguments.
"""

import argparse
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from quorum_pipeline.errors import PipelineError

_MAIN = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTION = "SPARK_JAVA_OPT_"
_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_MEMORY = "SPARK_EXECUTOR_MEMORY"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No arguments: everything is in the environment."""


def run(arguments: argparse.Namespace) -> int:
    """Replace the process by Java's; does not return. Raises PipelineError if it was not started by Spark, OSError without Java."""
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise PipelineError("the executor needs PySpark")
    command = java_command(os.environ, Path(spark.origin).parent / "jars")
    os.execvp(command[0], command)


def java_command(environment: Mapping[str, str], jars: Path) -> list[str]:
    """The command line of an executor's process; `jars`: Spark's classes. Raises PipelineError."""
    missing = sorted({*_ARGUMENTS.values(), _MEMORY} - environment.keys())
    if missing:
        raise PipelineError(
            f"{missing[0]} is not set: only Spark starts this command, in the pods of its executors"
        )
    numbers = sorted(
        int(name.removeprefix(_OPTION)) for name in environment if name.startswith(_OPTION)
    )
    places = [environment.get("SPARK_CONF_DIR"), environment.get("SPARK_CLASSPATH"), f"{jars}/*"]
    command = ["java", *(environment[f"{_OPTION}{number}"] for number in numbers)]
    command += [f"-Xmx{environment[_MEMORY]}", "-cp", ":".join(each for each in places if each)]
    command.append(_MAIN)
    for option, name in _ARGUMENTS.items():
        command += [option, environment[name]]
    return command
