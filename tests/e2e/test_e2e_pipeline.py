"""The archive as the chart installs it, with Spark's executors as pods of their own, which are killed meanwhile."""

from collections.abc import Callable

import pytest

from support.kind_env.environment import KindEnv
from support.kind_env.pipeline import Pipeline
from support.workload.replica_log import records

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

_MORE_RECORDS = 100
# From the chart's installation: driver, two executors and the first batch, each a JVM that starts
_BEGUN_S = 300


@pytest.mark.requirement("SP-02", "SP-08")
def test_spark_executors_run_as_pods_and_no_row_is_lost_when_they_are_killed(
    env: KindEnv, record_property: Callable[[str, object], None]
) -> None:
    """Records are written all the time. Then the archive has each record of the node's log once."""
    quorum = env.create_under_load(3, tls={"mode": "Disabled"})
    with Pipeline(env.cluster, quorum) as pipeline:
        end = pipeline.wait_archived(1, timeout_s=_BEGUN_S)[-1].end
        killed = []
        for kill in (pipeline.kill_9, pipeline.delete, pipeline.kill_9, pipeline.delete):
            worker = pipeline.wait_worker()
            killed.append(worker)
            kill(worker)
            end = pipeline.wait_archived(end + _MORE_RECORDS)[-1].end
            pipeline.wait_executors(without=worker)
        assert len(set(killed)) == len(killed)
        env.the_load.stop()
        described = quorum.wait_healthy(3, timeout_s=30)
        ranges = pipeline.wait_archived(described.high_watermark)
        columns = ["offset", "epoch", "config"]
        table = pipeline.rows(ranges, columns, env.folder / "archive")
        pipeline.stop()
    assert table["offset"].to_pylist() == list(range(ranges[-1].end))
    pod = quorum.pods()[0]["metadata"]["name"]
    log = list(records(pod, lambda path: quorum.fetch_from(pod, path), 0))[: ranges[-1].end]
    archived = table.to_pylist()
    assert [(row["offset"], row["epoch"]) for row in archived] == [
        (record["offset"], record["epoch"]) for record in log
    ]
    values = {row["offset"]: row["config"]["value"] for row in archived if row["config"]}
    configs = [record for record in log if record["type"] == "ConfigRecord"]
    assert len(configs) > 4 * _MORE_RECORDS
    for record in configs:
        assert values[record["offset"]] == record["fields"]["value"]
    record_property("records", ranges[-1].end)
    record_property("executors killed", len(killed))
