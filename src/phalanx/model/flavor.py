"""A flavor: a named class of nodes, which quotas can tell apart (Kueue's ResourceFlavor)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from phalanx.model.pod import Shape, Toleration


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """Its nodes carry all of `labels`. A pod that is given the flavor goes to them only, and tolerates `tolerations`
    besides its own (the taints that keep others away from such nodes)."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def applied_to(self, shape: Shape) -> Shape:
        """That shape, kept to the flavor's nodes."""
        return replace(
            shape,
            selector=tuple(sorted({*shape.selector, *self.labels})),
            tolerations=tuple(dict.fromkeys((*shape.tolerations, *self.tolerations))),
        )
