"""Strategies for kinds that have a status or a generation. A plain write does not change the status; a change of the
spec raises the generation.

Source: PrepareForCreate and PrepareForUpdate of the strategies in k8s.io/kubernetes/pkg/registry.
"""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy


class SpecAndStatus(ResourceStrategy):
    """The strategy of a kind whose `status` can be changed only by writes to the subresource `/status`. `counts`: True
    if its objects have generations."""

    counts = False
    status_keeps_metadata = False  # True if a write to `/status` cannot change labels and other metadata
    spec_fields: tuple[str, ...] = ("spec",)

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = self.first_status(obj)
        if self.counts:
            obj["metadata"]["generation"] = 1

    def first_status(self, obj: Object) -> Object:
        """Return the status of a new object."""
        return {}

    def prepare_update(self, obj: Object, old: Object) -> None:
        if "status" in old:
            obj["status"] = old["status"]
        else:
            obj.pop("status", None)
        if self.counts:
            count(obj, old, self.spec_fields)

    def prepare_status_update(self, obj: Object, old: Object) -> None:
        for field in self.spec_fields:
            if field in old:
                obj[field] = old[field]
            else:
                obj.pop(field, None)
        if self.status_keeps_metadata:
            record = obj["metadata"].get("managedFields")
            obj["metadata"] = {**old["metadata"], **({"managedFields": record} if record else {})}
        if "generation" in old["metadata"]:
            obj["metadata"]["generation"] = old["metadata"]["generation"]


class GenerationStrategy(ResourceStrategy):
    """The strategy of a kind that has no status but counts generations, as PriorityClass does."""

    spec_fields: tuple[str, ...] = ("spec",)

    def prepare_create(self, obj: Object) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_update(self, obj: Object, old: Object) -> None:
        count(obj, old, self.spec_fields)


def count(obj: Object, old: Object, fields: tuple[str, ...]) -> None:
    """Raise the generation if the spec has changed."""
    before = old["metadata"].get("generation", 0)
    changed = any(obj.get(field) != old.get(field) for field in fields)
    if generation := before + 1 if changed else before:
        obj["metadata"]["generation"] = generation
    else:
        obj["metadata"].pop("generation", None)
