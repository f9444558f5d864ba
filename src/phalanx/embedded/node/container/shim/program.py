"""The steps between the supervisor's fork and the exec of the program. They run in the new process. The same steps run
for commands that `kubectl exec` and probes start in a running container."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
from contextlib import suppress
from functools import partial
from typing import NoReturn

from phalanx.embedded.node.container.shim.namespaces import PASSED_ON, fork_below_init, has_own_processes, isolate
from phalanx.embedded.node.container.shim.privileges import (
    become_user,
    give_up_new_rights,
    hide_from_program,
    home,
)
from phalanx.embedded.node.container.shim.record import ShimSpec
from phalanx.embedded.node.container.shim.root import make_working_directory
from phalanx.embedded.node.container.shim.syscalls import (
    PR_SET_PDEATHSIG,
    SyscallRefused,
    call,
    libc,
    step,
    write_text,
)

_NAMESPACES = ("user", "mnt", "uts", "ipc", "pid")
_CANNOT_RUN, _NOT_FOUND = 126, 127  # the exit codes of a shell if a command cannot be run or is not found


def become(spec: ShimSpec, shim: int, streams: tuple[int, int, int], ended: int) -> NoReturn:
    """Replace this process by the program of the container. `streams`: the descriptors of its input and outputs. Raises
    SyscallRefused."""
    # The agent may ignore signals, for example SIGHUP under nohup(1). A shell cannot trap a signal that it inherits as
    # ignored.
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, *PASSED_ON):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    os.umask(0o022)
    for path in spec["cgroup_procs"]:
        step(f"joining the cgroup {path}", partial(write_text, path, "0"))
    _take_oom_score(spec)
    isolate(spec)
    if has_own_processes(spec):
        fork_below_init(ended)
        os.setsid()
    for place, handle in enumerate(streams):
        os.dup2(handle, place)
    if spec.get("tty"):
        _take_terminal(spec)
    if spec.get("root") is not None:  # create the working directory, as OCI runtimes do (config.md, "cwd")
        make_working_directory(spec)
    become_user(spec)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # set after the change of user, because that change would clear it
    if not has_own_processes(spec) and os.getppid() != shim:
        os._exit(1)
    _enter_working_directory(spec)
    _execute(spec, spec["argv"])


def _take_oom_score(spec: ShimSpec) -> None:
    with suppress(OSError):  # only root may lower the score
        write_text("/proc/self/oom_score_adj", str(spec.get("oom_score", 0)))


def _take_terminal(spec: ShimSpec) -> None:
    """Give the terminal to the program and its user. Raises SyscallRefused."""
    step("taking the terminal", partial(fcntl.ioctl, 0, termios.TIOCSCTTY, 0))
    if (user := spec.get("user")) is not None:
        with suppress(OSError):  # not allowed in a user namespace
            os.fchown(0, user, -1)


def _enter_working_directory(spec: ShimSpec) -> None:
    step(f"entering the working directory {spec['cwd']}", lambda: os.chdir(spec["cwd"]))


def _execute(spec: ShimSpec, argv: list[str]) -> NoReturn:
    """Replace this process by the program. Raises SyscallRefused."""
    if spec.get("confined") or spec.get("no_new_rights"):
        give_up_new_rights()
    env = dict(spec["env"])
    if spec.get("root") is not None:
        env.setdefault("HOME", home())
    try:
        os.execvpe(argv[0], argv, env)  # noqa: S606 - a shell is what this must not be
    except OSError as error:
        known = "/" in argv[0] or any(os.path.isfile(f"{place}/{argv[0]}") for place in os.get_exec_path(env))
        why = error.strerror if known else "executable file not found in $PATH"
        raise SyscallRefused(f'exec: "{argv[0]}": {why}') from None


def enter(spec: ShimSpec) -> NoReturn:
    """Enter the namespaces of a container that belongs to another user or has its own root, and run a command there."""
    try:
        _take_oom_score(spec)
        _join(spec["pid"], user_namespace=bool(spec.get("user_namespace")))
        become_user(spec)
        _enter_working_directory(spec)
        if (capabilities := spec.get("capabilities")) is not None:
            hide_from_program(capabilities)
        if program := os.fork():  # fork, because only child processes enter the PID namespace
            _end_as(program)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _execute(spec, spec["argv"])
    except BaseException as error:  # Python's own error handling could import modules from the container as root
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(_NOT_FOUND if "not found" in str(error) else _CANNOT_RUN)


def _join(pid: int, *, user_namespace: bool) -> None:
    names = _NAMESPACES if user_namespace else _NAMESPACES[1:]
    handles = {name: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names}
    for name, handle in handles.items():
        call(f"entering the container ({name})", libc.setns(handle, 0))


def _end_as(program: int) -> NoReturn:
    """Wait for the program, and forward signals to it. Then exit with its exit code or, if a signal ended the program,
    with 128 plus the signal number."""
    for number in PASSED_ON:
        signal.signal(number, partial(_pass_on, program))
    _, status = os.waitpid(program, 0)
    by_signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    os._exit(128 + by_signal if by_signal else os.WEXITSTATUS(status))


def _pass_on(program: int, number: int, _: object) -> None:
    with suppress(ProcessLookupError):
        os.kill(program, number)
