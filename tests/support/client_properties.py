"""Properties of Kafka's clients and tools, as for `--command-config`: their identity, and the authorities that they trust.

Must not know where the files are read: paths are used as given.
"""

from pathlib import Path

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def by_certificate(folder: Path) -> str:
    """For a client with the `keystore.pem` in this folder, which also has the authorities in `ca.crt`."""
    return (
        "security.protocol=SSL\nssl.keystore.type=PEM\n"
        f"ssl.keystore.location={folder / 'keystore.pem'}\n{trusting(folder / 'ca.crt')}"
    )


def by_password(
    user: str,
    password: str,
    authorities: Path,
    *,
    mechanism: str = "SCRAM-SHA-512",
    protocol: str = "SASL_SSL",
) -> str:
    """For a client that logs in by SASL."""
    return (
        f"security.protocol={protocol}\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="{user}" password="{password}";\n'
        f"{trusting(authorities)}"
    )


def trusting(authorities: Path) -> str:
    """The authorities that a client trusts."""
    return f"ssl.truststore.type=PEM\nssl.truststore.location={authorities}\n"
