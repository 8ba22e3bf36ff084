"""Runs the demo; exit status 0 only when everything in the table is as it has to be."""

import sys
import time
import traceback
from pathlib import Path

from demo.script import NAMESPACE, Demo
from support.kind_env import diagnostics
from support.kind_env.invitation import Invitation
from support.kind_env.testbed import REPOSITORY, TestbedError, programs, state_directory
from support.kind_env.timeline import Timeline


def main() -> int:
    timeline = Timeline()
    folder = state_directory() / "demo" / time.strftime("%Y%m%d-%H%M%S")
    demo = Demo(timeline, folder)
    try:
        report = demo.run()
    except KeyboardInterrupt:
        timeline.say("interrupted; the cluster stays up, `make clean` removes it")
        return 130
    except Exception as failure:
        timeline.say(f"FAILED: {failure}")
        _explain(demo, timeline, failure)
        return 1
    finally:
        demo.close()
    print(report.table())
    _invite(demo)
    for problem in report.problems:
        print(f"PROBLEM: {problem}")
    if report.problems:
        _collect(demo, timeline)
        return 1
    print("\nEverything that was acknowledged is on every replica.")
    return 0


def _explain(demo: Demo, timeline: Timeline, failure: Exception) -> None:
    if not isinstance(failure, (TestbedError, AssertionError)):
        traceback.print_exception(failure)
    _collect(demo, timeline)
    print(
        "\nWhat to do: read the folder above (quorum.yaml and operator log first); run `make demo` "
        "again, it reuses what is there; `make clean` removes everything.",
        file=sys.stderr,
    )


def _collect(demo: Demo, timeline: Timeline) -> None:
    if demo.cluster is None:
        return
    found = diagnostics.collect("demo", demo.cluster.kubeconfig, demo.quorum)
    timeline.say(f"diagnostics are in {found}, the workload's files in {demo.folder}")


def _invite(demo: Demo) -> None:
    """What a person can type now."""
    assert demo.cluster is not None
    assert demo.quorum is not None
    invitation = Invitation(
        quorum=demo.quorum.name,
        namespace=NAMESPACE,
        kubeconfig=str(demo.cluster.kubeconfig),
        kubectl=str(programs.tools().kubectl),
        acknowledgements=str(Path(demo.folder) / "acknowledgements.jsonl"),
    )
    print("\nThe cluster stays up. Look at it:")
    for command in invitation.commands():
        print(f"  {command}")
    print(f"`make clean` in {REPOSITORY} removes everything.")


if __name__ == "__main__":
    sys.exit(main())
