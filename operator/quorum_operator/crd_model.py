"""Base of the models of all resource definitions: Kubernetes field names, and CEL rules with messages."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


def _readable(text: str) -> str:
    """Raises ValueError."""
    try:
        datetime.fromisoformat(text).timestamp()
    except OverflowError:
        raise ValueError("out of range") from None
    return text


WrittenTime = Annotated[str, AfterValidator(_readable)]
"""A time in a status. Any other text there was written by somebody else, and the field that has it is not used."""


class CrdModel(BaseModel):
    """Part of a resource. Unknown fields are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


def cel_rule(expression: str, message: str) -> dict[str, Any]:
    """A CEL rule of one field with the message for a violation."""
    return cel_rules((expression, message))


def cel_rules(*rules: tuple[str, str]) -> dict[str, Any]:
    """Several, each with its message."""
    return {
        "x-kubernetes-validations": [{"rule": each, "message": message} for each, message in rules]
    }
