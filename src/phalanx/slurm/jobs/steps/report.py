"""srun's messages about failed tasks. Tasks of one node that end in the same way within a moment share one line."""

from __future__ import annotations

import signal
import sys
import threading

from phalanx.slurm.jobs.steps.records import OUT_OF_MEMORY
from phalanx.slurm.notation.arrays import shown

_TOGETHER_S = 0.03


class Report:
    """`ended` may be called by several threads."""

    def __init__(self, step: str, *, kill_on_bad_exit: bool = False) -> None:
        """`step`: the name of the step, `12.0`."""
        self._lock, self._kill, self._step = threading.Lock(), kill_on_bad_exit, step
        self._waiting: dict[tuple[str, int], list[int]] = {}
        self._timer: threading.Timer | None = None

    def ended(self, node: str, task: int, code: int) -> bool:
        """Note the end of a task, to report a failure soon. Return True if the other tasks must be ended."""
        if not code:
            return False
        with self._lock:
            first = not self._waiting
            self._waiting.setdefault((node, code), []).append(task)
            if first:
                self._timer = threading.Timer(_TOGETHER_S, self.finish)
                self._timer.daemon = True
                self._timer.start()
        kill, self._kill = self._kill, False
        return kill

    def finish(self) -> None:
        """Print the messages that are still collected."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            for (node, code), tasks in waiting.items():
                what = f"Exited with exit code {code}" if code > 0 else _signal(-code)
                who = f"task {tasks[0]}" if len(tasks) == 1 else f"tasks {shown(tasks).strip('[]')}"
                sys.stderr.write(f"srun: error: {node}: {who}: {what}\n")
                if code < 0 and self._step:  # said once
                    sys.stderr.write(f"srun: Force Terminated StepId={self._step}\n")
                    self._step = ""
            sys.stderr.flush()


def _signal(number: int) -> str | None:
    return "Out Of Memory" if number == OUT_OF_MEMORY else signal.strsignal(number)


def highest(codes: dict[int, int]) -> tuple[int, int]:
    """Return (exit code, signal) of the task with the highest code, where a signal counts as 128 plus its number."""
    worst = max(codes.values(), key=lambda code: code if code >= 0 else 128 - code, default=0)
    return (worst, 0) if worst >= 0 else (0, -worst)
