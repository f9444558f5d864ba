#!/usr/bin/env python3
"""An exec provider of Phalanx for machines that ipmitool switches on and off. docs/guide/autoscaling.md has the calls.

    provider: {exec: {command: [/usr/local/bin/exec-provider.py, /etc/phalanx-machines.json]}}

The file has the machines of each group with the addresses of their controllers: {"gpu": {"gpu-1": "10.0.9.1"}}. The
password is in the environment variable IPMI_PASSWORD (ipmitool -E). A machine that is switched on starts its kubelet,
which registers the node with the label of the group. The state (which machine was switched on for which name) is in the
file beside it, PATH.state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

POWER = os.environ.get("POWER_PROGRAM", "ipmitool -I lanplus -E -H").split()
SECONDS = 10


def power(address: str, verb: str) -> str:
    """Run `ipmitool chassis power VERB`, and return what it prints."""
    argv = [*POWER, address, "chassis", "power", verb]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=SECONDS).stdout


def scale(call: dict[str, Any], machines: dict[str, str], state: dict[str, Any]) -> dict[str, Any]:
    """Switch machines on and off. A repeated call changes nothing."""
    refused = {}
    for name in call["remove"]:
        if name in machines:
            power(machines[name], "off")
        for machine in [machine for machine, each in state.items() if name in (machine, each["for"])]:
            power(machines[machine], "off")
            del state[machine]
    for name in call["add"]:
        if any(each["for"] == name for each in state.values()):
            continue
        free = next((each for each in machines if each not in state and "off" in power(machines[each], "status")), None)
        if free is None:
            refused[name] = f"all {len(machines)} machines are on"
            continue
        power(machines[free], "on")
        state[free] = {"for": name, "since": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    return {"refused": refused}


def status(machines: dict[str, str], state: dict[str, Any]) -> dict[str, Any]:
    """List the machines that are on. Whether a node is ready is seen in the cluster: all are `running` here."""
    on = [each for each in machines if "on" in power(machines[each], "status").split()]
    nodes = [{"name": state.get(each, {}).get("for", each), "node": each, "state": "running"} for each in on]
    return {"nodes": nodes}


def main() -> int:
    file = Path(sys.argv[1])
    call, kept = json.load(sys.stdin), file.with_name(file.name + ".state")
    machines = json.loads(file.read_text()).get(call["group"])
    if machines is None:
        print(f"{file} has no group {call['group']}", file=sys.stderr)
        return 1
    state = json.loads(kept.read_text()) if kept.exists() else {}
    answer = scale(call, machines, state) if call["call"] == "scale" else status(machines, state)
    kept.write_text(json.dumps(state))
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
