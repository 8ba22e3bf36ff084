"""What the models of all resource definitions share: names as Kubernetes writes them, and a rule with its message."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class CrdModel(BaseModel):
    """A part of a resource. Fields that this version does not know are left alone."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


def cel_rule(expression: str, message: str) -> dict[str, Any]:
    """A CEL rule of one field, and what the API server says when it does not hold."""
    return cel_rules((expression, message))


def cel_rules(*rules: tuple[str, str]) -> dict[str, Any]:
    """Several, each with its message."""
    return {"x-kubernetes-validations": [{"rule": each, "message": says} for each, says in rules]}
