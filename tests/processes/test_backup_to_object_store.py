"""Backups of real processes in an object store: restored when every node is destroyed, and written by a process that is killed anywhere."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorum_node.exit_codes import ExitCode
from support.local_quorum import LocalQuorum, wait_until
from support.object_store import ObjectStore
from support.object_store_proxy import Answer, ObjectStoreProxy

pytestmark = pytest.mark.long

MakeQuorum = Callable[..., LocalQuorum]
BUCKET = "backups"
TARGET = f"s3://{BUCKET}/all/demo"
_RUN_S = 60.0
_MOST_REQUESTS = 40


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as made:
        made.create_bucket(BUCKET)
        yield made


@pytest.fixture
def proxy(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStoreProxy]:
    store.delete(BUCKET, store.keys(BUCKET))
    with ObjectStoreProxy(store) as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "quorum_node.archiver", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ),
    )


def run(*arguments: str) -> str:
    process = command(*arguments)
    output, _ = process.communicate(timeout=_RUN_S)
    assert process.returncode == 0, output
    return output


def take(quorum: LocalQuorum, scratch: Path) -> tuple[str, ...]:
    servers = ",".join(f"{node.host}:{node.port}" for node in quorum.nodes.values())
    options = ("--bootstrap", servers, "--target", TARGET, "--keep", "2")
    return ("take", *options, "--scratch", str(scratch))


def restored(make_quorum: MakeQuorum, cluster_id: str, source: str, *arguments: str) -> LocalQuorum:
    again = make_quorum(1, properties={"cluster.id": cluster_id})
    (founder,) = again.nodes.values()
    founder.arguments = ("--restore-from", source, *arguments)
    founder.start()
    return again


def test_new_quorum_starts_with_the_backup_in_the_object_store(
    make_quorum: MakeQuorum, proxy: ObjectStoreProxy, tmp_path: Path
) -> None:
    quorum = make_quorum(3, formed=True)
    for number in range(20):
        quorum.put(f"n{number}", str(number))
    run(*take(quorum, tmp_path))
    for node_id in quorum.nodes:
        answer = quorum.answered("POST", "/v1/snapshot", node_id)
        assert answer.is_success
    quorum.put("after-the-snapshot", "x")
    run(*take(quorum, tmp_path))
    for node in quorum.nodes.values():
        node.kill()
    again = restored(make_quorum, quorum.cluster_id, f"s3://{BUCKET}/all")
    assert again.voter_ids() == [1]
    assert again.get("after-the-snapshot") == "x"
    assert [again.get(f"n{n}") for n in range(20)] == [str(n) for n in range(20)]
    again.add_node(2).start()
    again.add_voter(2)
    assert sorted(again.voter_ids()) == [1, 2]
    again.close()

    new = restored(make_quorum, "new", TARGET, "--restore-cluster-id", quorum.cluster_id)
    assert new.get("after-the-snapshot") == "x"
    assert new.describe()["leaderEpoch"] < 10
    new.close()

    refused = restored(make_quorum, "another", TARGET)
    (node,) = refused.nodes.values()
    assert node.wait_exit() == ExitCode.BAD_CONFIGURATION
    assert "none of cluster another" in node.termination_message

    proxy.before = lambda number, method, path: Answer(503)
    down = restored(make_quorum, quorum.cluster_id, TARGET, "--restore-endpoint", proxy.endpoint)
    (node,) = down.nodes.values()
    assert node.wait_exit() == ExitCode.BAD_CONFIGURATION
    assert "the store answered 503" in node.termination_message
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in node.termination_message
    assert not (node.data_dir / "meta.properties").exists()
    proxy.before = lambda number, method, path: None
    node.start()
    assert down.get("after-the-snapshot") == "x"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_writer_killed_at_any_request_leaves_no_partial_backup(
    moment: str,
    make_quorum: MakeQuorum,
    store: ObjectStore,
    proxy: ObjectStoreProxy,
    tmp_path: Path,
) -> None:
    """Before the store sees the request, and after it has answered: the backup is visible whole, or not at all."""
    quorum = make_quorum(1, formed=True)
    quorum.put("k", "v")
    for _ in range(2):
        quorum.put("k", "w")
        run(*take(quorum, tmp_path))
    kept = {key: store.read(BUCKET, key) for key in store.keys(BUCKET)}
    killed_at = 0
    for doomed in range(1, _MOST_REQUESTS):
        quorum.put("k", str(doomed))
        before = backups(store)
        proxy.requests.clear()
        writers: list[subprocess.Popen[str]] = []

        def kill(
            number: int, doomed: int = doomed, writers: list[subprocess.Popen[str]] = writers
        ) -> Answer | None:
            if number == doomed:
                wait_until(lambda: writers, "the writer is known")
                writers[0].kill()
                writers[0].wait(_RUN_S)
                return Answer(503)  # no client reads it
            return None

        if moment == "before":
            proxy.before = lambda number, method, path, kill=kill: kill(number)  # not forwarded
        else:
            proxy.after = lambda number, answer, kill=kill: (kill(number), answer)[1]
        writers.append(command(*take(quorum, tmp_path)))
        output, _ = writers[0].communicate(timeout=_RUN_S)
        proxy.before, proxy.after = lambda number, method, path: None, lambda number, answer: answer
        seen = proxy.requests[: doomed - 1 if moment == "before" else doomed]
        published = any(each.startswith("PUT") and "backup.json" in each for each in seen)
        found = backups(store)
        assert len(set(found) - set(before)) == int(published), (doomed, seen, output)
        if writers[0].returncode == 0:
            break
        killed_at = doomed
        for name in set(found) - set(before):
            assert "replayed without errors" in run("verify", f"{TARGET}/{name}")
        # Each run finds the same, so that each has the same requests.
        store.delete(BUCKET, set(store.keys(BUCKET)) - kept.keys())
        for key in kept.keys() - set(store.keys(BUCKET)):
            store.write(BUCKET, key, kept[key])
    assert killed_at > 10, "the last run was killed, or an earlier one was not"
    assert writers[0].returncode == 0
    assert set(run("list", TARGET).split()) & set(found) == set(found)
    for name in found:
        assert "replayed without errors" in run("verify", f"{TARGET}/{name}")
    again = restored(make_quorum, quorum.cluster_id, TARGET)
    assert again.get("k") == str(killed_at + 1)


def backups(store: ObjectStore) -> list[str]:
    """Names of the folders with a manifest."""
    keys = store.keys(BUCKET)
    return [each.split("/")[2] for each in keys if each.endswith("/backup.json")]
