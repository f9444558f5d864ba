"""The facts about the kind AppWrapper that the controller gets from its caller
(`phalanx.dialects.job_kinds.appwrapper.wrapping`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from phalanx.client.connection import Object
from phalanx.client.kind import Kind


class Wrapping(Protocol):
    """`label`: the label of components and pods with the AppWrapper's name. `uid`: the annotation of pods with the
    AppWrapper's uid. `manager`: the name of this controller, in AppWrappers that name one. `creator`, `groups`: the
    annotations with the creator."""

    @property
    def kind(self) -> Kind: ...
    @property
    def label(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def manager(self) -> str: ...
    @property
    def creator(self) -> str: ...
    @property
    def groups(self) -> str: ...

    def read(self, obj: Object) -> Object:
        """Return the object in the shape of v1beta2, whatever generation it is of."""

    def demand(self, spec: Mapping[str, Any]) -> Object | None:
        """Return what the status of an object of the first generation (MCAD) says of its demand; None: it is of the
        second."""

    def expected(self, app_wrapper: Object) -> int:
        """Return the expected number of pods. Raises PhalanxError for what cannot be created, ever."""

    def pod_sets(self, at: int, component: Mapping[str, Any]) -> Sequence[Object]:
        """Return the `podSets` of a component, as its status shows them."""

    def component_name(self, app_wrapper: Object, at: int) -> str:
        """Return what a component is called; empty: it has no name."""

    def component(self, app_wrapper: Object, at: int) -> Object:
        """Return the object to create for a component. Raises PhalanxError if the object can never be created."""

    def must_leave(self, pod: Mapping[str, Any], node_labels: Mapping[str, str]) -> bool:
        """Return whether a pod of this spec is to leave a node with these labels."""
