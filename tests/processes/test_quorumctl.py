"""quorumctl as people run it, against real nodes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorum_node.quorumctl import render
from quorum_node.reassignment_api import PartitionDescription, PartitionDescriptions
from support.ctl import Ctl
from support.local_quorum import LocalQuorum, wait_until
from support.patience import PATIENT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ctl(shared_quorum: LocalQuorum) -> Iterator[Ctl]:
    return Ctl(shared_quorum)


@pytest.mark.requirement("K595-27")
def test_describe_status_prints_the_fields_of_the_stock_tool(
    shared_quorum: LocalQuorum, ctl: Ctl
) -> None:
    lines = dict(
        line.split(":", 1) for line in ctl.run("describe", "status").splitlines() if ":" in line
    )
    leader = shared_quorum.leader
    assert lines["ClusterId"].strip() == shared_quorum.cluster_id
    assert int(lines["LeaderId"]) == leader.id
    assert int(lines["HighWatermark"]) > 0
    voters = json.loads(lines["CurrentVoters"])
    assert [voter["id"] for voter in voters] == [1, 2, 3]
    assert voters[0]["endpoints"][0] == f"CONTROLLER://127.0.0.1:{shared_quorum.nodes[1].port}"
    assert {"LeaderEpoch", "MaxFollowerLag", "MaxFollowerLagTimeMs", "CurrentObservers"} <= set(
        lines
    )


@pytest.mark.requirement("K595-27")
def test_describe_replication_prints_a_row_per_replica(
    shared_quorum: LocalQuorum, ctl: Ctl
) -> None:
    header, *rows = ctl.run("describe", "replication").splitlines()
    assert header.split()[:5] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag", "LagTimeMs"]
    status = {int(row.split()[0]): row.split()[7] for row in rows}
    assert status[shared_quorum.leader.id] == "Leader"
    assert sorted(status.values()) == ["Follower", "Follower", "Leader"]


@pytest.mark.requirement("K595-22", "K595-27")
def test_follower_that_does_not_fetch_is_shown_with_its_lag(make_quorum) -> None:
    """Offsets and times of the frozen follower don't change; those of the others do."""
    quorum = make_quorum(3, formed=True, properties=PATIENT)
    wait_until(lambda: quorum.registered().keys() == {1, 2, 3}, "nothing more is written")
    ctl = Ctl(quorum)
    leader, (frozen, other) = quorum.leader, quorum.followers

    def rows() -> dict[int, dict[str, str]]:
        header, *lines = (line.split() for line in ctl.run("describe", "replication").splitlines())
        return {int(line[0]): dict(zip(header, line, strict=True)) for line in lines}

    wait_until(lambda: rows()[frozen.id]["CaughtUp"] == "yes", "both followers have caught up")
    frozen.freeze()
    try:
        for number in range(7):
            quorum.put("lagging", str(number))
        end_offset = int(rows()[leader.id]["LogEndOffset"])
        wait_until(lambda: rows()[other.id]["LogEndOffset"] == str(end_offset), "one has it all")
        wait_until(lambda: int(rows()[frozen.id]["LagTimeMs"]) > 500, "time goes by")
        found = rows()
        status = ctl.run("describe", "status")
    finally:
        frozen.thaw()
    assert (found[leader.id]["Lag"], found[other.id]["Lag"]) == ("0", "0")
    behind = found[frozen.id]
    assert int(behind["LogEndOffset"]) + int(behind["Lag"]) == end_offset
    assert int(behind["Lag"]) >= 7
    assert int(behind["LastFetchMsAgo"]) > 500
    assert int(behind["LastCaughtUpMsAgo"]) > 500
    assert int(found[other.id]["LastCaughtUpMsAgo"]) < int(behind["LastCaughtUpMsAgo"])
    reported = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert int(reported["MaxFollowerLag"]) == int(behind["Lag"])
    assert int(reported["MaxFollowerLagTimeMs"]) > 500


def test_exit_code_of_quorumctl_is_that_of_its_command(ctl: Ctl) -> None:
    done = ctl.run_program("describe", "status")
    assert (done.returncode, done.stderr) == (0, "")
    assert "LeaderEpoch" in done.stdout
    failed = ctl.run_program("describe", "local", "--admin", "http://127.0.0.1:1")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("quorumctl: ")


def test_local_status_and_json_output(shared_quorum: LocalQuorum, ctl: Ctl) -> None:
    url = shared_quorum.nodes[2].admin_url
    shown = ctl.run("describe", "local", "--admin", url)
    assert re.search(r"^NodeId: +2$", shown, re.MULTILINE)
    assert re.search(r"^LogStartOffset: +0$", shown, re.MULTILINE)
    document = json.loads(ctl.run("describe", "local", "--json", "--admin", url))
    assert document["nodeId"] == 2
    assert json.loads(ctl.run("--json", "describe", "status"))["confirmed"] is True


@pytest.mark.requirement("K650-03")
def test_local_and_linearizable_reads_of_one_node(shared_quorum: LocalQuorum, ctl: Ctl) -> None:
    ctl.run("put", "topic/orders/reads", "1")
    for node in shared_quorum.nodes.values():
        at = ("--admin", node.admin_url)
        value, origin = ctl.run("get", "topic/orders/reads", "--offset", *at).splitlines()
        assert value == "1"
        assert "confirmed by the leader" in origin
        local = ctl.run("get", "topic/orders/reads", "--consistency", "local", "--offset", *at)
        assert "behind its leader" in local
        listed = ctl.run("list", "topic/orders/reads", "--consistency", "linearizable", *at)
        assert "reads" in listed
    document = json.loads(ctl.run("get", "topic/orders/reads", "--local", "--json"))
    assert document["consistency"] == "local"


def test_reassignments_command_lists_the_moving_partitions(ctl: Ctl) -> None:
    assert ctl.run("reassignments").strip() == "no partition is in reassignment"
    assert json.loads(ctl.run("reassignments", "--json"))["moving"] == 0
    moving = PartitionDescription(
        topic="t",
        partition=7,
        replicas=[3, 1, 2],
        isr=[1, 2],
        adding_replicas=[3],
        removing_replicas=[2],
    )
    found = PartitionDescriptions(partitions=[moving], brokers=[], moving=3, offset=1)
    head, line, more = render.reassignments(found)
    assert head.split() == ["Topic", "Partition", "Replicas", "Adding", "Removing", "Isr"]
    assert line.replace(" ", "") == "t7[3,1,2][3][2][1,2]"
    assert more == "and 2 more"


def test_snapshot_command_takes_a_snapshot(shared_quorum: LocalQuorum, ctl: Ctl) -> None:
    url = shared_quorum.nodes[3].admin_url
    ctl.run("put", "topic/snapshot/me", "1")
    assert "node 3: wrote snapshot" in ctl.run("snapshot", "--admin", url)
    latest = shared_quorum.local(3)["latestSnapshot"]
    assert latest["endOffset"] > 0
    shown = ctl.run("describe", "local", "--admin", url)
    assert f"{latest['endOffset']}-{latest['epoch']}, {latest['sizeBytes']} bytes" in shown
    answer = shared_quorum.client.post(url + "/v1/snapshot", headers={"Authorization": "Bearer x"})
    assert answer.status_code == 401


def test_values_are_put_listed_read_and_deleted(ctl: Ctl) -> None:
    assert "committed at offset" in ctl.run("put", "topic/orders/retention.ms", "1000")
    assert ctl.run("get", "topic/orders/retention.ms") == "1000\n"
    wait_until(lambda: "retention.ms" in ctl.run("list", "topic/orders/"), "it is listed")
    assert '"value": "1000"' in ctl.run("log", "--max-records", "1000")
    ctl.run("put", "topic/orders/retention.ms", "--delete")
    assert "is not set" in ctl.run("get", "topic/orders/retention.ms", code=1)
    ctl.run("put", "broker/-/cluster.default", "x")
    assert ctl.run("get", "broker/-/cluster.default") == "x\n"


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["put", "flavour/a/b", "v"], {}, "topic, broker"),
        (["put", "topic/a/b", "v"], {"QUORUMCTL_TOKEN_FILE": "/dev/null"}, "--token-file"),
        (["put", "topic/a/b", "v"], {"QUORUMCTL_TOKEN_FILE": "/nowhere"}, "can't be read"),
        (["describe", "status"], {"QUORUMCTL_ADMIN": "http://127.0.0.1:1"}, "QUORUMCTL_ADMIN"),
        (["remove-voter", "9", "AAAAAAAAAAAAAAAAAAAAAQ"], {}, "describe replication"),
        (["remove-voter", "9", "x"], {}, "base64url"),
        (["get", "topic/orders/retention.ms?x"], {}, "orders/retention.ms?x is not set"),
    ],
)
def test_error_message_names_a_remedy(
    ctl: Ctl, arguments: list[str], environment: dict[str, str], words: str
) -> None:
    text = ctl.run(*arguments, "--timeout-ms", "2000", code=1, **environment)
    assert text.startswith("quorumctl: ")
    assert words in text
    assert "Traceback" not in text


@pytest.mark.requirement("K595-27")
def test_voters_are_added_and_removed_with_quorumctl(tmp_path: Path, make_quorum) -> None:
    quorum = make_quorum(2, initial_voters=1, formed=True, properties=PATIENT)
    ctl = Ctl(quorum)
    quorum.wait_caught_up(2)
    uuid = quorum.local(2)["replicaUuid"]
    assert f"(2, {uuid}) is a voter now" in ctl.run(
        "add-voter", "--node", quorum.nodes[2].admin_url
    )
    assert "a voter already" in ctl.run("add-voter", "--node", quorum.nodes[2].admin_url, code=1)
    watched = ctl.run("watch", "--count", "1")
    assert "leader 1" in watched
    assert "2/2 nodes answer" in watched

    def led_by(wanted: int, *resign: str) -> bool:
        """A transfer that fails on a busy machine is repeated."""
        if quorum.wait_leader() == wanted:
            return True
        ctl.run("resign", *resign)
        return False

    wait_until(lambda: led_by(2), "2 leads")
    wait_until(lambda: led_by(1, "--successor", "1"), "1 leads")
    assert "is not a voter any more" in ctl.run("remove-voter", "2", uuid)
    history = ctl.run("voter-history").splitlines()
    assert [row.split()[3] for row in history[1:]] == ["1", "2", "1"]
    assert history[-1].endswith(f"-2:{uuid}")


@pytest.mark.requirement("K595-24", "K595-27")
def test_alter_and_describe_follow_the_draft(shared_quorum: LocalQuorum, ctl: Ctl) -> None:
    altered = ctl.run("alter", "--voters", "1,2,9").splitlines()
    assert altered == ["CurrentVoters: [1, 2, 3]", "TargetVoters:  [1, 2, 9]"]
    lines = dict(line.split(":", 1) for line in ctl.run("describe").splitlines())
    assert list(lines) == [
        "LeaderId",
        "LeaderEpoch",
        "HighWatermark",
        "MaxFollowerLag",
        "MaxFollowerLagTimeMs",
        "CurrentVoters",
        "TargetVoters",
    ]
    assert lines["CurrentVoters"].strip() == "[1, 2, 3]"
    assert lines["TargetVoters"].strip() == "[1, 2, 9]"
    status = ctl.run("describe", "status")
    assert "TargetVoters:         [1, 2, 9]" in status
    assert "waiting: not caught up as an observer yet: (9, ?)" in status
    header, *rows = ctl.run("describe", "replication").splitlines()
    assert header.split()[-1] == "IsReassignTarget"
    assert {int(row.split()[0]): row.split()[-1] for row in rows} == {1: "Yes", 2: "Yes", 3: "No"}
    assert "target [1, 2, 9]" in ctl.run("watch", "--count", "1")
    refused = ctl.run("remove-voter", "3", shared_quorum.local(3)["replicaUuid"], code=1)
    assert "cancel the target first" in refused
    assert "quorumctl alter --cancel" in refused
    cancelled = ctl.run("alter", "--cancel").splitlines()
    assert cancelled == ["CurrentVoters: [1, 2, 3]", "TargetVoters:  []"]
    assert "write ids as 0,3,4" in ctl.run("alter", "--voters", "1,b", code=2)
    uuid = shared_quorum.local(3)["replicaUuid"]
    document = json.loads(ctl.run("alter", "--json", "--follow", "--voters", f"1,2,3:{uuid}"))
    assert document["targetVoters"] == [1, 2, 3]


@pytest.mark.requirement("K595-23", "K595-27")
def test_alter_follow_prints_each_step_to_the_target(make_quorum) -> None:
    quorum = make_quorum(4, initial_voters=3, formed=True)
    quorum.wait_caught_up(4)
    lines = Ctl(quorum).run("alter", "--voters", "2,3,4", "--follow").splitlines()
    assert lines[:2] == ["CurrentVoters: [1, 2, 3]", "TargetVoters:  [2, 3, 4]"]
    assert lines[-1] == "done: the voters are [2, 3, 4]"
    # How many steps are seen depends on timing.
    last_one = "[2, 3, 4]  the last change is not committed yet"
    assert all("→ [2, 3, 4]" in line or line == last_one for line in lines[2:-1]), lines
