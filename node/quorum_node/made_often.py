"""A decorator that makes frozen dataclasses as cheap to construct as mutable ones.

For values that are constructed on every commit. Must not know the values.
"""

from dataclasses import MISSING, Field, field, fields, make_dataclass
from typing import Any, TypeVar

_T = TypeVar("_T")


def made_often(cls: type[_T]) -> type[_T]:
    """Class decorator, above `@dataclass(frozen=True, slots=True)`. Instances stay immutable by
    convention.

    The type checker still reports assignments. Only Python's run-time check is removed: it makes
    the construction several times slower. Equality, hash and `replace` stay those of the dataclass.
    """
    declared: tuple[Field[Any], ...] = fields(cls)  # type: ignore[arg-type]
    assert all(each.init for each in declared), f"{cls.__name__}: a field that is not passed"
    assert "__post_init__" not in cls.__dict__, f"{cls.__name__}: work to be done when it is made"
    plain = make_dataclass(cls.__name__, [(f.name, Any, _default(f)) for f in declared])
    made, guarded = plain.__dict__["__init__"], cls.__dict__["__init__"]
    made.__qualname__, made.__annotations__ = guarded.__qualname__, guarded.__annotations__
    setattr(cls, made.__name__, made)
    for name in ("__setattr__", "__delattr__"):
        delattr(cls, name)
    return cls


def _default(declared: Field[Any]) -> Any:
    if declared.default_factory is not MISSING:
        return field(default_factory=declared.default_factory, kw_only=declared.kw_only)
    return field(default=declared.default, kw_only=declared.kw_only)
