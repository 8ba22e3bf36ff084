"""Authentication and encryption between driver and executors in pods. Pure."""

from collections.abc import Mapping

_ON_KUBERNETES: Mapping[str, str] = {
    # Spark generates a secret for each application, and passes it to the executors in their environment.
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    # With derived keys, which Spark's documentation recommends.
    "spark.network.crypto.authEngineVersion": "2",
    # Otherwise a peer could choose SASL, which is not encrypted. Only old shuffle services need it.
    "spark.network.crypto.saslFallback": "false",
}


def encryption_of(master: str, authenticate: str = "true") -> Mapping[str, str]:
    """Return the default settings for a master. `authenticate`: the user's value of `spark.authenticate`, without which Spark
    refuses to encrypt.

    Only for Kubernetes, where Spark distributes the secret by itself: for other clusters it has to be configured on all hosts, and YARN
    distributes it safely only with encrypted RPCs of its own.
    """
    return _ON_KUBERNETES if master.startswith("k8s://") and authenticate == "true" else {}
