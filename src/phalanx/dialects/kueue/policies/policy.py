"""Build an admission policy of the API server (CEL) and its binding, in place of one of Kueue's webhooks.

Source: KEP-3488, KEP-3962.
"""

from __future__ import annotations

from typing import Final

from phalanx.client.policies import Made, changing, refusing
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kueue import kinds

LABELS: Final = "object.metadata.labels"
QUEUED: Final = f'has({LABELS}) && "{kinds.QUEUE_LABEL}" in {LABELS} && !("phalanx.dev/queue" in {LABELS})'
_OLD = "oldObject.metadata.labels"
QUEUED_BEFORE: Final = (
    f'({QUEUED}) || (request.operation == "UPDATE" && has({_OLD}) && "{kinds.QUEUE_LABEL}" in {_OLD} && '
    f'!("phalanx.dev/queue" in {_OLD}))'
)
NOT_OWNED: Final = (
    "!has(object.metadata.ownerReferences) || "
    "!object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)"
)
ALIVE: Final = {"alive": "!has(object.metadata.deletionTimestamp)"}


def _constraints(rules: list[Object], conditions: dict[str, str]) -> Object:
    """Return match constraints. If a condition requires a queue name, a selector excludes objects without it, because a
    selector costs less than CEL."""
    selector = [{"key": kinds.QUEUE_LABEL, "operator": "Exists"}] if "queued" in conditions else []
    return {"resourceRules": rules, **({"objectSelector": {"matchExpressions": selector}} if selector else {})}


def mutating(
    name: str, rules: list[Object], conditions: dict[str, str], change: str, *, patch: bool = False
) -> list[Made]:
    """Return a policy that changes matching objects. `patch`: `change` is a JSON patch; otherwise it is an apply
    configuration."""
    full, matching = f"{name}.kueue.phalanx.dev", _constraints(rules, conditions)
    return changing(full, rules, conditions, change, patch=patch, matchConstraints=matching)


def validating(name: str, rules: list[Object], conditions: dict[str, str], checks: dict[str, str]) -> list[Made]:
    """Return a policy that refuses matching objects. `checks`: message -> the expression that must hold."""
    full, matching = f"{name}.kueue.phalanx.dev", _constraints(rules, conditions)
    return refusing(full, rules, conditions, checks, matchConstraints=matching)
