"""The text of `quorum-operator --help`. It imports no other module of the operator, so that it works without kopf.

Contains short descriptions of the environment variables. `settings.py` reads them; docs/reference/configuration.md
describes them in detail.
"""

import argparse

from quorum_node.command_line import Parser

VARIABLES = {
    "WATCH_NAMESPACE": "comma-separated namespaces to watch; empty: all",
    "METADATAQUORUM_OPERATOR_RESYNC_SECONDS": "interval of reconciles without events (10)",
    "METADATAQUORUM_OPERATOR_API_CALLS_PER_SECOND": "rate limit of calls to the API server (400)",
    "METADATAQUORUM_OPERATOR_API_BURST": "burst of that limit (2000)",
    "METADATAQUORUM_OPERATOR_RESOURCE_CALLS_PER_SECOND": "the same rate limit for each resource (40)",
    "METADATAQUORUM_OPERATOR_RESOURCE_BURST": "burst of that limit (500)",
    "METADATAQUORUM_OPERATOR_LOG_LEVEL": "DEBUG, INFO, WARNING or ERROR (INFO)",
    "METADATAQUORUM_OPERATOR_LISTEN": "where /healthz and /metrics are served (0.0.0.0:8080)",
    "METADATAQUORUM_OPERATOR_PAGE": "host:port of the live page; empty: there is none",
    "METADATAQUORUM_OPERATOR_PAGE_TOKEN_FILE": "file with the token for access to the live page",
    "METADATAQUORUM_OPERATOR_LEASE": "namespace/name of the Lease for leader election; empty: no leader election",
    "METADATAQUORUM_OPERATOR_IDENTITY": "holder identity in the lease; empty: a generated name",
    "METADATAQUORUM_OPERATOR_NAMESPACE": "namespace of the operator's pod; empty: that of the lease",
}
"""Name to meaning, with the default in parentheses."""

EXIT_CODES = {
    0: "stopped by SIGTERM or SIGINT",
    1: "it failed to start six times in a row; the error is in the log",
    2: "wrong usage: it takes no arguments",
    78: "an environment variable has a wrong value; the message names it",
}
"""78 is `ExitCode.BAD_CONFIGURATION` of the node."""


def parse(arguments: list[str] | None = None) -> None:
    """Accept no arguments except --help. Raises SystemExit: 0 after --help, 2 with one line for anything else."""
    listed = "\n".join(f"  {name}\n      {meaning}" for name, meaning in VARIABLES.items())
    codes = "\n".join(f"  {code}  {meaning}" for code, meaning in EXIT_CODES.items())
    Parser(
        prog="quorum-operator",
        description="Runs MetadataQuorum resources of a Kubernetes cluster, until SIGTERM or SIGINT.",
        epilog=f"environment variables:\n{listed}\n\nexit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args(arguments)
