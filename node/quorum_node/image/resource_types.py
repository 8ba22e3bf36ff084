"""Names of config resource types, as Kafka's `ConfigResource.Type` numbers them. PURE."""

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
BROKER_LOGGER = 8
"""Logger levels of one broker: they are not in the log, and have no name here."""

_NAMES = {TOPIC: "topic", BROKER: "broker", CLIENT_METRICS: "client-metrics", GROUP: "group"}
_NUMBERS = {name: number for number, name in _NAMES.items()}

RESOURCE_TYPE_NAMES = tuple(_NUMBERS)


def resource_type_name(number: int) -> str:
    """The name; an unknown number as its digits."""
    return _NAMES.get(number, str(number))


def resource_type_number(name: str) -> int:
    """The number. Raises ValueError on an unknown name."""
    try:
        return _NUMBERS[name.lower()]
    except KeyError:
        known = ", ".join(RESOURCE_TYPE_NAMES)
        raise ValueError(f"resource type {name!r} is none of {known}") from None
