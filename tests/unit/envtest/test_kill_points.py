"""Names of the operator's calls: the same for two runs of one move, different for different acts."""

import json

from support.envtest import kill_points
from support.envtest.http_proxy import Call
from support.envtest.kill_points import KillPoint

_SETS = "/apis/apps/v1/namespaces/env-1/statefulsets"
_MQ = "/apis/metadataquorum.dev/v1alpha1/namespaces/env-1/metadataquorums/q/status"


def call(method: str, path: str, body: object = None, target: str = "") -> Call:
    return Call(0, method, target, path, "", b"" if body is None else json.dumps(body).encode())


def create(name: str) -> Call:
    return call("POST", _SETS, {"metadata": {"name": name}})


def status(phase: str, step: str) -> Call:
    return call("PATCH", _MQ, {"status": {"phase": phase, "plan": {"step": step}}})


def annotate(name: str, replicas: int | None = None, **notes: str) -> Call:
    annotations = {f"metadataquorum.dev/{key}": value for key, value in notes.items()}
    body: dict[str, object] = {"metadata": {"annotations": annotations}}
    if replicas is not None:
        body["spec"] = {"replicas": replicas}
    return call("PATCH", f"{_SETS}/{name}", body)


def test_ids_incarnations_and_addresses_are_not_part_of_a_purpose() -> None:
    pairs = [
        (create("q-3-1"), create("q-12-40")),
        (annotate("q-3-1", failed="a"), annotate("q-1-2", failed="b")),
        (
            call("DELETE", "/v1/voters/3/AAAA", target="127.16.1.2:8080"),
            call("DELETE", "/v1/voters/1/BBBB", target="127.16.1.3:8080"),
        ),
    ]
    for one, other in pairs:
        assert kill_points.purpose(one) == kill_points.purpose(other)


def test_different_actions_have_different_purposes() -> None:
    acts = [
        create("q-3-1"),
        annotate("q-3-1", failed="x"),
        annotate("q-3-1", replicas=0, stopped="x"),
        annotate("q-3-1", replicas=1, stopped="x"),
        call("POST", "/v1/voters", {}, "127.16.1.2:8080"),
        call("DELETE", "/v1/voters/3/AAAA", None, "127.16.1.2:8080"),
        call("POST", "/v1/resign", {}, "127.16.1.2:8080"),
        status("Ready", "Nothing"),
        status("Ready", "AddVoter"),
        call("POST", "/api/v1/namespaces/env-1/events", {"reason": "AddVoter"}),
    ]
    assert len({kill_points.purpose(each) for each in acts}) == len(acts)


def test_every_action_is_a_kill_point_and_only_the_first_repeated_report() -> None:
    calls = [create("q-4-1"), status("Scaling", "Wait"), status("Scaling", "Wait"), create("q-5-1")]
    found = kill_points.points(calls)
    assert [str(point) for point in found] == [
        "POST statefulsets q-N-I #1",
        "status Scaling, plan Wait #1",
        "POST statefulsets q-N-I #2",
    ]
    assert kill_points.acts(found) == (found[0], found[2])


def test_token_check_of_a_node_is_no_action() -> None:
    """It is sent periodically, when objects are checked: two runs differ in it."""
    requested = call("POST", "/v1/node", target="127.16.1.2:8080")
    found = kill_points.points([requested, create("q-4-1"), requested, requested])
    assert [str(point) for point in found] == ["node POST node #1", "POST statefulsets q-N-I #1"]
    assert kill_points.acts(found) == (found[1],)


def test_matcher_selects_the_exact_occurrence_once() -> None:
    wanted = kill_points.matcher(KillPoint("POST statefulsets q-N-I", 2))
    calls = [create("q-4-1"), status("Scaling", "Wait"), create("q-5-1"), create("q-6-1")]
    assert [wanted(each) for each in calls] == [False, False, True, False]
