"""`quorum-pipeline NAME`: runs a command, and converts errors to one line and an exit code."""

import argparse
import gc
import os
import select
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NoReturn, TextIO

from quorum_node.command_line import Parser
from quorum_node.core_dumps import forbid_core_dumps
from quorum_node.missing_extra import brought_by
from quorum_pipeline.errors import NO_SPACE, PipelineError
from quorum_pipeline.files.loop_cache import use_loop_cache
from quorum_pipeline.output_encoding import escape_unencodable
from quorum_pipeline.redaction import redacted, remember_secrets
from quorum_pipeline.scratch import scratch_directory

_COMMANDS = {
    "archive": "every record of a log, once, in Parquet",
    "history": "by which operations an archive was written",
    "state": "the state of the cluster at an offset or a time",
    "audit": "whether replicas have the same history, and which one differs",
    "diff": "what changed between two offsets",
    "versions": "when which row of the tables had which values, as Parquet that later runs add to",
    "timeline": "what happened to the cluster, when, and how long it took",
    "restore": "a node's directory with the state at an offset or a time, to start a new quorum from",
    "plan": "a reassignment that balances the cluster with few moves",
    "prepare": "run once after the installation to halve the start time of later runs",
    "executor": "process of an executor's pod for Spark on Kubernetes",
}
"""Modules of `quorum_pipeline.commands`; only the requested one is imported."""

EXIT_CODES = {
    0: "done",
    1: "completed, but damage or differences were found, or records were put into quarantine",
    2: "wrong usage, or wrong or damaged input; one line on stderr names file, byte and offset",
    130: "ended by Ctrl-C or SIGTERM",
    141: "the reader of the output, such as `head`, has closed it; the rest was not written",
}
_INTERRUPTED, _CLOSED = 130, 141
_OBJECTS_BETWEEN_COLLECTIONS = 1_000_000


class _Parser(Parser):
    """Also of the commands. A usage error may repeat an argument with credentials."""

    def error(self, message: str) -> NoReturn:
        """See Parser."""
        super().error(redacted(message))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. Without `arguments` it is the only one of this process."""
    if arguments is not None:
        return _run(arguments)
    with scratch_directory():
        return _run(sys.argv[1:])


def _run(given: Sequence[str]) -> int:
    forbid_core_dumps()
    remember_secrets(given)
    if not _has_output():
        print("quorum-pipeline: the output can't be written: it is closed", file=sys.stderr)
        return 2
    escape_unencodable()
    try:
        return _ran(given)
    except KeyboardInterrupt:
        name = given[0] if given[:1] and given[0] in _COMMANDS else ""
        print(f"{' '.join(('quorum-pipeline', name)).rstrip()}: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _has_output() -> bool:
    """Return whether standard output was open when the program was started. A closed standard error is replaced: Python would print
    errors to standard output.
    """
    errors: TextIO | None = sys.stderr
    if errors is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the rest of the process
    output: TextIO | None = sys.stdout
    return output is not None


def _ran(given: Sequence[str]) -> int:
    parser = _Parser(
        prog="quorum-pipeline",
        description="The history of a metadata quorum as tables.",
        epilog="exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()),
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    use_loop_cache()
    for name, text in _COMMANDS.items():
        found = commands.add_parser(name, help=text, description=text)
        if given[:1] == [name]:
            with brought_by("pipeline"):
                command = import_module(f"quorum_pipeline.commands.{name}")
                command.add_arguments(found)
    parsed = parser.parse_args(given)
    # A state consists of millions of objects without cycles. Garbage collection among them would
    # take as long as creating them.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        run: Callable[[argparse.Namespace], int] = command.run
        code = run(parsed)
        sys.stdout.flush()
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            return _CLOSED
        why = _reason(error)
        if why is None:
            raise
        print(f"quorum-pipeline {parsed.command}: {redacted(why)}", file=sys.stderr)
        return 2
    return code


def _reason(error: Exception) -> str | None:
    """Return one line for an error that the user can act on, or that Spark has caused; None for a defect of this program."""
    if not isinstance(error, PipelineError) and "pyspark" in sys.modules:
        from quorum_pipeline.spark.reason import failure_of

        found = failure_of(error)
        if found is not None:
            return f"Spark: {found}"
    if isinstance(error, OSError) and error.errno in NO_SPACE and error.filename is None:
        return f"{os.strerror(error.errno)}: of the output, or of the directory for temporary files"
    return str(error) if isinstance(error, PipelineError | OSError) else None


def _nobody_reads() -> bool:
    """Return whether the output is a pipe without a reader; then nothing more is written to it."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), select.POLLOUT)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


if __name__ == "__main__":
    sys.exit(main())
