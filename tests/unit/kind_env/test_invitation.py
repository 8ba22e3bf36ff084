"""The commands that the demo prints work wherever they are pasted."""

import re

from support.kind_env.invitation import Invitation

KUBECTL = re.compile(r"\bkubectl (.*?)(?=\bkubectl |$)")


def test_each_printed_command_names_the_namespace() -> None:
    invitation = Invitation("demo", "some", "/config", "/bin/kubectl", "/a.jsonl")
    called = [
        part
        for command in invitation.commands()
        if not command.startswith(("export", "alias"))
        for part in KUBECTL.findall(command)
    ]
    assert len(called) == 6
    assert [each for each in called if not each.startswith("-n ")] == []
    assert sum(each.startswith("-n some ") for each in called) == 5
