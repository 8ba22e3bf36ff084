"""Metrics: the text that Prometheus reads, and the document that people read."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from quorum_node.server.metrics import SPECS, Metrics, markdown

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_every_metric_is_in_the_text_that_prometheus_reads() -> None:
    metrics = Metrics()
    metrics.gauges = lambda: {
        spec.name.removeprefix("metadata_quorum_"): {"leader": 1.0} if spec.label else 1.0
        for spec in SPECS
        if spec.kind == "gauge"
    }
    metrics.count("flushes", 3)
    metrics.count_labelled("requests", "Fetch", 2)
    metrics.observe("commit_latency_seconds", 0.0007)
    text = metrics.render().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(families) == {spec.name for spec in SPECS}
    samples = {(s.name, s.labels.get("le")): s.value
               for s in families["metadata_quorum_commit_latency_seconds"].samples}  # fmt: skip
    name = "metadata_quorum_commit_latency_seconds_bucket"
    assert (samples[name, "0.0005"], samples[name, "0.001"], samples[name, "+Inf"]) == (0, 1, 1)
    assert 'metadata_quorum_requests_total{api="Fetch"} 2.0' in text


def test_the_document_is_the_code() -> None:
    assert DOCUMENT.read_text() == markdown()
