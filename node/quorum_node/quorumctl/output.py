"""Output of commands that print while they run. The result of all others is printed by `command_line.print_result`."""

import io
import sys

from quorum_node.command_line import discard_output, printable
from quorum_node.quorumctl.client import CommandFailed


def show(text: str, before: str = "") -> None:
    """Print lines at once, as `print_result` does: a terminal gets no control characters except `before`.

    Raises BrokenPipeError if the reader has stopped, and CommandFailed if the output can't be written.
    """
    if sys.stdout.isatty():
        text = printable(text)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(before + text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise CommandFailed(f"the output can't be written: {error.strerror or error}") from error
