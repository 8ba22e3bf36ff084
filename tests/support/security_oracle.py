"""Java and stock Kafka as the reference for names, rules, rights and SCRAM (tests/interop/kafka/SecurityOracle.java).

Owns the protocol of lines. Must not know what is compared.
"""

import base64
import subprocess

from support import stock_kafka

_PROGRAM = "SecurityOracle"


class OracleRefused(Exception):
    """Java raised an exception; the message is its error."""


class SecurityOracle:
    """One Java process; a context manager."""

    def __init__(self) -> None:
        classes = stock_kafka.compiled(stock_kafka.SOURCES / f"{_PROGRAM}.java")
        self._process = subprocess.Popen(
            stock_kafka.java(_PROGRAM, classes=classes),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, word: str, *fields: str) -> str:
        """The answer. Raises OracleRefused."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [word, *(base64.b64encode(each.encode()).decode() for each in fields)]
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{_PROGRAM} ended"
        text = base64.b64decode(line[1:].strip()).decode()
        if line[0] == "!":
            raise OracleRefused(text)
        return text

    def __enter__(self) -> "SecurityOracle":
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()
