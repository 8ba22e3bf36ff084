"""One replica's own committed log, page by page through its admin API.

Takes a function that fetches a path as JSON, so that it works over plain HTTP and through the
Kubernetes API's pod proxy alike. Owns the mapping from the API's records to what `judgement` checks.
"""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from support.workload import history
from support.workload.evaluation import LoggedWrite, ReplicaLog, StateSample, VoterSet

Fetch = Callable[[str], dict[str, Any]]
"""path → JSON document; raises when the replica doesn't answer 2xx."""

_PAGE_RECORDS = 5000


class LogIncomplete(Exception):
    """The replica did not return its whole committed log."""


def read_replica_log(name: str, fetch: Fetch) -> ReplicaLog:
    """The whole log from its start to the high watermark at the beginning of the reading.

    A replica that joined from a snapshot has no records before that: `start_offset` says where its
    log begins, and `state` is the value that it has, which must come from what it never saw as
    records too.
    """
    writes: list[LoggedWrite] = []
    voter_sets: list[VoterSet] = []
    start_offset = end_offset = int(fetch("/v1/log?maxRecords=1")["logStartOffset"])
    for record in records(name, fetch, start_offset):
        end_offset = int(record["offset"]) + 1
        write, voters = _logged_write(record), _voter_set(record)
        if write is not None:
            writes.append(write)
        if voters is not None:
            voter_sets.append(voters)
    state = _state(fetch)
    return ReplicaLog(name, end_offset, tuple(writes), tuple(voter_sets), start_offset, state)


def _state(fetch: Fetch) -> StateSample | None:
    """The replica's applied state; None if the key is missing."""
    prefix = quote(f"topic/{history.RESOURCE_NAME}/{history.NAME}")
    page = fetch(f"/v1/configs?prefix={prefix}")
    for entry in page["entries"]:
        if (entry["resourceName"], entry["name"]) == (history.RESOURCE_NAME, history.NAME):
            number, attempt = history.decode_value(str(entry["value"]))
            return StateSample(int(page["offset"]), number, attempt)
    return None


def records(name: str, fetch: Fetch, start_offset: int) -> Iterator[dict[str, Any]]:
    """The records from the admin API without a gap, up to the high watermark at the start."""
    offset, until = start_offset, -1
    while until < 0 or offset < until:
        page = fetch(f"/v1/log?fromOffset={offset}&maxRecords={_PAGE_RECORDS}")
        if until < 0:
            until = int(page["highWatermark"])
        for record in page["records"]:
            if int(record["offset"]) != offset:
                raise LogIncomplete(f"{name}: offset {offset} is missing, got {record}")
            yield record
            offset += 1
        if not page["records"] and offset < until:
            raise LogIncomplete(f"{name}: nothing at offset {offset}, high watermark {until}")


def _logged_write(record: dict[str, Any]) -> LoggedWrite | None:
    fields = record["fields"]
    if (
        record["type"] != "ConfigRecord"
        or fields.get("resourceName") != history.RESOURCE_NAME
        or fields.get("name") != history.NAME
    ):
        return None
    number, attempt = history.decode_value(str(fields["value"]))
    return LoggedWrite(int(record["offset"]), int(record["epoch"]), number, attempt)


def _voter_set(record: dict[str, Any]) -> VoterSet | None:
    if record["type"] != "VotersRecord":
        return None
    keys = frozenset((int(voter["id"]), str(voter["uuid"])) for voter in record["fields"]["voters"])
    return VoterSet(int(record["offset"]), int(record["epoch"]), keys)
