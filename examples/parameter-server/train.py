"""Training with a parameter server, in plain Python: servers hold the weights in shards, workers hold the data.

`train.py server` keeps its part of the weights and applies the gradients that workers push, as they come. `train.py
worker` pulls all shards, computes the gradient on a batch of its own data and pushes each shard its part: asynchronous
stochastic gradient descent of a logistic regression (Li et al., "Scaling Distributed Machine Learning with the
Parameter Server", OSDI 2014). One JSON text a line over TCP.
"""

import json
import math
import os
import random
import socket
import sys
import threading
import time

FEATURES, STEPS, BATCH, RATE, PORT = 20, 400, 16, 0.2, 7070
PATIENCE_S = 300
RANK = int(os.environ["JOB_COMPLETION_INDEX"])
SERVERS, WORKERS = int(os.environ["SERVERS"]), int(os.environ["WORKERS"])
TRUE = [math.sin(1 + feature) * 3 for feature in range(FEATURES)]  # what made the data


# --- the servers ------------------------------------------------------------------------------------------------------


class Shard:
    """Every SERVERS-th weight, from RANK on."""

    def __init__(self) -> None:
        self.weights = [0.0] * len(range(RANK, FEATURES, SERVERS))
        self.pushes = self.done = 0
        self.changed = threading.Condition()

    def answer(self, asked: dict) -> dict:
        with self.changed:
            if asked["op"] == "push":
                self.weights = [w - RATE * g for w, g in zip(self.weights, asked["gradient"], strict=True)]
                self.pushes += 1
            elif asked["op"] == "done":
                self.done += 1
                self.changed.notify_all()
            elif asked["op"] == "result":
                self.changed.wait_for(lambda: self.done == WORKERS)
            return {"weights": self.weights, "pushes": self.pushes, "host": socket.gethostname()}


def serve() -> None:
    shard = Shard()
    listener = socket.create_server((os.environ["POD_IP"], PORT))
    threads = [threading.Thread(target=attend, args=(shard, listener.accept()[0])) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"server {RANK}: {shard.pushes} gradients applied", flush=True)


def attend(shard: Shard, connection: socket.socket) -> None:
    with connection, connection.makefile("rw") as line:
        for asked in line:
            line.write(json.dumps(shard.answer(json.loads(asked))) + "\n")
            line.flush()


# --- the workers ------------------------------------------------------------------------------------------------------


class Line:
    """To one server, by its name; it may be starting still."""

    def __init__(self, name: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._file = socket.create_connection((name, PORT)).makefile("rw")
                return
            except OSError as error:
                if time.monotonic() > deadline_s:
                    raise SystemExit(f"{name} never came: {error}") from None
                time.sleep(0.1)

    def ask(self, op: str, **more: object) -> dict:
        self._file.write(json.dumps({"op": op, **more}) + "\n")
        self._file.flush()
        return json.loads(self._file.readline())


def examples(seed: int, count: int) -> list[tuple[list[float], int]]:
    dice = random.Random(seed)
    rows = [[dice.gauss(0, 1) for _ in range(FEATURES)] for _ in range(count)]
    return [(row, dice.random() < probability(TRUE, row)) for row in rows]


def probability(weights: list[float], row: list[float]) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, sum(w * x for w, x in zip(weights, row, strict=True))))))


def joined(shards: list[list[float]]) -> list[float]:
    """All weights in their order."""
    return [shards[feature % SERVERS][feature // SERVERS] for feature in range(FEATURES)]


def work() -> None:
    lines = [Line(name) for name in os.environ["SERVER_NAMES"].split(",")]
    data, dice = examples(RANK, 2000), random.Random(RANK)
    for _ in range(STEPS):
        weights = joined([line.ask("pull")["weights"] for line in lines])
        gradient = [0.0] * FEATURES
        for row, label in dice.sample(data, BATCH):
            error = probability(weights, row) - label
            for feature in range(FEATURES):
                gradient[feature] += error * row[feature] / BATCH
        for number, line in enumerate(lines):
            line.ask("push", gradient=gradient[number::SERVERS])
    for line in lines:
        line.ask("done")
    if RANK == 0:
        report(lines)
    print(f"worker {RANK}: {STEPS} steps", flush=True)


def report(lines: list[Line]) -> None:
    """When all workers are done: how good the model is, on data that nobody trained on."""
    ends = [line.ask("result") for line in lines]
    weights = joined([end["weights"] for end in ends])
    unseen = examples(1_000_000, 4000)
    right, best = (
        sum((probability(by, row) > 0.5) == label for row, label in unseen) / len(unseen) for by in (weights, TRUE)
    )
    found = {"accuracy": right, "best": best, "pushes": [end["pushes"] for end in ends]}
    print("RESULT " + json.dumps({**found, "servers": [end["host"] for end in ends], "workers": WORKERS}), flush=True)


{"server": serve, "worker": work}[sys.argv[1]]()
