"""Exit codes: of a node from its enumeration, of the other programs as their help tells them."""

import ast
import inspect
import itertools
import re
from collections.abc import Iterator

from docs._site.pages.markdown import head, page, table
from quorum_node import exit_codes
from quorum_node.archiver import main as backup_main
from quorum_node.exit_codes import ExitCode, TerminationReason
from quorum_node.quorumctl import main as quorumctl_main
from quorum_node.server.process.hanging_stop import KILLED
from quorum_operator import usage as operator_usage
from quorum_operator.plugin import main as plugin_main
from quorum_pipeline import __main__ as pipeline_main

_PROGRAMS = {
    "quorum-operator": operator_usage,
    "quorumctl": quorumctl_main,
    "quorum-backup": backup_main,
    "kubectl quorum": plugin_main,
    "quorum-pipeline": pipeline_main,
}
_OPTION = re.compile(r"(--[a-z-]+)")
_WHAT_TO_DO = {
    ExitCode.OK: "Nothing.",
    ExitCode.IDENTITY_MISMATCH: (
        "Check `node.id`, `cluster.id` and which directory is mounted. Nothing in the directory was changed."
    ),
    ExitCode.INTERNAL_ERROR: "Start it again; a pod restarts by itself. Report the error in the log.",
    ExitCode.OUT_OF_RESOURCES: (
        "Raise the limit of open files or of memory, or lower `max.connections`; a pod restarts by itself. The message names the"
        " error."
    ),
    ExitCode.DISK_FULL: (
        "Give the volume more space, then start it again; a pod restarts by itself. See"
        " [DiskFull](../how-to/conditions/DiskFull.md)."
    ),
    ExitCode.STORAGE_FAILED: (
        "Nothing with the operator, which [replaces the member](../explanation/operator.md#repair). Otherwise start a"
        " new node on an empty disk, `quorumctl add-voter`, and `quorumctl remove-voter` for the old one."
    ),
    ExitCode.NO_PERMISSION: (
        "Correct owner and mode of the data directory. In a pod `fsGroup` does so for a new pod, and the operator recreates"
        " the pod; for a volume type without `fsGroup` correct the directory on the host."
    ),
    ExitCode.BAD_CONFIGURATION: (
        "Correct the value, in the configuration file or in `spec.config`."
        " [Configuration](configuration.md) describes each key."
    ),
}

_KILLED = (
    f"Code {KILLED} is that of a process killed by the kubelet. The node also uses it if its disk"
    " [hangs during a stop](../explanation/durability.md#reaction-to-errors): the disk does not count as failed."
)


def markdown() -> str:
    """docs/reference/exit-codes.md."""
    lines = head("Exit codes", "`node/quorum_node/exit_codes.py` and the programs")
    lines += [
        "## quorum-node",
        "",
        "On Kubernetes `kubectl describe pod POD` shows the reason and details, from the termination message of the container.",
        "",
    ]
    reasons = {reason.exit_code: reason.value for reason in TerminationReason}
    rows = [
        (
            str(code.value),
            code.name,
            # Not as code, which may be broken within a word.
            reasons.get(code, ""),
            text,
            _WHAT_TO_DO[code],
        )
        for code, text in _meanings()
    ]
    lines += table(("code", "name", "reason", "meaning", "what to do"), rows)
    lines += [
        "Code 2 is wrong usage: an option that does not exist, or a missing one.",
        "",
        _KILLED,
        "",
    ]
    for program, module in _PROGRAMS.items():
        lines += [f"## {program}", ""]
        lines += table(
            ("code", "meaning"),
            [(str(code), _OPTION.sub(r"`\1`", text)) for code, text in module.EXIT_CODES.items()],
        )
    return page(lines)


def _meanings() -> Iterator[tuple[ExitCode, str]]:
    """Each code with the docstring below it."""
    tree = ast.parse(inspect.getsource(exit_codes))
    (body,) = [
        node.body
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == ExitCode.__name__
    ]
    for node, after in itertools.pairwise(body):
        if isinstance(node, ast.Assign) and isinstance(after, ast.Expr):
            (name,) = node.targets
            assert isinstance(name, ast.Name)
            assert isinstance(after.value, ast.Constant)
            yield ExitCode[name.id], str(after.value.value)
