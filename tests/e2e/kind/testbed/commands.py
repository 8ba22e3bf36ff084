"""Runs other programs with a time limit and turns their failures into messages that say what to do."""

import functools
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

Command = Sequence[str | Path]


class TestbedError(Exception):
    """Something the person at the keyboard has to know; the message says what to do about it."""

    __test__ = False  # its name begins like a test class


class CommandFailed(TestbedError):
    """A program ended with a status other than 0, or did not end in time."""

    def __init__(self, command: Sequence[str], status: int | None, output: str) -> None:
        self.command = tuple(command)
        self.status = status
        self.output = output
        how = "did not end in time" if status is None else f"ended with status {status}"
        tail = "\n".join(output.strip().splitlines()[-15:])
        super().__init__(f"{shlex.join(command)}\n  {how}" + (f":\n{tail}" if tail else ""))


def run(
    command: Command,
    *,
    timeout_s: float,
    check: bool = True,
    stdin: str | None = None,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs to the end; output is captured, and shown only when the command fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            cwd=directory,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired as late:
        raise CommandFailed(words, None, _text(late.stdout) + _text(late.stderr)) from None
    except FileNotFoundError:
        raise TestbedError(f"{words[0]}: no such program on this machine") from None
    if check and done.returncode != 0:
        raise CommandFailed(words, done.returncode, done.stdout + done.stderr)
    return done


def succeeds(command: Command, *, timeout_s: float) -> bool:
    try:
        return run(command, timeout_s=timeout_s, check=False).returncode == 0
    except TestbedError:
        return False


def pipe(
    producer: Command,
    consumer: Command,
    *,
    timeout_s: float,
    output: Path | None = None,
    source: Path | None = None,
) -> None:
    """`producer < source | consumer > output`; both must succeed."""
    first_words, second_words = [str(w) for w in producer], [str(w) for w in consumer]
    with (
        open(source or os.devnull, "rb") as read_from,
        open(output or os.devnull, "wb") as write_to,
        subprocess.Popen(
            first_words, stdin=read_from, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as first,
        subprocess.Popen(
            second_words, stdin=first.stdout, stdout=write_to, stderr=subprocess.PIPE
        ) as second,
    ):
        assert first.stdout is not None
        first.stdout.close()  # so that the producer notices when the consumer ends early
        try:
            second_errors = second.communicate(timeout=timeout_s)[1]
            first_errors = first.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:
            first.kill()
            second.kill()
            raise CommandFailed(second_words, None, "") from None
    if second.returncode != 0:
        raise CommandFailed(second_words, second.returncode, _text(second_errors))
    if first.returncode != 0:
        raise CommandFailed(first_words, first.returncode, _text(first_errors))


def as_root(command: Command) -> list[str]:
    """The same command with root's rights: mounts and loop devices need them."""
    words = [str(word) for word in command]
    if os.geteuid() == 0:
        return words
    if may_be_root():
        return ["sudo", "-n", *words]
    raise TestbedError(
        f"{words[0]} needs root: run as root, or allow sudo without a password for this user"
    )


@functools.cache
def may_be_root() -> bool:
    if os.geteuid() == 0:
        return True
    return bool(shutil.which("sudo")) and succeeds(["sudo", "-n", "true"], timeout_s=10)


def _text(output: bytes | str | None) -> str:
    if output is None:
        return ""
    return output if isinstance(output, str) else output.decode(errors="replace")
