"""Argument parser and output of the command-line programs: a usage error is one line that refers to --help.

Imports only the standard library, because the programs parse arguments before their packages are loaded.
"""

import argparse
import errno
import io
import os
import re
import sys
from typing import NoReturn, TextIO

_INVALID_NUMBER = re.compile(r"invalid (int|float) value: (.*)", re.DOTALL)
_NUMBERS = {"int": "a whole number", "float": "a number"}


class Parser(argparse.ArgumentParser):
    """Parser of a program; argparse uses the same class for its subcommands."""

    def error(self, message: str) -> NoReturn:
        plain = _INVALID_NUMBER.sub(
            lambda found: f"{found[2]} is not {_NUMBERS[found[1]]}", message
        )
        print(f"{self.prog}: {plain}; see {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


INTERRUPTED = 130
"""Exit code after Ctrl-C, as of a shell for a command that ended by SIGINT."""


def print_result(program: str, text: str) -> int:
    """Print the result of a program; returns the exit code.

    A reader that stops early, such as `head`, is no error. Output that can't be written is one, in one line on stderr.
    """
    try:
        write_text(text)
    except BrokenPipeError:
        discard_output()
        return 0
    except OSError as error:
        print(f"{program}: the output can't be written: {error.strerror or error}", file=sys.stderr)
        discard_output()
        return 1
    return 0


def write_text(text: str, before: str = "") -> None:
    """Print lines at once. Raises OSError: BrokenPipeError if the reader has stopped.

    Characters that the terminal's encoding does not have are escaped. A terminal gets no control characters except `before`; files and pipes
    get all.
    """
    stream: TextIO | None = sys.stdout  # None if it was closed when the program was started
    if stream is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    if stream.isatty():
        text = printable(text)
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")
    print(before + text, file=stream, flush=True)


def printable(text: str) -> str:
    """Replace control characters: names and values are written by many, and errors by any server, who must not control the terminal of
    an administrator.
    """
    return "".join(
        each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for each in text
    )


def discard_output() -> None:
    """Write what is still buffered nowhere: at its end Python would try to write it once more, and report that."""
    stream: TextIO | None = sys.stdout
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
