"""One replica's own committed log, page by page through its admin API.

Takes a function that fetches a path as JSON, so that it works over plain HTTP and through the
Kubernetes API's pod proxy alike. Owns the mapping from the API's records to what `judgement` checks.
"""

from collections.abc import Callable, Iterator
from typing import Any

from support.workload import history
from support.workload.judgement import LoggedWrite, ReplicaLog, VoterSet

Fetch = Callable[[str], dict[str, Any]]
"""path → JSON document; raises when the replica doesn't answer 2xx."""

_PAGE_RECORDS = 5000


class LogIncomplete(Exception):
    """The replica did not show its whole committed log."""


def read_replica_log(name: str, fetch: Fetch) -> ReplicaLog:
    """The whole log from offset 0 to the high watermark at the beginning of the reading."""
    writes: list[LoggedWrite] = []
    voter_sets: list[VoterSet] = []
    end_offset = 0
    for record in _records(name, fetch):
        end_offset = int(record["offset"]) + 1
        write, voters = _logged_write(record), _voter_set(record)
        if write is not None:
            writes.append(write)
        if voters is not None:
            voter_sets.append(voters)
    return ReplicaLog(name, end_offset, tuple(writes), tuple(voter_sets))


def _records(name: str, fetch: Fetch) -> Iterator[dict[str, Any]]:
    offset, until = 0, -1
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
