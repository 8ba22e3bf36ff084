"""The script that starts Python for Spark: with the installed PySpark, not with the one in Spark's zip files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quorum_pipeline.spark import session

SCRIPT = Path(session.__file__).with_name("worker_python.sh")
ZIPS = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip"
JAR = "/spark/jars/spark-core.jar"


def path_given(python_path: str | None) -> str | None:
    environment = {"PATH": os.environ["PATH"], "QUORUM_PIPELINE_PYTHON": sys.executable}
    if python_path is not None:
        environment["PYTHONPATH"] = python_path
    code = "import os; print(os.environ.get('PYTHONPATH'))"
    done = subprocess.run(
        [SCRIPT, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found = done.stdout.strip()
    return None if found == "None" else found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (f"{ZIPS}:{JAR}", JAR),
        (f"{ZIPS}:{JAR}:{ZIPS}:{JAR}:/mine", f"{JAR}:{JAR}:/mine"),
        ("/mine and *:/other", "/mine and *:/other"),
        (ZIPS, ""),
        (None, None),
    ],
    ids=["jobs", "data sources", "user", "nothing else", "none"],
)
def test_zip_files_of_spark_are_left_out(given: str | None, expected: str | None) -> None:
    assert path_given(given) == expected
