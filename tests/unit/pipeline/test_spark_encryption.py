"""Driver and executors in pods authenticate and encrypt, also if the command is not started by the chart."""

import pytest

from quorum_pipeline.spark.encryption import encryption_of


def test_connections_between_pods_are_encrypted_by_default() -> None:
    settings = encryption_of("k8s://https://kubernetes.default.svc")
    assert settings["spark.authenticate"] == "true", "encryption requires it"
    assert settings["spark.network.crypto.enabled"] == "true"
    assert settings["spark.network.crypto.saslFallback"] == "false", "SASL encrypts nothing"


@pytest.mark.parametrize(
    "master", ["local[*]", "local-cluster[2,1,1024]", "spark://h:7077", "yarn"]
)
def test_secret_is_not_required_where_spark_does_not_distribute_it(master: str) -> None:
    assert encryption_of(master) == {}


def test_nothing_is_encrypted_where_authentication_was_switched_off() -> None:
    """Spark would not start."""
    assert encryption_of("k8s://https://kubernetes.default.svc", "false") == {}
