"""The messages of cloud providers that speak the Cluster Autoscaler's protocol `externalgrpc`.

Source of names and numbers: cluster-autoscaler/cloudprovider/externalgrpc/protos/externalgrpc.proto of
kubernetes/autoscaler 1.36.1, and of Node k8s.io/api/core/v1/generated.proto (both Apache-2.0)."""

from __future__ import annotations

from phalanx.rpc.messages import Messages

_MESSAGES = Messages(
    "clusterautoscaler.cloudprovider.v1.externalgrpc",
    {
        "Empty": {},  # for the request Refresh, and for answers without fields
        "Group": {"id": (1, "text"), "minSize": (2, "integer"), "maxSize": (3, "integer"), "debug": (4, "text")},
        "Groups": {"nodeGroups": (1, "*Group")},
        "OfGroup": {"id": (1, "text")},
        "TargetSize": {"targetSize": (1, "integer")},
        "ChangeSize": {"delta": (1, "integer"), "id": (2, "text")},
        "Pair": {"key": (1, "text"), "value": (2, "text")},
        "CloudNode": {
            "providerID": (1, "text"),
            "name": (2, "text"),
            "labels": (3, "*Pair"),
            "annotations": (4, "*Pair"),
        },
        "DeleteNodes": {"nodes": (1, "*CloudNode"), "id": (2, "text")},
        "ErrorInfo": {"errorCode": (1, "text"), "errorMessage": (2, "text"), "instanceErrorClass": (3, "integer")},
        "InstanceStatus": {"instanceState": (1, "integer"), "errorInfo": (2, "ErrorInfo")},
        "Instance": {"id": (1, "text"), "status": (2, "InstanceStatus")},
        "Instances": {"instances": (1, "*Instance")},
        "Moment": {"seconds": (1, "long"), "nanos": (2, "integer")},
        "PriceOfNode": {"node": (1, "CloudNode"), "startTimestamp": (4, "Moment"), "endTimestamp": (5, "Moment")},
        "Price": {"price": (1, "number")},
        "Template": {"nodeBytes": (2, "bytes")},
        # The messages of Node (core/v1), which is encoded in `nodeBytes`.
        "Amount": {"string": (1, "text")},
        "AmountPair": {"key": (1, "text"), "value": (2, "Amount")},
        "Taint": {"key": (1, "text"), "value": (2, "text"), "effect": (3, "text")},
        "Metadata": {"name": (1, "text"), "labels": (11, "*Pair")},
        "NodeSpec": {"providerID": (3, "text"), "taints": (5, "*Taint")},
        "NodeStatus": {"capacity": (1, "*AmountPair"), "allocatable": (2, "*AmountPair")},
        "Node": {"metadata": (1, "Metadata"), "spec": (2, "NodeSpec"), "status": (3, "NodeStatus")},
    },
)
message, service = _MESSAGES.message, _MESSAGES.service

# call -> the messages of its request and its answer
CALLS = {
    "Refresh": ("Empty", "Empty"),
    "NodeGroups": ("Empty", "Groups"),
    "NodeGroupTargetSize": ("OfGroup", "TargetSize"),
    "NodeGroupIncreaseSize": ("ChangeSize", "Empty"),
    "NodeGroupDecreaseTargetSize": ("ChangeSize", "Empty"),
    "NodeGroupDeleteNodes": ("DeleteNodes", "Empty"),
    "NodeGroupNodes": ("OfGroup", "Instances"),
    "NodeGroupTemplateNodeInfo": ("OfGroup", "Template"),
    "PricingNodePrice": ("PriceOfNode", "Price"),
}
RUNNING, CREATING, DELETING = 1, 2, 3  # values of instanceState; 0: unknown
