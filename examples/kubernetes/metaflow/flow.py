"""As a user of Metaflow writes it: parts of a sum, each a Job in a LocalQueue of Kueue's; then its shares, each a node
of a JobSet; and what comes of them."""

import os
import sys
from pathlib import Path
from typing import Any

from metaflow import FlowSpec, current, environment, kubernetes, parallel, step

QUEUE = {"kueue.x-k8s.io/queue-name": "team"}
# Pods of `image: host` have no Python of their own: this one, which has what Metaflow installs otherwise.
POD = {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "METAFLOW_SKIP_INSTALL_DEPENDENCIES": "True",
    "ROOM": os.environ["HOME"],
    **{key: os.environ[key] for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if key in os.environ},
}


class Sum(FlowSpec):
    @step
    def start(self) -> None:
        self.parts = [(0, 500), (500, 1000)]
        self.next(self.add, foreach="parts")

    @environment(vars=POD)
    @kubernetes(cpu=1, memory=256, disk=100, image="host", labels=QUEUE)
    @step
    def add(self) -> None:
        self.total = sum(range(*self.input))
        self.where = os.environ["METAFLOW_KUBERNETES_POD_NAME"]
        self.next(self.join)

    @step
    def join(self, inputs: Any) -> None:
        self.total = sum(each.total for each in inputs)
        self.pods = sorted(each.where for each in inputs)
        self.next(self.divide)

    @step
    def divide(self) -> None:
        self.next(self.share, num_parallel=2)

    @environment(vars=POD)
    @kubernetes(cpu=0.5, memory=256, disk=100, image="host", labels=QUEUE)
    @parallel
    @step
    def share(self) -> None:
        nodes = current.parallel
        self.part = sum(range(nodes.node_index, 1000, nodes.num_nodes))
        self.where = os.environ["METAFLOW_KUBERNETES_POD_NAME"]
        self.next(self.gather)

    @step
    def gather(self, inputs: Any) -> None:
        self.merge_artifacts(inputs, include=["total", "pods"])
        self.shares = sum(each.part for each in inputs)
        self.pods += sorted(each.where for each in inputs)
        self.next(self.end)

    @step
    def end(self) -> None:
        assert len(set(self.pods)) == 4, self.pods
        print(f"the parts come to {self.total}, the shares to {self.shares}")


if __name__ == "__main__":
    Sum()
