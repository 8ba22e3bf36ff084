"""The calls of `kubectl quorum` to kubectl, and its exit codes, with a kubectl that records its calls."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quorum_node.quorumctl.main import _parser as quorumctl_parser
from quorum_operator.plugin import commands, main
from quorum_operator.plugin.commands import Call
from quorum_operator.plugin.kubectl import CommandFailed, Kubectl

_RECORDED = Path(__file__).parent / "recorded"
_KUBECTL = """#!{python} -S
import json, os, sys
with open({calls!r}, "a") as calls:
    print(json.dumps(sys.argv[1:]), file=calls)
if sys.argv[1] == "get" and os.path.exists({error!r}):
    sys.exit(open({error!r}).read())
if sys.argv[1] == "get":
    print(open({events!r} if "events" in sys.argv else {resource!r}).read())
elif sys.argv[1] == "exec":
    print("the leader of epoch 4 handed over")
elif sys.argv[1] == "patch" and "--context=broken" in sys.argv:
    sys.exit("Error from server (Conflict): Operation cannot be fulfilled on metadataquorums")
elif sys.argv[1] == "patch" and ({{"--context=written", "--context=edited"}} & {{*sys.argv}}):
    # Another client was faster, once: it wrote the status or the spec.
    resource = json.load(open({resource!r}))
    if json.loads(sys.argv[-1])["metadata"]["resourceVersion"] == {recorded!r}:
        resource["metadata"]["resourceVersion"] += "1"
        resource["metadata"]["generation"] += "--context=edited" in sys.argv
        json.dump(resource, open({resource!r}, "w"))
        sys.exit("Error from server (Conflict): Operation cannot be fulfilled on metadataquorums")
if "--context=down" in sys.argv:
    log = 'E1127 02:28:31.579017   26904 memcache.go:265] "Unhandled Error" err="refused"'
    sys.exit(log + "\\n" + log + "\\nThe connection to the server localhost:8080 was refused")
"""


class Recording:
    """A kubectl that answers with a recorded resource."""

    def __init__(self, folder: Path) -> None:
        self._calls, self._resource = folder / "calls", folder / "resource"
        self._error = folder / "error"
        events, self.program = folder / "events", folder / "kubectl"
        events.write_text('{"items": []}')
        text = _KUBECTL.format(
            python=sys.executable,
            calls=str(self._calls),
            events=str(events),
            error=str(self._error),
            resource=str(self._resource),
            recorded=self._of("Ready")["metadata"]["resourceVersion"],
        )
        self.program.write_text(text)
        self.program.chmod(0o755)
        self.show("Ready")

    def show(self, state: str, **spec: Any) -> dict[str, Any]:
        resource = self._of(state)
        resource["spec"].update(spec)
        self.put(resource)
        return resource

    def fail_with(self, error: str = "Unable to connect to the server: EOF") -> None:
        self._error.write_text(error)

    def lose(self) -> None:
        self.fail_with(
            'Error from server (NotFound): metadataquorums.metadataquorum.dev "q" not found'
        )

    def answer_again(self) -> None:
        self._error.unlink()

    @staticmethod
    def _of(state: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((_RECORDED / f"{state}.json").read_text())["resource"]
        return found

    def put(self, resource: dict[str, Any]) -> None:
        self.put_text(json.dumps(resource))

    def put_text(self, resource: str) -> None:
        self._resource.write_text(resource)

    @property
    def calls(self) -> list[list[str]]:
        text = self._calls.read_text() if self._calls.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    @property
    def changes(self) -> list[list[str]]:
        return [each for each in self.calls if each[0] != "get"]


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    made = Recording(tmp_path)
    monkeypatch.setenv("KUBECTL", str(made.program))
    monkeypatch.setenv("COLUMNS", "80")
    return made


def test_options_are_passed_to_kubectl_after_its_verb(
    kubectl: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["status", "q", "-n", "blue", "--context", "c", "--kubeconfig", "/k"]) == 0
    assert kubectl.calls[0][:5] == ["get", "--context=c", "--kubeconfig=/k", "--namespace", "blue"]
    assert "Phase       Ready" in capsys.readouterr().out


@pytest.mark.requirement("OP-10")
@pytest.mark.parametrize(
    ("command", "before", "after"), [("pause", False, True), ("resume", True, False)]
)
def test_pause_and_resume_change_one_field_with_its_resource_version(
    kubectl: Recording, command: str, before: bool, after: bool
) -> None:
    resource = kubectl.show("Ready", paused=before)
    assert main.main([command, "q"]) == 0
    ((verb, *_, body),) = kubectl.changes
    version = resource["metadata"]["resourceVersion"]
    assert verb == "patch"
    assert json.loads(body) == {"metadata": {"resourceVersion": version}, "spec": {"paused": after}}
    kubectl.show("Ready", paused=after)
    assert main.main([command, "q"]) == 0
    assert len(kubectl.changes) == 1, "nothing is changed twice"


@pytest.mark.requirement("OP-10")
def test_replace_keeps_ids_that_are_already_retired(kubectl: Recording) -> None:
    kubectl.show("Ready", retire=[7])
    assert main.main(["replace", "q", "2"]) == 0
    ((*_, body),) = kubectl.changes
    assert json.loads(body)["spec"] == {"retire": [7, 2]}


@pytest.mark.requirement("OP-10")
@pytest.mark.parametrize(
    ("node_id", "retired", "message"),
    [("9", [], "has no member 9; its members: 1, 2, 3"), ("1", [*range(20, 36)], "is full")],
)
def test_replace_rejects_impossible_members(
    kubectl: Recording,
    node_id: str,
    retired: list[int],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kubectl.show("Ready", retire=retired)
    assert main.main(["replace", "q", node_id]) == 1
    assert message in capsys.readouterr().err
    assert kubectl.changes == []


@pytest.mark.requirement("OP-10")
def test_transfer_runs_a_valid_quorumctl_command(kubectl: Recording) -> None:
    resource = kubectl.show("Ready")
    leader = resource["status"]["leader"]["id"]
    successor = next(each for each in (1, 2, 3) if each != leader)
    assert main.main(["transfer", "q", "--to", str(successor)]) == 0
    ((_, pod, *rest),) = kubectl.changes
    lead = next(each for each in resource["status"]["members"] if each.get("role") == "leader")
    assert pod == lead["pod"]
    assert rest[:4] == ["-c", "node", "--", "quorumctl"]
    parsed = quorumctl_parser().parse_args(rest[4:])
    assert parsed.successor == successor


def test_transfer_without_leader_or_to_a_non_voter_is_rejected(
    kubectl: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.show("QuorumLost")
    assert main.main(["transfer", "q"]) == 1
    assert "leadership can't be transferred" in capsys.readouterr().err
    kubectl.show("Ready")
    assert main.main(["transfer", "q", "--to", "8"]) == 1
    assert "is not a voter" in capsys.readouterr().err
    assert kubectl.changes == []


@pytest.mark.requirement("OP-10")
def test_logs_of_one_or_all_members_are_shown(kubectl: Recording) -> None:
    resource = kubectl.show("Ready")
    pods = {each["id"]: each["pod"] for each in resource["status"]["members"]}
    assert main.main(["logs", "q", "--id", "2", "-f", "--tail", "5"]) == 0
    assert main.main(["logs", "q", "--previous"]) == 0
    one, every = kubectl.changes
    assert one == ["logs", pods[2], "-c", "node", "--tail=5", "--follow"]
    assert "app.kubernetes.io/instance=q" in every[2]
    assert {"--prefix", "--previous", "--tail=100"} <= set(every)


def test_conflict_message_suggests_a_retry(
    kubectl: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["pause", "q", "--context", "broken"]) == 1
    assert "check it, and repeat" in capsys.readouterr().err


@pytest.mark.requirement("OP-10")
def test_status_written_meanwhile_is_no_conflict_and_a_changed_spec_is_one(
    kubectl: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["replace", "q", "2", "--context", "written"]) == 0
    versions = [json.loads(body)["metadata"]["resourceVersion"] for *_, body in kubectl.changes]
    assert versions[1] == versions[0] + "1"
    assert len(versions) == 2
    kubectl.show("Ready")
    assert main.main(["replace", "q", "2", "--context", "edited"]) == 1
    assert "check it, and repeat" in capsys.readouterr().err
    assert len(kubectl.changes) == 3


def test_unreachable_cluster_gives_one_message_without_the_kubectl_log(
    kubectl: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["status", "q", "--context", "down"]) == 1
    first, advice = capsys.readouterr().err.splitlines()
    assert first == "kubectl quorum: The connection to the server localhost:8080 was refused"
    assert "choose another --context" in advice


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--interval=x", "'x' is not a number of seconds above 0 and up to 86400; see"),
        ("--interval=-1", "'-1' is not a number of seconds above 0"),
        ("--interval=inf", "'inf' is not a number of seconds above 0"),
        ("--interval=1e300", "'1e300' is not a number of seconds above 0"),
        ("--count=0", "'0' is not a number from 1; see"),
    ],
)
def test_interval_and_count_have_limits(
    option: str, told: str, kubectl: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main.main(["watch", "q", "--count=1", option])
    assert told in capsys.readouterr().err


def test_resource_nested_as_deeply_as_the_api_server_allows_is_shown(
    kubectl: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's own decoder ends with an exception at about 1000 levels."""
    resource = kubectl.show("Ready", affinity="DEEP")
    deep = '{"a":' * 9_990 + "1" + "}" * 9_990
    kubectl.put_text(json.dumps(resource).replace('"DEEP"', deep))
    assert main.main(["status", "q"]) == 0
    assert "Phase       Ready" in capsys.readouterr().out


def test_characters_that_the_terminal_does_not_have_are_escaped(
    kubectl: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = kubectl.show("Ready")
    resource["status"]["plan"]["reason"] = "a \N{RIGHTWARDS ARROW} b"
    kubectl.put(resource)
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding="latin-1"))
    assert main.main(["watch", "demo", "--count", "1"]) == 0
    assert b"a \\u2192 b" in content.getvalue()


def test_missing_kubectl_is_reported() -> None:
    call = Call(Kubectl(program="/nowhere/kubectl"), "q")
    with pytest.raises(CommandFailed, match="not on the PATH"):
        commands.status(call)
    with pytest.raises(CommandFailed, match="not on the PATH"):
        call.kubectl.logs(["x"])


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "can't be run: Permission denied"),
        ("echo none", "printed no object in JSON"),
        ("echo '[1]'", "printed no object in JSON"),
        ("echo '{}'", "printed no object in JSON"),
        (r"printf '\377'", "printed no object in JSON"),
        (r"printf '\377' >&2; exit 1", "\N{REPLACEMENT CHARACTER}"),
        ("exit 3", "printed nothing and ended with code 3"),
    ],
)
def test_program_that_is_not_kubectl_is_reported_in_one_line(
    script: str | None,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tmp_path / "other"
    if script is None:
        program.mkdir()
    else:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("KUBECTL", str(program))
    assert main.main(["pause", "demo"]) == 1
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1


def test_interrupted_change_is_not_reported_as_done(
    kubectl: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Kubectl, "patch", interrupted)
    assert main.main(["pause", "demo"]) == 130
    monkeypatch.setattr(Kubectl, "quorum", interrupted)
    assert main.main(["watch", "demo"]) == 0


def test_output_that_can_not_be_written_is_one_line(kubectl: Recording) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "quorum_operator.plugin.main", "status", "demo"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    line = "kubectl quorum: the output can't be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, line)


def test_watch_without_a_terminal_prints_changes_only(
    kubectl: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    states = iter(["Ready", "Repairing", "Repairing"])

    def next_state(_: float) -> None:
        kubectl.show(next(states))

    call = Call(Kubectl(program=str(kubectl.program)), "q")
    commands.watch(call, 1.0, 4, next_state)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1].rstrip(",") for line in lines] == ["Ready", "Repairing"]


def test_watch_goes_on_after_a_failed_read(
    kubectl: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not after one that does not find the resource."""
    answers = iter([kubectl.fail_with, kubectl.fail_with, kubectl.answer_again, kubectl.lose])

    def next_answer(_: float) -> None:
        next(answers)()

    call = Call(Kubectl(program=str(kubectl.program)), "q")
    with pytest.raises(CommandFailed, match="NotFound"):
        commands.watch(call, 1.0, None, next_answer)
    shown = capsys.readouterr()
    assert [line.split()[1].rstrip(",") for line in shown.out.splitlines()] == ["Ready", "Ready"]
    assert shown.err == "kubectl quorum: Unable to connect to the server: EOF\nTrying again\n"


def test_watch_ends_with_the_error_of_its_first_and_of_its_last_read(kubectl: Recording) -> None:
    call = Call(Kubectl(program=str(kubectl.program)), "q")
    with pytest.raises(CommandFailed, match="Unable to connect"):
        commands.watch(call, 1.0, 2, lambda _: kubectl.fail_with())
    with pytest.raises(CommandFailed, match="Unable to connect"):
        commands.watch(call, 1.0, None, lambda _: pytest.fail("it was read again"))


def test_page_longer_than_the_screen_is_truncated() -> None:
    lines = [str(number) for number in range(50)]
    shown = commands._on_screen(lines, 24)
    assert len(shown) < 24
    assert shown[-1] == "Ctrl-C ends"
    assert "kubectl quorum status" in shown[-3]
    assert commands._on_screen(lines, 60)[:50] == lines


@pytest.mark.parametrize(
    "arguments", [[], ["status"], ["replace", "q"], ["watch", "q", "--interval", "0"], ["x", "q"]]
)
def test_usage_error_exits_with_2(
    arguments: list[str], kubectl: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    assert ended.value.code == 2
    assert "see kubectl quorum --help" in capsys.readouterr().err
    assert kubectl.calls == []


def test_help_is_one_page_and_names_every_command_and_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main.main(["--help"])
    shown = capsys.readouterr().out
    assert shown == main.HELP
    assert max(map(len, shown.splitlines())) <= 80
    assert len(shown.splitlines()) <= 40
    with pytest.raises(SystemExit):
        main.main(["logs", "--help"])
    assert capsys.readouterr().out == main.HELP
    (names,) = (each for each in main._parser()._actions if each.choices)
    assert isinstance(names.choices, dict)
    for name, parser in names.choices.items():
        assert f"\n  {name} NAME" in shown
        for option in parser._option_string_actions:
            assert option in shown, name


@pytest.mark.requirement("OP-10")
def test_plugin_starts_with_the_standard_library_only(kubectl: Recording) -> None:
    """`-S`: without installed packages, as after `pip install` without extras."""
    package = Path(main.__file__).parents[2]
    code = f"import sys; sys.path.insert(0, {str(package)!r})\n"
    code += "from quorum_operator.plugin.main import main\nsys.exit(main(['status', 'q']))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Phase       Ready" in done.stdout


def test_control_characters_of_messages_do_not_reach_the_terminal(
    kubectl: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as those of a pod's termination message, or of an event that somebody else posted."""
    resource = kubectl.show("Ready")
    evil = "\x1b]0;owned\x07\x1b[2J\u202egnp"
    resource["status"]["plan"]["reason"] = evil
    resource["status"]["members"][0]["condition"] = evil
    kubectl.put(resource)
    for command in ("status", "members"):
        assert main.main([command, "q"]) == 0
    assert main.main(["watch", "q", "--count", "1"]) == 0
    shown = capsys.readouterr().out
    assert "owned" in shown
    assert all(each.isprintable() or each == "\n" for each in shown)


@pytest.mark.parametrize("arguments", [["transfer", "q"], ["logs", "q", "--id", "1"]])
def test_edited_pod_name_is_no_option_of_kubectl(
    kubectl: Recording, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    resource = kubectl.show("Ready")
    for each in resource["status"]["members"]:
        each["pod"] = "--server=http://elsewhere"
    kubectl.put(resource)
    assert main.main(arguments) == 1
    assert kubectl.changes == []
    assert (
        "there is no pod" in (message := capsys.readouterr().err)
        or "can't be transferred" in message
    )
