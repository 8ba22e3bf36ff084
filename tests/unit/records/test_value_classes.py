"""Values that every commit makes: dataclasses in everything but the guard that Python puts before each field."""

from dataclasses import dataclass, field, replace

import pytest

from quorum_node.made_often import made_often


@dataclass(frozen=True, slots=True)
class Slow:
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list, hash=False)


@made_often
@dataclass(frozen=True, slots=True)
class Quick:
    """Said of it."""

    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list, hash=False)

    def doubled(self) -> int:
        """A method of its own."""
        return 2 * self.a


def test_class_behaves_like_the_dataclass() -> None:
    made = Quick(1, c=[3])
    assert (made.a, made.b, made.c, made.doubled()) == (1, "b", [3], 2)
    assert made == Quick(1, "b", [3]) != Quick(2, "b", [3])
    assert replace(made, a=4) == Quick(4, c=[3])
    assert hash(made) == hash(Slow(1, c=[3]))
    assert repr(made) == repr(Slow(1, c=[3])).replace("Slow", "Quick")
    assert Quick(1).c is not Quick(1).c
    assert Quick.__doc__ == "Said of it."


def test_field_is_set_without_a_call() -> None:
    """What makes frozen dataclasses slow is a call of `object.__setattr__` for each field."""
    assert "__setattr__" in Slow.__init__.__code__.co_names
    assert "__setattr__" not in Quick.__init__.__code__.co_names
    assert "__setattr__" not in Quick.__dict__


def test_unsupported_dataclass_features_are_rejected() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        a: int

        def __post_init__(self) -> None:
            assert self.a

    with pytest.raises(AssertionError, match="when it is made"):
        made_often(Checked)

    @dataclass(frozen=True, slots=True)
    class Derived:
        a: int = field(init=False, default=1)

    with pytest.raises(AssertionError, match="not passed"):
        made_often(Derived)
