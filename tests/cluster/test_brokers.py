"""Brokers of this software, as processes on a quorum of ours, asked over Kafka's protocol."""

from pathlib import Path

from support.local_quorum import LocalQuorum, wait_until
from support.python_brokers import PythonBrokers


def test_one_broker_takes_records_and_gives_them_back(tmp_path: Path) -> None:
    with (
        LocalQuorum(tmp_path / "quorum", nodes=1) as quorum,
        PythonBrokers(quorum, tmp_path / "brokers", 1) as brokers,
    ):
        quorum.form()
        brokers.start()
        topic = brokers.create_topic("one", [201])
        first = brokers.produce(201, topic, [b"a", b"b"])
        assert (first.error_code, first.base_offset) == (0, 0)
        second = brokers.produce(201, topic, [b"c"], acks=1)
        assert (second.error_code, second.base_offset) == (0, 2)
        assert brokers.read_all(201, topic) == [b"a", b"b", b"c"]


def test_three_brokers_replicate_and_lose_nothing_when_the_leader_is_killed(tmp_path: Path) -> None:
    with (
        LocalQuorum(tmp_path / "quorum", nodes=1, broker_session_timeout_ms="2000") as quorum,
        PythonBrokers(quorum, tmp_path / "brokers", 3) as brokers,
    ):
        quorum.form()
        brokers.start()
        topic = brokers.create_topic("three", [201, 202, 203], min_insync_replicas="2")
        sent = []
        for number in range(20):
            value = b"%d" % number
            answer = brokers.produce(201, topic, [value])
            assert (answer.error_code, answer.base_offset) == (0, number), answer
            sent.append(value)
        brokers.nodes[201].kill()
        leader = wait_until(
            lambda: next(
                (found for found in [brokers.leader("three", 202)] if found in (202, 203)), None
            ),
            "another leader",
            30,
        )
        answer = brokers.produce(leader, topic, [b"later"])
        assert (answer.error_code, answer.base_offset) == (0, 20), answer
        sent.append(b"later")
        assert brokers.read_all(leader, topic) == sent
        brokers.nodes[201].start()
        wait_until(
            lambda: brokers.isr("three", leader) == {201, 202, 203},
            f"the killed broker is in the ISR again {brokers.nodes[201].log_text[-1500:]}",
            40,
        )
        segment = "00000000000000000000.log"
        copies = {
            (brokers.log_folder(each, "three") / segment).read_bytes() for each in brokers.nodes
        }
        assert len(copies) == 1, "replicas are equal to the byte"
