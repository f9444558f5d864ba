"""Job numbers: small integers, each unique in a cluster.

`phalanx up` assigns them (`POST /slurm/v1/numbers`): a user cannot exhaust them, and a Job can only have a number of
its user.

On other API servers the next number is in the ConfigMap `kube-system/phalanx-slurm-number`. The command increases it by
the number of tasks, with the object's resourceVersion. If several commands write at the same time, the API server
accepts the first, and the others try again. A number that was taken and not used is lost, as in Slurm.
"""

from __future__ import annotations

import time

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api, Refused
from phalanx.slurm.cluster.site import PATH

NAME = "phalanx-slurm-number"
_KEY = "next"
_DRAW, _NOT_SERVED = "/slurm/v1/numbers", (403, 404, 405)
_TRIES = 200


def take(api: Api, count: int, first: int) -> int:
    """Take `count` consecutive numbers, and return the first. `first`: the first number of a new cluster. Raises
    PhalanxError."""
    try:
        drawn = msgspec.json.decode(api.call("POST", _DRAW, count=str(count)), type=dict[str, int])
        return drawn["first"]
    except Refused as error:
        if error.code not in _NOT_SERVED:
            raise
    for tried in range(_TRIES):
        found = api.find(f"{PATH}/{NAME}")
        try:
            if found is None:
                api.create(PATH, _body(first + count))
                return first
            number = max(int((found.get("data") or {}).get(_KEY, first)), first)
            api.replace(f"{PATH}/{NAME}", {**_body(number + count), "metadata": found["metadata"]})
            return number
        except Refused as error:
            if error.code != 409:
                raise
            import random

            time.sleep(random.uniform(0.0, 0.002 * min(tried + 1, 20)))
    raise PhalanxError("too many submit at once: no job number could be had. Nothing was submitted; try again.")


def _body(number: int) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {_KEY: str(number)}}
