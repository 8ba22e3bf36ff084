"""Cost of the codecs on the hot paths: microseconds per call, best of several rounds.

    python bench/codec_speed.py

A commit on three voters decodes one IncrementalAlterConfigs request, encodes one batch, and for each
follower decodes a Fetch request and encodes a Fetch response: these are the lines to watch.
"""

from collections.abc import Callable
from functools import partial
from timeit import Timer
from uuid import UUID

from quorum_node.protocol.apis import FETCH, INCREMENTAL_ALTER_CONFIGS
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    FetchTopic,
    LeaderIdAndEpoch,
    ReplicaState,
)
from quorum_node.protocol.frames import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    encode_response_parts,
)
from quorum_node.records.batches import decode_records, encode_values, split_batches
from quorum_node.records.metadata import ConfigRecord, decode_metadata, encode_metadata

METADATA_TOPIC_ID = UUID(int=1)
VALUE = "v" * 256


def cost_us(call: Callable[..., object], *arguments: object) -> float:
    """Microseconds per call, best of five rounds of at least 50 ms."""
    timer = Timer(partial(call, *arguments))
    count, seconds = timer.autorange()
    count = max(1, int(count * 0.05 / seconds))
    return min(timer.repeat(5, count)) / count * 1e6


def fetch_request() -> FetchRequest:
    """The request of a voter after each append."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=3,
        fetch_offset=1_000_000,
        last_fetched_epoch=3,
        partition_max_bytes=8 << 20,
        replica_directory_id=UUID(int=77),
        high_watermark=999_999,
        answer=12,
    )
    return FetchRequest(
        cluster_id="xv0L6OZOTzKvLzCUm0WWnw",
        replica_state=ReplicaState(replica_id=2),
        max_wait_ms=500,
        min_bytes=0,
        max_bytes=8 << 20,
        topics=(FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def fetch_response(records: bytes) -> FetchResponse:
    """The leader's response."""
    partition = FetchResponsePartition(
        partition_index=0,
        error_code=0,
        high_watermark=999_999,
        current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=3),
        records=records,
        answer=12,
    )
    topic = FetchResponseTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return FetchResponse(responses=(topic,))


def show(what: str, call: Callable[..., object], *arguments: object) -> None:
    """One line of the report."""
    print(f"{what:32} {cost_us(call, *arguments):8.2f}")


def batches() -> None:
    """Batches of one and of a hundred config records."""
    record = ConfigRecord(resource_type=4, resource_name="1", name="key", value=VALUE)
    value = encode_metadata(record)
    show("config record, encode", encode_metadata, record)
    show("config record, decode", decode_metadata, value)
    for count in (1, 100):
        encode = partial(encode_values, base_offset=9, leader_epoch=3, timestamp_ms=9)
        data = encode(values=[value] * count)
        show(f"batch of {count}, encode", partial(encode, values=[value] * count))
        show(f"batch of {count}, split and check", split_batches, data)
        show(f"batch of {count}, decode records", decode_records, split_batches(data)[0][0])


def fetches() -> None:
    """Fetch 18 with no record, one record, and a large response."""
    request = fetch_request()
    frame = encode_request(FETCH, 18, 7, "replica-2", request)[4:]
    show("fetch request, encode", encode_request, FETCH, 18, 7, "replica-2", request)
    show("fetch request, decode", decode_request, frame)
    for size_bytes in (0, 400, 65536, 1 << 20):
        records = bytes(size_bytes)
        response = fetch_response(records)
        what = f"fetch response of {size_bytes} B"
        show(f"{what}, make", fetch_response, records)
        show(f"{what}, encode", encode_response, FETCH, 18, 7, response)
        show(f"{what}, parts", encode_response_parts, FETCH, 18, 7, response)
        answer = encode_response(FETCH, 18, 7, response)[4:]
        show(f"{what}, decode", decode_response, FETCH, 18, answer)


def configs() -> None:
    """One config change, as AdminClient and the load generator send it."""
    change = AlterableConfig(name="key", config_operation=0, value=VALUE)
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=(change,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    frame = encode_request(INCREMENTAL_ALTER_CONFIGS, 1, 7, "load", request)[4:]
    result = AlterConfigsResult(error_code=0, resource_type=4, resource_name="1")
    answer = IncrementalAlterConfigsResponse(responses=(result,))
    show("alter configs, decode", decode_request, frame)
    show("alter configs reply, encode", encode_response, INCREMENTAL_ALTER_CONFIGS, 1, 7, answer)


if __name__ == "__main__":
    print("microseconds a call")
    batches()
    fetches()
    configs()
