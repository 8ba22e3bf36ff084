"""Configs of groups and client metrics subscriptions, valid and not, for controllers of either kind.

Owns the values. The tests check the answers.
"""

from collections.abc import Iterator

from quorum_node.image.resource_types import CLIENT_METRICS, GROUP
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_GROUP_NUMBERS = {
    "consumer.assignment.interval.ms": (-1, 0, 15_000, 15_001),
    "consumer.heartbeat.interval.ms": (0, 4_999, 5_000, 15_000, 15_001),
    "consumer.session.timeout.ms": (0, 44_999, 45_000, 60_000, 60_001, 1 << 31),
    "share.assignment.interval.ms": (-1, 0, 15_000, 15_001),
    "share.delivery.count.limit": (1, 2, 10, 11),
    "share.heartbeat.interval.ms": (4_999, 5_000, 15_000, 15_001),
    "share.partition.max.record.locks": (99, 100, 4_000, 4_001),
    "share.record.lock.duration.ms": (14_999, 15_000, 60_000, 60_001),
    "share.session.timeout.ms": (44_999, 45_000, 60_000, 60_001),
    "streams.assignment.interval.ms": (-1, 0, 15_000, 15_001),
    "streams.heartbeat.interval.ms": (4_999, 5_000, 15_000, 15_001),
    "streams.initial.rebalance.delay.ms": (-1, 0, (1 << 31) - 1, 1 << 31),
    "streams.num.standby.replicas": (-1, 0, 2, 3),
    "streams.session.timeout.ms": (44_999, 45_000, 60_000, 60_001),
}
_GROUP_WORDS = {
    "consumer.session.timeout.ms": ("", "x", " 45000 ", "+45000", "1.5"),
    "nope": ("1",),
    "": ("1",),
    "consumer.assignor.offload.enable": ("true",),
    "share.auto.offset.reset": (
        "", "none", "earliest", " latest ", "Latest", "by_duration", "by_duration:", "by_duration:PT1H",
        "by_duration:pt1.5s", "by_duration:-PT1H", "by_duration:PT1H-61M", "by_duration:P1W", "by_duration:P1DT",
        "by_duration:PT9223372036854775808S", "by_duration:P99999999999999D", "BY_DURATION:PT1H",
    ),
    "share.isolation.level": ("", "read_committed", "READ_COMMITTED"),
    "share.renew.acknowledge.enable": ("", "TRUE", "yes"),
}  # fmt: skip
_SUBSCRIPTIONS = {
    "nope": ("1",),
    "": ("1",),
    "interval.ms": ("", "x", "99", "100", "3600000", "3600001", "3000000000"),
    "metrics": ("", "*", "a,a", " a , b ", "a,,b", ","),
    "match": (
        "", "client_id = a.*,client_source_port=80", "client_id", "client_id=", "client_id= ", "client_id=a=",
        "client_id=a=b", "client_id==a", "=a", "nope=a", "client_id=a,", "client_id=(", "client_id=[", "client_id=*",
        "client_id=a**", "client_id=a{2", "client_id=(?!a)b", "client_id=a++", "client_id=[a-z&&[^b]]", "client_id=\\y",
        "client_id=\\Q[\\E", "client_id=[z-a]", "client_id=(?P<n>a)", "client_id=\\",
    ),
}  # fmt: skip


def group_and_metrics_configs() -> Iterator[IncrementalAlterConfigsRequest]:
    """One request for each value, and for each operation on a list."""
    for name, numbers in _GROUP_NUMBERS.items():
        for number in numbers:
            yield _altered(GROUP, (name, 0, str(number)))
    for kind, values in ((GROUP, _GROUP_WORDS), (CLIENT_METRICS, _SUBSCRIPTIONS)):
        for name, texts in values.items():
            for text in texts:
                yield _altered(kind, (name, 0, text))
        yield _altered(kind, ("nope", 1, None))
        yield _altered(kind)
        yield _altered(kind, ("nope", 0, "1"), resource_name="")
    for operation in (2, 3):
        yield _altered(CLIENT_METRICS, ("match", operation, "client_id=a"))
    for prefix in ("consumer", "share", "streams"):
        session, heartbeat = f"{prefix}.session.timeout.ms", f"{prefix}.heartbeat.interval.ms"
        yield _altered(GROUP, (session, 0, "60000"), (heartbeat, 0, "15000"))


def _altered(
    kind: int, *changes: tuple[str, int, str | None], resource_name: str = "x"
) -> IncrementalAlterConfigsRequest:
    configs = tuple(
        AlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    )
    resource = AlterConfigsResource(
        resource_type=kind, resource_name=resource_name, configs=configs
    )
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)
