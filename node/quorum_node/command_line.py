"""Argument parser of the command-line programs: a usage error is one line that refers to --help.

Imports only the standard library, because the programs parse arguments before their packages are loaded.
"""

import argparse
import re
import sys
from typing import NoReturn

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
