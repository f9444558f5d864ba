"""Run the node agent, or simulated nodes, as a separate program: `python -m phalanx.embedded.node`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.embedded.node.machine.settings import NodeSettings, SimulatedSettings
from phalanx.embedded.node.run.machine_node import run_node
from phalanx.embedded.node.simulated.nodes import run_simulated_nodes
from phalanx.errors import PhalanxError


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m phalanx.embedded.node", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument(
        "--data", type=Path, help="directory for the pods and logs of this node; required for a real node"
    )
    parser.add_argument("--name", default="", help="the node's name (the host name)")
    parser.add_argument("--capacity", action="append", default=[], metavar="RESOURCE=QUANTITY", help="such as cpu=6")
    parser.add_argument(
        "--simulate-nodes", type=int, default=0, metavar="N", help="run N simulated nodes instead of a real node"
    )
    parser.add_argument("--node-cpu", default="100")
    parser.add_argument("--node-memory", default="100Gi")
    parser.add_argument("--node-gpu", type=int, default=0)
    parser.add_argument("--node-pods", type=int, default=1000)
    parser.add_argument("--time-scale", type=float, default=1.0, help="with 10, simulated pods finish ten times sooner")
    return parser.parse_args(argv)


async def serve(args: argparse.Namespace) -> None:
    """Run until SIGTERM or SIGINT. The processes of pods continue after that."""
    loop, me = asyncio.get_running_loop(), asyncio.current_task()
    assert me is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, me.cancel)
    async with await Connection.open(args.kubeconfig) as connection, asyncio.TaskGroup() as group:
        informers: dict[Kind, Informer] = {}

        def informer(kind: Kind) -> Informer:
            if kind not in informers:
                informers[kind] = Informer(connection, kind)
                group.create_task(informers[kind].run())
            return informers[kind]

        if args.simulate_nodes:
            settings = SimulatedSettings(
                nodes=args.simulate_nodes,
                cpu=args.node_cpu,
                memory=args.node_memory,
                gpu=args.node_gpu,
                pods=args.node_pods,
                time_scale=args.time_scale,
            )
            await run_simulated_nodes(connection, informer, settings)
        else:
            resources = dict(one.split("=", 1) for one in args.capacity)
            await run_node(connection, informer, NodeSettings(data_dir=args.data, name=args.name, resources=resources))


def main() -> int:
    args = arguments(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if not args.simulate_nodes and args.data is None:
        sys.stderr.write("--data DIR is needed: the node stores the state and the logs of its pods in it\n")
        return 2
    try:
        asyncio.run(serve(args))
    except asyncio.CancelledError:
        return 0
    except PhalanxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
