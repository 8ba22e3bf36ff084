"""What Spark puts into an executor's pod becomes the command line of its executor."""

from pathlib import Path

import pytest

from quorum_pipeline.__main__ import main
from quorum_pipeline.commands.executor import java_command
from quorum_pipeline.errors import PipelineError

# As Spark 4.3 sets it.
ENVIRONMENT = {
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_DIRS": "/var/data/spark-2",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_EXECUTOR_POD_NAME": "archive-exec-7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    **{f"SPARK_JAVA_OPT_{number}": f"-Doption={number}" for number in (10, 9, 0)},
}


def test_every_setting_reaches_the_process() -> None:
    command = java_command(ENVIRONMENT, Path("/jars"))
    assert command[:4] == ["java", "-Doption=0", "-Doption=9", "-Doption=10"]
    assert command[4:7] == ["-Xmx1024m", "-cp", "/opt/spark/conf:/jars/*"]
    assert command[7].endswith(".KubernetesExecutorBackend")
    arguments = dict(zip(command[8::2], command[9::2], strict=True))
    assert arguments == {
        "--driver-url": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
        "--executor-id": "7",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.2",
        "--resourceProfileId": "0",
        "--podName": "archive-exec-7",
    }


def test_user_classes_precede_those_of_spark() -> None:
    command = java_command(ENVIRONMENT | {"SPARK_CLASSPATH": "/more/*"}, Path("/jars"))
    assert "/opt/spark/conf:/more/*:/jars/*" in command


@pytest.mark.parametrize("name", ["SPARK_DRIVER_URL", "SPARK_EXECUTOR_MEMORY"])
def test_process_not_started_by_spark_is_rejected(name: str) -> None:
    environment = {key: value for key, value in ENVIRONMENT.items() if key != name}
    with pytest.raises(PipelineError, match=name):
        java_command(environment, Path("/jars"))


def test_manual_start_is_rejected_with_an_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["executor"]) == 2
    assert "only Spark starts this command" in capsys.readouterr().err
