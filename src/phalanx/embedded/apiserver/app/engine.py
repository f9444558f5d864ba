"""The parts of the server that handle the stored objects of all kinds in the same way: reads, writes, deletions, and
reconcilers."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apiserver.auth.rbac import GROUP as RBAC
from phalanx.embedded.apiserver.auth.rbac import Authorizer
from phalanx.embedded.apiserver.endpoints.delete import Deleter
from phalanx.embedded.apiserver.endpoints.listing import ReadEndpoints
from phalanx.embedded.apiserver.endpoints.parts.committed import Committed
from phalanx.embedded.apiserver.endpoints.parts.knowledge import Knowledge
from phalanx.embedded.apiserver.endpoints.paths.namesakes import Namesakes
from phalanx.embedded.apiserver.endpoints.paths.slurm_numbers import SlurmNumbers
from phalanx.embedded.apiserver.endpoints.reconcilers.definitions import DefinitionReconciler
from phalanx.embedded.apiserver.endpoints.reconcilers.quota_usage import QuotaUsage
from phalanx.embedded.apiserver.endpoints.reconcilers.type_checking import TypeChecking
from phalanx.embedded.apiserver.endpoints.write import ObjectWriter
from phalanx.embedded.apiserver.registry.routing import Registry
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.storage.store import Event, Store
from phalanx.embedded.apiserver.storage.watch import Hub


class Engine:
    """The parts of one server that handle stored objects. `numbers`: the Slurm job numbers that the server has given to
    users."""

    def __init__(self, store: Store, registry: Registry, settings: StoreSettings) -> None:
        self.store, self.registry = store, registry
        self.hub = Hub(store)
        self.authorizer = Authorizer(Committed(store))
        store.subscribe(self._roles_changed)
        self.knowledge = Knowledge(store, registry.forms, self._guard, self.authorizer.rights)
        self.writer = ObjectWriter(store, registry, self.knowledge)
        self.numbers = SlurmNumbers(store, self.writer, self.built_in("", "configmaps"))
        self.deleter = Deleter(store, self.knowledge)
        self.reader = ReadEndpoints(store, self.hub, settings)
        self.definitions = DefinitionReconciler(store, registry, self.deleter, registry.resources)
        self.type_checking = TypeChecking(store, registry, self.writer)
        self.quota_usage = QuotaUsage(store, registry, self.writer)
        self.namesakes = Namesakes(store, registry, self.authorizer.may)

    def built_in(self, group: str, plural: str) -> Resource:
        """Return the built-in kind of this name."""
        found = self.registry.find(group, "v1", plural)
        assert found is not None
        return found

    def start(self) -> None:
        """Start the reconcilers."""
        self.definitions.start()
        self.type_checking.start()
        self.quota_usage.start()

    def _guard(self, resource: Resource, obj: Object, old: Object | None, user: User) -> None:
        """Refuse an object that its user may not write although the user may write objects of this kind. Such objects
        are roles with rights that the user lacks, and Jobs with a Slurm job number that the server has not given to the
        user. Raises `StatusError` 403, 404."""
        self.authorizer.guard(resource, obj, old, user)
        self.numbers.guard(resource, obj, old, user)

    def _roles_changed(self, events: list[Event]) -> None:
        if any(event.key[0] == RBAC for event in events):
            self.authorizer.grants.forget()
