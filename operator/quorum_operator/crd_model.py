"""Base of the models of all resource definitions: Kubernetes field names, and CEL rules with messages."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class CrdModel(BaseModel):
    """Part of a resource. Unknown fields are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


def cel_rule(expression: str, message: str) -> dict[str, Any]:
    """A CEL rule of one field with the message for a violation."""
    return cel_rules((expression, message))


def cel_rules(*rules: tuple[str, str]) -> dict[str, Any]:
    """Several, each with its message."""
    return {"x-kubernetes-validations": [{"rule": each, "message": says} for each, says in rules]}
