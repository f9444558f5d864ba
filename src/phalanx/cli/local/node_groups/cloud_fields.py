"""Read the missing fields of a node group from its cloud provider: bounds, a template of the nodes, and a price."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError

from phalanx.cli.local.node_groups.file import EFFECTS, PODS_OF_A_NODE, GroupInFile
from phalanx.cli.local.node_groups.provider_fields import CloudProvider
from phalanx.client.quantity import QuantityError, amount
from phalanx.errors import PhalanxError
from phalanx.model.node import Node, Taint
from phalanx.model.pod import PODS, amounts
from phalanx.providers.counted.cloud_protocol import CloudService, NotOffered, message, open_cloud
from phalanx.providers.provider import ProviderError

log = logging.getLogger(__name__)

HOUR_S = 3600
OWN_LABELS = ("kubernetes.io/hostname",)  # labels that belong to a single node, not to the group


async def complete_cloud(group: GroupInFile, said: CloudProvider) -> GroupInFile:
    """Return the group with its missing fields, which are read from its provider. Raises PhalanxError if a value of the
    provider is invalid, or if the provider does not respond and the file has no `allocatable`."""
    name = f"node group {group.group.name}"
    try:
        async with open_cloud(said.at) as service:
            return await _completed(group, said.group, service)
    except (ValueError, QuantityError, DecodeError) as error:
        raise PhalanxError(f"{name}: the values of its provider cannot be used: {error}") from None
    except ProviderError as error:
        if "allocatable" not in group.given:
            raise PhalanxError(f"{name}: {error}; write `allocatable` of a node into the file") from None
        log.warning("%s: %s; only the fields of the file are used", name, error)
        return group


async def _completed(group: GroupInFile, of: str, service: CloudService) -> GroupInFile:
    """Return the group with its missing fields, which are read from its provider. `of`: the id of the group at the
    provider. Raises ValueError, QuantityError, DecodeError or ProviderError."""
    known = {each.id: each for each in (await service.call("NodeGroups")).nodeGroups}
    if of not in known:
        raise ValueError(f"it has no group {of}; its groups are {', '.join(sorted(known)[:10]) or 'none'}")
    found = group.group
    least = found.min_nodes if "min" in group.given else known[of].minSize
    most = found.max_nodes if "max" in group.given else known[of].maxSize
    if not 0 <= least <= most or not most:
        raise ValueError(f"the minimum of {least} and the maximum of {most} nodes are not valid bounds")
    template, price = await _template(group, of, service), found.price_per_hour
    if "price" not in group.given:
        price = await _price(template, service)
    return replace(
        group, group=replace(found, template=template, min_nodes=least, max_nodes=most, price_per_hour=price)
    )


async def _template(group: GroupInFile, of: str, service: CloudService) -> Node:
    """Return the template of the group's nodes, from the file and the provider. Values in the file override values of
    the provider."""
    own = group.group.template
    try:
        content = (await service.call("NodeGroupTemplateNodeInfo", id=of)).nodeBytes
    except NotOffered:
        content = b""
    node = message("Node").FromString(content)
    has = {each.key: amount(each.key, each.value.string) for each in node.status.allocatable or node.status.capacity}
    if negative := [name for name, value in has.items() if value < 0]:
        raise ValueError(f"its node has an amount of {negative[0]} below 0")
    if "allocatable" not in group.given and not has:
        raise ValueError("it does not state the resources of a node; write `allocatable` of a node into the file")
    labels = {each.key: each.value for each in node.metadata.labels if each.key not in OWN_LABELS}
    return replace(
        own,
        allocatable=own.allocatable if "allocatable" in group.given else amounts({PODS: PODS_OF_A_NODE, **has}),
        labels=tuple(sorted({**labels, **dict(own.labels)}.items())),
        taints=own.taints if "taints" in group.given else tuple(_taints(node.spec.taints)),
    )


def _taints(said: Iterable[Any]) -> Iterable[Taint]:
    for each in said:
        if not each.key or each.effect not in EFFECTS:
            raise ValueError(f"the taint {each.key}={each.value}:{each.effect} is not a valid taint")
        yield Taint(each.key, each.value, each.effect)


async def _price(template: Node, service: CloudService) -> float:
    """Return the price of a node for one hour; 0 if the provider states no price."""
    pairs = [message("Pair")(key=key, value=value) for key, value in template.labels]
    node = message("CloudNode")(name=template.name, labels=pairs)
    now_s = int(time.time())
    first, last = (message("Moment")(seconds=at_s) for at_s in (now_s, now_s + HOUR_S))
    try:
        answer = await service.call("PricingNodePrice", node=node, startTimestamp=first, endTimestamp=last)
    except NotOffered:
        return 0.0
    found = float(answer.price)
    if not 0.0 <= found < 1e9:
        raise ValueError(f"{found} is not a valid price")
    return found
