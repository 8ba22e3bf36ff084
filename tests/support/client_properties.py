"""Properties of Kafka's clients and tools, as `--command-config` takes them: who they are, and whom they trust.

Must not know where the files are read: paths are given as they stand there.
"""

from pathlib import Path

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def by_certificate(folder: Path) -> str:
    """Of somebody whose `keystore.pem` is in a folder, beside the authorities in `ca.crt`."""
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
    """Of somebody who logs in."""
    return (
        f"security.protocol={protocol}\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="{user}" password="{password}";\n'
        f"{trusting(authorities)}"
    )


def trusting(authorities: Path) -> str:
    """Whom they believe to be a server."""
    return f"ssl.truststore.type=PEM\nssl.truststore.location={authorities}\n"
