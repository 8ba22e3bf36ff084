"""One declaration for each API, beside its messages, and one row in the table."""

import importlib
import pkgutil
from types import ModuleType

import pytest

from quorum_node import protocol
from quorum_node.protocol import apis, broker_apis, fetch
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import APIS, FEW_ELEMENTS, FIRST_PRIVATE_KEY, FORWARDABLE
from quorum_node.protocol.broker_apis import BROKER_APIS, SENT_TO_BROKERS


def message_modules() -> list[ModuleType]:
    names = [each.name for each in pkgutil.iter_modules(protocol.__path__)]
    tables = ("apis", "broker_apis")
    return [
        importlib.import_module(f"{protocol.__name__}.{name}")
        for name in names
        if name not in tables
    ]


def declared(modules: list[ModuleType]) -> dict[str, Api]:
    return {
        name: each
        for module in modules
        for name, each in vars(module).items()
        if isinstance(each, Api) and each.request.__module__ == module.__name__
    }


def forgotten(modules: list[ModuleType]) -> set[str]:
    """Declared, and not in the table."""
    return {
        name
        for name, api in declared(modules).items()
        if not any(table.get(api.key) is api for table in (APIS, BROKER_APIS, SENT_TO_BROKERS))
    }


def test_every_declared_api_is_in_the_table_under_its_name() -> None:
    found = declared(message_modules())
    assert forgotten(message_modules()) == set()
    assert len(found) == len(APIS.keys() | BROKER_APIS.keys() | SENT_TO_BROKERS.keys())
    for name, api in found.items():
        assert getattr(apis if api.key in APIS else broker_apis, name) is api
        assert name == "".join(f"_{c}" if c.isupper() else c.upper() for c in api.name)[1:]


def test_missing_table_row_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = Api(19_999, fetch.FetchRequest, fetch.FetchResponse, 0, 0)
    monkeypatch.setattr(fetch, "ANOTHER", extra, raising=False)
    assert forgotten(message_modules()) == {"ANOTHER"}


def test_api_names_are_those_of_kafka() -> None:
    """They are labels of metrics, and parts of messages."""
    for api in (*APIS.values(), *BROKER_APIS.values()):
        assert api.request.__name__ == f"{api.name}Request"
        assert api.response.__name__ == f"{api.name}Response"


def test_api_key_is_declared_once_and_in_order() -> None:
    known = {api.key for api in declared(message_modules()).values()}
    assert known == APIS.keys() | BROKER_APIS.keys() | SENT_TO_BROKERS.keys()
    assert list(APIS) == sorted(APIS)
    assert list(BROKER_APIS) == sorted(BROKER_APIS)


def test_forwardable_and_quorum_apis_are_those_of_stock_kafka() -> None:
    """As stock controllers take it (`ApiKeys.forwardable`), restricted to what this node serves."""
    expected = {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81}
    assert expected == FORWARDABLE
    quorum = {key for key in FEW_ELEMENTS if key < FIRST_PRIVATE_KEY}
    assert quorum == {1, 18, 52, 53, 54, 55, 59, 60, 80, 81, 82}
    assert FEW_ELEMENTS - quorum == {20000, 20001, 20002}
