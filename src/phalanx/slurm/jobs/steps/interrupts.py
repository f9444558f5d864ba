"""The effect of signals to srun on its step, by the rules of Slurm (srun(1), "Signals").

- The first SIGINT only asks for another one within a second. The second SIGINT is sent to the tasks, then SIGCONT and
  SIGTERM, and SIGKILL after KillWait. The third SIGINT sends SIGKILL at once.
- SIGTERM, SIGHUP and SIGQUIT kill the tasks at once if srun runs outside the pods of its job: a terminal or a client
  has ended. Within a pod scancel and the time limit send them too, so the tasks get them, and SIGKILL after KillWait.
- Other signals are passed on. A SIGHUP that `nohup` told srun to ignore stays ignored.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_WITHIN_S = 1.0  # between two times Ctrl-C
_KILL_WAIT_S = 30.0
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
HANDLED = (signal.SIGINT, *_ENDING, *_PASSED_ON)

Send = Callable[[int], None]


class _Interrupts:
    """The state of the signal handlers of one step. `send`: sends a signal to all tasks."""

    def __init__(self, send: Send, kill_wait_s: float) -> None:
        self._send, self._kill_wait_s = send, kill_wait_s
        self._pressed_s = float("-inf")
        self._is_aborting = False
        self.over = threading.Event()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if self._is_aborting:
            self.force(number, frame)
        elif now_s - self._pressed_s > _WITHIN_S:
            self._pressed_s = now_s
            _say("interrupt (one more within 1 sec to abort)")
        else:
            self._is_aborting = True
            _say("sending Ctrl-C to StepId")
            self._send(signal.SIGINT)
            self._later(_WITHIN_S, signal.SIGCONT, signal.SIGTERM)
            self._later(_WITHIN_S + self._kill_wait_s, signal.SIGKILL)

    def force(self, number: int, frame: FrameType | None) -> None:
        _say("forcing job termination")
        self._send(signal.SIGKILL)

    def end(self, number: int, frame: FrameType | None) -> None:
        self._send(number)
        self._later(self._kill_wait_s, signal.SIGKILL)

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        self._send(number)

    def _later(self, after_s: float, *numbers: int) -> None:
        """Send these signals after `after_s` seconds, unless the step has ended by then."""

        def wait() -> None:
            if not self.over.wait(after_s):
                for number in numbers:
                    self._send(number)

        threading.Thread(target=wait, daemon=True).start()


@contextmanager
def interruptible(send: Send, kill_wait_s: float = _KILL_WAIT_S) -> Iterator[None]:
    """Handle srun's signals by these rules as long as its step runs."""
    rules = _Interrupts(send, kill_wait_s)
    is_inside = "SLURMD_NODENAME" in os.environ
    handlers = {signal.SIGINT: rules.interrupt}
    handlers |= dict.fromkeys(_ENDING, rules.end if is_inside else rules.force)
    handlers |= dict.fromkeys(_PASSED_ON, rules.pass_on)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        del handlers[signal.SIGHUP]
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        rules.over.set()
        for number, before in previous.items():
            signal.signal(number, before)


def _say(text: str) -> None:
    """Write straight to standard error: a handler may interrupt a buffered write. The terminal may be gone."""
    try:
        os.write(sys.stderr.fileno(), f"srun: {text}\n".encode())
    except OSError:
        return
