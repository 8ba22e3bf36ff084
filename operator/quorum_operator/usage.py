"""What `quorum-operator --help` prints. Imports nothing of the operator, so that it also works where kopf is missing.

Owns the names of the environment variables in a few words each; `settings.py` reads them, docs/reference/configuration.md
describes them.
"""

import argparse

VARIABLES = {
    "WATCH_NAMESPACE": "namespaces whose resources it runs, with commas between them; empty: all",
    "METADATAQUORUM_OPERATOR_RESYNC_SECONDS": "how often a quorum is looked at when nothing happens (10)",
    "METADATAQUORUM_OPERATOR_API_CALLS_PER_SECOND": "calls to the API server, beyond the burst (400)",
    "METADATAQUORUM_OPERATOR_API_BURST": "so many at once (2000)",
    "METADATAQUORUM_OPERATOR_RESOURCE_CALLS_PER_SECOND": "of these, on behalf of one resource (40)",
    "METADATAQUORUM_OPERATOR_RESOURCE_BURST": "so many at once (500)",
    "METADATAQUORUM_OPERATOR_LOG_LEVEL": "DEBUG, INFO, WARNING or ERROR (INFO)",
    "METADATAQUORUM_OPERATOR_LISTEN": "where /healthz and /metrics are served (0.0.0.0:8080)",
    "METADATAQUORUM_OPERATOR_PAGE": "host:port of the live page; empty: there is none",
    "METADATAQUORUM_OPERATOR_PAGE_TOKEN_FILE": "file with the token that readers of the page show",
    "METADATAQUORUM_OPERATOR_LEASE": "namespace/name of the Lease whose holder works; empty: no other operator",
    "METADATAQUORUM_OPERATOR_IDENTITY": "who holds the lease; empty: a name of this process",
    "METADATAQUORUM_OPERATOR_NAMESPACE": "namespace of its own pod; empty: that of the lease",
}
"""Name to meaning, with the default in parentheses."""


def parse(arguments: list[str] | None = None) -> None:
    """Take no arguments. Raises SystemExit: 0 after --help, 2 for anything else."""
    listed = "\n".join(f"  {name}\n      {meaning}" for name, meaning in VARIABLES.items())
    argparse.ArgumentParser(
        prog="quorum-operator",
        description="Runs MetadataQuorum resources of a Kubernetes cluster, until SIGTERM or SIGINT.",
        epilog=f"environment variables:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args(arguments)
