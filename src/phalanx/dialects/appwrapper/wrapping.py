"""What the controller of AppWrappers is told of them (`embedded.controllers.operators.appwrapper.wrapping`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.appwrapper import kinds
from phalanx.dialects.appwrapper.pod_sets import (
    LEAVE,
    WrapError,
    component_name,
    component_object,
    component_sets,
    health,
    pod_sets,
)
from phalanx.dialects.frame import Object


class AppWrapping:
    """`Wrapping` of AppWrapper v1beta2."""

    kind: Final[Kind] = kinds.APP_WRAPPERS
    label: Final = kinds.LABEL
    manager: Final = kinds.MANAGER
    creator: Final = kinds.CREATOR
    groups: Final = kinds.CREATOR_GROUPS

    def expected(self, spec: Mapping[str, Any]) -> int:
        try:
            return sum(one.replicas for one in pod_sets(spec))
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise WrapError(f"what it wraps cannot be read: {error}") from None

    def pod_sets(self, at: int, component: Mapping[str, Any]) -> list[Object]:
        try:
            return [{"path": one.path, "replicas": one.replicas} for one in component_sets(at, component)]
        except (WrapError, TypeError, ValueError, AttributeError, KeyError):
            return []

    def component_name(self, app_wrapper: Object, at: int) -> str:
        return component_name(app_wrapper, at)

    def component(self, app_wrapper: Object, at: int) -> Object:
        return component_object(app_wrapper, at)

    def must_leave(self, pod: Mapping[str, Any], node_labels: Mapping[str, str]) -> bool:
        return any(node_labels.get(label) == LEAVE for label in health(pod))


WRAPPING: Final = AppWrapping()
