"""Quantities are compared by value, and written in one form."""

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from quorum_operator.planner.observed import StorageChoice
from quorum_operator.quantity import canonical, value_of

SAME = [
    ("1Gi", "1024Mi", "1073741824", "1048576Ki", "1073741824.0", "1073741824000m"),
    ("0.5Gi", "512Mi", "536870912", ".5Gi"),
    ("1G", "1e9", "1000M", "1E9", "1000000000", "+1G"),
    ("1E", "1000P", "1e18"),
    ("500m", "0.5", "5e-1"),
]


@pytest.mark.parametrize("texts", SAME)
def test_equal_sizes_are_the_same_storage(texts: tuple[str, ...]) -> None:
    assert len({StorageChoice(each, "c") for each in texts}) == 1


def test_different_sizes_or_classes_are_different_storage() -> None:
    sizes = ("1Gi", "1G", "2Gi", "1Mi", "1m", "1", "1M", "x", "y")
    assert len({StorageChoice(each, None) for each in sizes}) == len(sizes)
    assert StorageChoice("1Gi", None) != StorageChoice("1Gi", "")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1024Mi", "1Gi"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1536Mi", "1536Mi"),
        ("512M", "512M"),
        ("1.5Gi", "1536Mi"),
        ("0", "0"),
        ("0Mi", "0"),
        ("a", "a"),
        ("1000", "1k"),
        ("512Ki", "512Ki"),
    ],
)
def test_quantities_are_formatted_as_by_the_api_server(text: str, written: str) -> None:
    assert canonical(text) == written


@pytest.mark.parametrize("text", ["1" * 20_000 + "x", "1" * 5000, "1" * 4000 + "e999"])
def test_long_text_is_no_quantity_and_takes_no_time(text: str) -> None:
    """A spec may have a MiB of digits. Each comparison took hours, in which the operator served no other quorum."""
    began = time.process_time()
    assert (canonical(text), value_of(text)) == (text, None)
    assert time.process_time() - began < 1.0


def test_numbers_are_valid_quantities() -> None:
    assert (canonical(2), canonical(0.5)) == ("2", "500m")


@given(
    number=st.from_regex(r"[+-]?([0-9]{1,9}\.?[0-9]{0,6}|\.[0-9]{1,6})", fullmatch=True),
    suffix=st.sampled_from(
        ["", *"numkMGTPE", *(f"{each}i" for each in "KMGTPE"), "e3", "E-2", "e+1"]
    ),
)
def test_quantity_value_equals_that_of_the_client_library(number: str, suffix: str) -> None:
    """Which rounds to 28 digits."""
    found, theirs = value_of(number + suffix), Fraction(parse_quantity(number + suffix))
    assert found is not None
    assert abs(found - theirs) <= abs(theirs) / 10**27


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "Infinity",
        "-inf",
        "1_000",
        "1e3M",
        "1 Gi",
        "1gi",
        "1mi",
        "0x10",
        "\u0661",
        ".",
        "",
        "i",
    ],
)
def test_quantity_rejected_by_the_api_server_is_invalid(text: str) -> None:
    assert value_of(text) is None


@given(
    number=st.integers(0, 10**6),
    suffix=st.sampled_from(["", "Ki", "Mi", "Gi", "k", "M", "G", "m", "e3"]),
)
def test_alternative_notation_keeps_the_quantity_value(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert value_of(canonical(text)) == value_of(text)
    assert canonical(canonical(text)) == canonical(text)
