"""Pod templates: a kind that holds a piece of another kind."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import Cause
from phalanx.embedded.apiserver.registry.kinds.checks import Found
from phalanx.embedded.apiserver.registry.kinds.generation import Counted
from phalanx.embedded.apiserver.registry.kinds.pods import defaults, spec


class PodTemplateStrategy(Counted):
    """`podtemplates`."""

    delete_returns_object = True

    spec_fields = ("template",)

    def default(self, obj: Object) -> None:
        defaults.pod_spec(obj["template"]["spec"])

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec.template(found, obj["template"], "template")
        return found
