"""A cloud provider that serves the Cluster Autoscaler's protocol `externalgrpc`. A test scripts its behavior: slow
answers, refusals, lost answers, prices. Instances change only when a test creates or loses them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from phalanx.providers.counted.cloud_protocol import CALLS, CREATING, DELETING, CloudAddress, message, service
from phalanx.rpc.library import grpc

Code = grpc.StatusCode


@dataclass(kw_only=True)
class CloudGroup:
    """A node group. `price`: the price of a node for an hour; None: the provider states none. `node`: the template of a
    node. `refuses`: the reason for which the group adds no node; empty: it adds nodes."""

    minimum: int = 0
    maximum: int = 10
    price: float | None = None
    target: int = 0
    node: Any = None
    refuses: str = ""
    instances: dict[str, Any] = field(default_factory=dict)


@dataclass
class Cloud:
    """`loses`: call -> the number of answers to it that are lost."""

    groups: Mapping[str, CloudGroup]
    loses: dict[str, int] = field(default_factory=dict)
    bought: list[tuple[str, int]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    _numbers: Any = field(default_factory=count)

    @asynccontextmanager
    async def served(self, socket: Path, tls: Any = None) -> AsyncIterator[CloudAddress]:
        """Serve on the socket, or with TLS on a port of this machine."""
        server = grpc.aio.server()
        handlers = {call: self._handler(call) for call in CALLS}
        name = service("CloudProvider", "").strip("/")
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        if tls is None:
            address = f"unix:{socket}"
            server.add_insecure_port(address)
        else:
            address = f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', tls)}"
        await server.start()
        try:
            yield CloudAddress(address, None, None, None, 20.0)
        finally:
            await server.stop(None)

    def create(self, group: str, state: int = CREATING, error: str = "") -> str:
        """Create one of the instances that the group still has to create. `error`: the reason of a failed creation."""
        here, name = self.groups[group], f"cloud:///{group}/{next(self._numbers)}"
        assert here.target > sum(each.instanceState != DELETING for each in here.instances.values())
        status = message("InstanceStatus")(instanceState=state)
        if error:
            status.errorInfo.errorCode, status.errorInfo.errorMessage = "OUT_OF_STOCK", error
        here.instances[name] = status
        return name

    def lose(self, instance: str) -> None:
        """Remove the instance, like a reclaimed spot instance. The provider creates no replacement."""
        for here in self.groups.values():
            if here.instances.pop(instance, None) is not None:
                here.target -= 1

    def _handler(self, call: str) -> Any:
        request, answer = CALLS[call]
        answers: dict[str, Callable[[Any, Any], Awaitable[Any]]] = {
            "Refresh": self._refresh,
            "NodeGroups": self._node_groups,
            "NodeGroupTargetSize": self._target_size,
            "NodeGroupIncreaseSize": self._increase,
            "NodeGroupDecreaseTargetSize": self._decrease,
            "NodeGroupDeleteNodes": self._delete,
            "NodeGroupNodes": self._nodes,
            "NodeGroupTemplateNodeInfo": self._template,
            "PricingNodePrice": self._price,
        }

        async def handle(asked: Any, context: Any) -> Any:
            found = await answers[call](asked, context)
            if self.loses.get(call, 0):
                self.loses[call] -= 1
                await context.abort(Code.UNAVAILABLE, "the connection was cut")
            return found if found is not None else message(answer)()

        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=message(request).FromString,
            response_serializer=message(answer).SerializeToString,
        )

    async def _refresh(self, asked: Any, context: Any) -> None:
        pass

    async def _node_groups(self, asked: Any, context: Any) -> Any:
        groups = self.groups.items()
        return message("Groups")(
            nodeGroups=[message("Group")(id=name, minSize=each.minimum, maxSize=each.maximum) for name, each in groups]
        )

    async def _target_size(self, asked: Any, context: Any) -> Any:
        return message("TargetSize")(targetSize=(await self._of(asked, context)).target)

    async def _increase(self, asked: Any, context: Any) -> None:
        here = await self._of(asked, context)
        if here.refuses:
            await context.abort(Code.RESOURCE_EXHAUSTED, here.refuses)
        if asked.delta <= 0 or here.target + asked.delta > here.maximum:
            await context.abort(Code.OUT_OF_RANGE, f"{here.target} and {asked.delta} are more than {here.maximum}")
        here.target += asked.delta
        self.bought.append((asked.id, asked.delta))

    async def _decrease(self, asked: Any, context: Any) -> None:
        here = await self._of(asked, context)
        alive = sum(each.instanceState != DELETING for each in here.instances.values())
        if asked.delta >= 0 or here.target + asked.delta < alive:
            await context.abort(Code.INVALID_ARGUMENT, f"{here.target} and {asked.delta} are less than {alive}")
        here.target += asked.delta

    async def _delete(self, asked: Any, context: Any) -> None:
        here = await self._of(asked, context)
        names = [each.providerID for each in asked.nodes]
        if strangers := [name for name in names if name not in here.instances]:
            await context.abort(Code.NOT_FOUND, f"{strangers[0]} is no instance of the group")
        for name in names:
            del here.instances[name]
            here.target -= 1
        self.deleted += names

    async def _nodes(self, asked: Any, context: Any) -> Any:
        found = (await self._of(asked, context)).instances.items()
        return message("Instances")(instances=[message("Instance")(id=name, status=each) for name, each in found])

    async def _template(self, asked: Any, context: Any) -> Any:
        node = (await self._of(asked, context)).node
        if node is None:
            await context.abort(Code.UNIMPLEMENTED, "")
        return message("Template")(nodeBytes=node.SerializeToString())

    async def _price(self, asked: Any, context: Any) -> Any:
        labels = {each.key: each.value for each in asked.node.labels}
        price = self.groups[labels["pool"]].price
        if price is None:
            await context.abort(Code.UNIMPLEMENTED, "")
        hours = (asked.endTimestamp.seconds - asked.startTimestamp.seconds) / 3600
        return message("Price")(price=price * hours)

    async def _of(self, asked: Any, context: Any) -> CloudGroup:
        if asked.id not in self.groups:
            await context.abort(Code.NOT_FOUND, f"there is no group {asked.id}")
        return self.groups[asked.id]


def template(pool: str, **amounts: str) -> Any:
    """Return the node template that a provider reports for a group."""
    node = message("Node")()
    node.metadata.name = f"template-{pool}"
    for key, value in (("pool", pool), ("kubernetes.io/hostname", node.metadata.name)):
        node.metadata.labels.add(key=key, value=value)
    for key, value in amounts.items():
        node.status.allocatable.add(key=key).value.string = value
    return node
