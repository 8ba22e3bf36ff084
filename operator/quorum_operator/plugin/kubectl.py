"""Calls kubectl and parses its output. kubectl provides kubeconfig, contexts and authentication."""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quorum_operator.nesting import shallow

Object = dict[str, Any]

QUORUMS = "metadataquorums.metadataquorum.dev"
KIND = "MetadataQuorum"
TIMEOUT_S = 60.0
_CONFLICT = "Operation cannot be fulfilled"
_LOG_LINE = re.compile(r"[IWE]\d{4} \d\d:\d\d:\d\d\.")


class CommandFailed(Exception):
    """A failed command, with a message for the user."""


class NoSuchQuorum(CommandFailed):
    """There is no MetadataQuorum of that name."""


class ConflictingChange(CommandFailed):
    """A conditional change was rejected: another client has written the object since it was read."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Calls in one namespace (empty: the context's); `options` are added to every call."""

    namespace: str = ""
    options: tuple[str, ...] = ()
    program: str = "kubectl"

    def quorum(self, name: str) -> Object:
        """The MetadataQuorum. Raises CommandFailed if it can't be read, NoSuchQuorum if there is none."""
        found = self._document("get", QUORUMS, name, "-o", "json")
        if not isinstance(found.get("metadata"), dict):
            raise CommandFailed(_not_kubectl(self.program))
        return found

    def events(self, name: str) -> list[Object]:
        """Events of this MetadataQuorum; empty if the user may not list events."""
        fields = f"involvedObject.kind={KIND},involvedObject.name={name}"
        try:
            found = self._document("get", "events", "--field-selector", fields, "-o", "json")
        except CommandFailed:
            return []
        items: list[Object] = found.get("items") or []
        return items

    def patch(self, name: str, body: Object) -> None:
        """Apply a merge patch; metadata.resourceVersion in `body` makes it conditional. Raises ConflictingChange."""
        self._run("patch", QUORUMS, name, "--type", "merge", "-p", json.dumps(body))

    def execute(self, pod: str, command: Sequence[str]) -> str:
        """Run a command in the node's container; returns its output."""
        return self._run("exec", pod, "-c", "node", "--", *command)

    def logs(self, arguments: Sequence[str]) -> int:
        """Run `kubectl logs` on this terminal; returns its exit code."""
        try:
            return subprocess.run(self.command("logs", *arguments), check=False).returncode
        except FileNotFoundError:
            raise CommandFailed(_missing(self.program)) from None
        except OSError as error:
            raise CommandFailed(_unusable(self.program, error)) from None

    def command(self, *arguments: str) -> list[str]:
        """The whole command line."""
        space = ["--namespace", self.namespace] if self.namespace else []
        verb, *rest = arguments
        return [self.program, verb, *self.options, *space, *rest]

    def _document(self, *arguments: str) -> Object:
        output = self._run(*arguments)
        try:
            document = json.loads(shallow(output))
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise CommandFailed(_not_kubectl(self.program))
        return document

    def _run(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                self.command(*arguments),
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                timeout=TIMEOUT_S,
            )
        except FileNotFoundError:
            raise CommandFailed(_missing(self.program)) from None
        except OSError as error:
            raise CommandFailed(_unusable(self.program, error)) from None
        except subprocess.TimeoutExpired:
            raise CommandFailed(
                f"no answer from the API server within {TIMEOUT_S:.0f} s; try `kubectl get {QUORUMS}`"
            ) from None
        if done.returncode != 0:
            text = _without_log(done.stderr) or done.stdout.strip()
            text = text or f"{self.program} printed nothing and ended with code {done.returncode}"
            raise _kind_of(text)(_explained(text))
        return done.stdout


def program() -> str:
    """The kubectl program; the variable KUBECTL overrides the one on the PATH."""
    return os.environ.get("KUBECTL") or "kubectl"


def _missing(name: str) -> str:
    return f"{name} is not on the PATH: install kubectl, or name it in the variable KUBECTL"


def _not_kubectl(name: str) -> str:
    return (
        f"{name} printed no object in JSON: is it kubectl? Name another one in the variable KUBECTL"
    )


def _unusable(name: str, error: OSError) -> str:
    return f"{name} can't be run: {error.strerror or error}; name kubectl in the variable KUBECTL"


def _without_log(error: str) -> str:
    """kubectl's error without the lines that its libraries log before it, one for each attempt."""
    lines = error.strip().splitlines()
    return "\n".join(line for line in lines if not _LOG_LINE.match(line)) or error.strip()


def _kind_of(error: str) -> type[CommandFailed]:
    if _CONFLICT in error:
        return ConflictingChange
    return NoSuchQuorum if _is_missing(error) else CommandFailed


def _is_missing(error: str) -> bool:
    return "(NotFound)" in error and KIND.lower() in error


def _explained(error: str) -> str:
    """kubectl's error with advice."""
    if error.startswith("The connection to the server"):
        return f"{error}\nNo cluster answers: check `kubectl config current-context`, or choose another --context"
    if "doesn't have a resource type" in error:
        return f"{error}\nThis cluster has no MetadataQuorums: install the operator, or choose another --context"
    if _is_missing(error):
        return f"{error}\nSee `kubectl get metadataquorums --all-namespaces`, and name the namespace with -n"
    if _CONFLICT in error:
        return (
            f"{error}\nThe resource was changed at the same time: check it, and repeat the command"
        )
    return error
