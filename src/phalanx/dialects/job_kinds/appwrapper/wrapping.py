"""The functions that the controller of AppWrappers calls (`embedded.controllers.operators.appwrapper.controller`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.appwrapper import generic_items, kinds
from phalanx.dialects.job_kinds.appwrapper.pod_sets import (
    LEAVE,
    WrapError,
    component_name,
    component_object,
    component_sets,
    health,
)


class AppWrapping:
    """The implementation of the controller's protocol `Wrapping` for AppWrappers of both generations."""

    label: Final = kinds.LABEL
    uid: Final = kinds.UID
    manager: Final = kinds.MANAGER
    creator: Final = kinds.CREATOR
    groups: Final = kinds.CREATOR_GROUPS

    def __init__(self, kind: Kind) -> None:
        self.kind: Final = kind

    def read(self, obj: Object) -> Object:
        return generic_items.read(obj)

    def demand(self, spec: Mapping[str, object]) -> Object | None:
        return generic_items.demand(spec) if generic_items.is_mcad(spec) else None

    def expected(self, app_wrapper: Object) -> int:
        try:
            return sum(one.replicas for one in generic_items.pod_sets_of(app_wrapper))
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise WrapError(f"the wrapped objects cannot be read: {error}") from None

    def pod_sets(self, at: int, component: Mapping[str, object]) -> list[Object]:
        try:
            return [{"path": one.path, "replicas": one.replicas} for one in component_sets(at, component)]
        except (WrapError, TypeError, ValueError, AttributeError, KeyError):
            return []

    def component_name(self, app_wrapper: Object, at: int) -> str:
        return component_name(app_wrapper, at)

    def component(self, app_wrapper: Object, at: int) -> Object:
        return component_object(app_wrapper, at)

    def must_leave(self, pod: Mapping[str, object], node_labels: Mapping[str, str]) -> bool:
        return any(node_labels.get(label) == LEAVE for label in health(pod))


WRAPPINGS: Final = (AppWrapping(kinds.APP_WRAPPERS), AppWrapping(kinds.IBM_APP_WRAPPERS))
