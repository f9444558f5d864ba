"""The first part of the installed commands (`squeue`, `sbatch` and others): pass the call to the service on this
machine. The service has already imported all commands.

`call` returns if no service accepts the call; the installed program then runs the command itself. After the caller has
sent GO, only the service runs the command, so no job is submitted twice.

The installed program imports this file without its package, and runs Python without the module `site`. This file
imports only modules that are written in C, because the import of `socket`, `signal` or `os` would take longer than all
other work of the caller.

`caller.c` is the same program in C. `compiled` compiles it at the installation of the commands if there is a compiler.
Every change of this file needs the same change of `caller.c`; the tests run both.

The protocol is as follows (`resident.call` implements the side of the service). The caller sends the length of the
request and the request, with four file descriptors at the first byte. The service answers PID and a process id, or
closes the connection. The caller sends GO. When the command has ended, the service sends STATUS and a wait status.
"""

from __future__ import annotations

import _socket
import posix
import sys

TYPE_CHECKING = False  # the import of the module typing would take longer than this whole file
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn
else:
    import _signal

SHARED = b"/run/phalanx/slurm-commands.sock"  # the socket of the service that serves all users of a machine
PID, GO, STATUS = b"p", b"g", b"s"
SEPARATOR = b"\0"
LOST = b"the service that runs Slurm's commands ended before this command had\n"
_ANSWER_S = 2.0  # how long the caller waits for an answer; afterwards the caller closes the connection
_NUMBER_BYTES = 4
_PASSED_ON = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGUSR1, _signal.SIGUSR2)
# Paths that name a different file in each process. The service would open another file than the caller.
_OWN_PATHS = ("/dev/fd/", "/dev/tty", "/proc/")


def call(name: str) -> None:
    """Run the command `name` in the service, and end this process with the exit status of the command. Return if no
    service accepts the call."""
    if not _may_be_passed_on():
        return
    for path in _paths():
        connection = _connected(path)
        if connection is None:
            continue
        try:
            connection.settimeout(_ANSWER_S)
            _send(connection, name)
            handle = _accepted(connection)
        except OSError:
            handle = -1
        if handle >= 0:
            _attend(connection, handle)
        connection.close()


def identity(path: str) -> bytes:
    """Return a text that identifies this installation of Phalanx: every installation has another text, and an upgrade
    changes the text. `path`: the path of this file."""
    seen = posix.stat(path)
    return f"{seen.st_dev}:{seen.st_ino}:{seen.st_mtime_ns}:{sys.version}".encode()


def _may_be_passed_on() -> bool:
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if any(stream is None or stream.encoding != "utf-8" for stream in streams):  # the stream is closed or not UTF-8
        return False
    if sys.getfilesystemencoding() != "utf-8":
        return False
    named = [*sys.argv[1:], posix.environ.get(b"KUBECONFIG", b"").decode(errors="replace")]
    return not any(own in text for text in named for own in _OWN_PATHS)


def _paths() -> list[bytes]:
    """Return the paths of the sockets to try, in this order: the socket in the folder of the kubeconfig, where `phalanx
    up` creates it, and the socket of the machine's service. If $PHALANX_SLURM_SOCKET is set, return only its path."""
    around = posix.environ
    if (said := around.get(b"PHALANX_SLURM_SOCKET")) is not None:
        return [said] if said else []
    kubeconfig = around.get(b"KUBECONFIG", b"").partition(b":")[0]
    data_home = around.get(b"XDG_DATA_HOME", b"")
    if kubeconfig:
        folder = kubeconfig.rpartition(b"/")[0] or b"."
    else:
        folder = data_home + b"/phalanx" if data_home[:1] == b"/" else around.get(b"HOME", b"") + b"/.phalanx"
    return [folder + b"/slurm-commands.sock", SHARED]


def _connected(path: bytes) -> _socket.socket | None:
    """Return a connection to the service at the socket `path`. Return None if no process listens at the socket, or if
    the listening process belongs neither to root nor to this user."""
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    except OSError:
        return None
    try:
        connection.setblocking(False)  # so that connect fails at once if the queue of the service is full
        connection.connect(path)
        seen = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if int.from_bytes(seen[4:8], sys.byteorder) in (0, posix.geteuid()):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _send(connection: _socket.socket, name: str) -> None:
    """Send the request (`CommandRequest` in `resident.call`). Raises OSError."""
    mask = posix.umask(0o077)
    posix.umask(mask)
    ignored = [number for number in range(1, 32) if _signal.getsignal(number) == _signal.SIG_IGN]
    blocked = list(_signal.pthread_sigmask(_signal.SIG_BLOCK, ()))
    about = [identity(__file__).decode(), name, sys.executable, sys.stdout.errors or "", str(mask)]
    about += [str(posix.getppid()), _listed(ignored), _listed(blocked), str(len(sys.argv) - 1), *sys.argv[1:]]
    fields = [text.encode("utf-8", "surrogateescape") for text in about]
    fields += [b"%b=%b" % pair for pair in posix.environ.items()]
    body = SEPARATOR.join(fields)
    here = posix.open(".", posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC)
    try:
        handles = b"".join(handle.to_bytes(4, sys.byteorder) for handle in (0, 1, 2, here))
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, handles)]
        sent = connection.sendmsg([len(body).to_bytes(_NUMBER_BYTES, "big"), body], rights)
        if sent < _NUMBER_BYTES + len(body):
            connection.sendall((len(body).to_bytes(_NUMBER_BYTES, "big") + body)[sent:])
    finally:
        posix.close(here)


def _listed(numbers: list[int]) -> str:
    return " ".join(str(int(number)) for number in numbers)


def _accepted(connection: _socket.socket) -> int:
    """Return a file descriptor (pidfd_open(2)) that refers to the process which will run the command; -1 if the service
    does not accept the call. Raises OSError."""
    pid = _received(connection, PID)
    return -1 if pid is None else posix.pidfd_open(pid)


def _received(connection: _socket.socket, kind: bytes) -> int | None:
    """Return the number in the next message. Return None if the message is not of the kind `kind`, or if the service
    has closed the connection. Raises OSError."""
    found = b""
    while len(found) < 1 + _NUMBER_BYTES:
        part = connection.recv(1 + _NUMBER_BYTES - len(found))
        if not part:
            return None
        found += part
    return int.from_bytes(found[1:], "big") if found[:1] == kind else None


def _attend(connection: _socket.socket, handle: int) -> NoReturn:
    """Start the command by sending GO, forward signals to it until it ends, and end this process with its exit status.
    `handle`: a file descriptor that refers to the process of the command."""

    def pass_on(number: int, _: object) -> None:
        try:  # noqa: SIM105 - the import of contextlib would take longer than this whole file
            _signal.pidfd_send_signal(handle, number)
        except OSError:  # the command has just ended
            pass

    def pause(number: int, _: object) -> None:
        """Handle Ctrl-Z: stop the command, then stop this process. When this process is continued, continue the
        command."""
        pass_on(_signal.SIGSTOP, None)
        posix.kill(posix.getpid(), _signal.SIGSTOP)
        pass_on(_signal.SIGCONT, None)

    for kind in (*_PASSED_ON, _signal.SIGTSTP):
        if _signal.getsignal(kind) != _signal.SIG_IGN:
            _signal.signal(kind, pause if kind == _signal.SIGTSTP else pass_on)
    try:
        connection.settimeout(None)
        connection.sendall(GO)
        status = _received(connection, STATUS)
    except OSError:
        status = None
    if status is None:
        posix.write(2, LOST)
        posix._exit(1)
    if not posix.WIFSIGNALED(status):
        posix._exit(posix.WEXITSTATUS(status))
    number: int = posix.WTERMSIG(status)
    if number != _signal.SIGKILL:
        _signal.signal(number, _signal.SIG_DFL)
    posix.kill(posix.getpid(), number)
    posix._exit(128 + number)  # reached if the signal is blocked
