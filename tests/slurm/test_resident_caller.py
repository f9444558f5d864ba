"""The service of Slurm's commands. A call through the service has the same result as a process of its own, and never
runs as another user.

The service of these tests runs `report` in place of a command. It prints everything that a command can see of its
process.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import pty
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from phalanx.slurm.commands.resident import caller
from phalanx.slurm.commands.resident.call import MAX_BYTES
from phalanx.slurm.commands.resident.compiled import compile_caller

pytestmark = pytest.mark.slow

COMMAND = """
import grp, json, os, pwd, resource, signal, sys, time

def state():
    names = ("Uid", "Gid", "Groups", "CapEff", "SigBlk", "NoNewPrivs")
    lines = [line.split() for line in open("/proc/self/status")]
    status = [words for words in lines if words[0].startswith(names)]
    real = next(int(words[1]) for words in lines if words[0] == "PPid:")
    limits = {name: resource.getrlimit(getattr(resource, name)) for name in ("RLIMIT_NOFILE", "RLIMIT_FSIZE")}
    handles = sorted(os.listdir("/proc/self/fd"))[:-1]
    return dict(
        real=real, words=sys.argv[1:], around=dict(os.environ), cwd=os.getcwd(), status=status, limits=limits,
        handles=handles,
        umask=os.umask(0), parent=os.getppid(), nice=os.nice(0), zone=time.tzname, executable=sys.executable,
        handlers=[str(signal.getsignal(number)) for number in range(1, 32)],
        tty=[os.isatty(0), os.isatty(1), os.isatty(2)], size=list(os.get_terminal_size(0)) if os.isatty(0) else [],
        streams=[[s.encoding, s.errors, s.line_buffering] for s in (sys.stdin, sys.stdout, sys.stderr) if s],
    )

def report(name):
    first, *rest = sys.argv[1:] or ["state"]
    if first == "state":
        print(json.dumps(state()))
    elif first == "copy":
        sys.stdout.write(sys.stdin.read())
        sys.stderr.write(chr(0xe4) + "rr")
        return int(rest[0])
    elif first == "wait":
        try:
            print(os.getpid(), flush=True)
            while True:
                signal.pause()
        except KeyboardInterrupt:
            print("interrupted")
            return 130
    elif first == "raise":
        raise RuntimeError("a defect")
    return 0
"""
SERVICE = "from pathlib import Path\nfrom command import report\nfrom phalanx.slurm.commands.resident import service\n"
SERVE = "service.serve(Path(sys.argv[1]), (), ('squeue',), report, lambda: print('ready', flush=True))"
CALL = f"""#!{sys.executable} -IS
import sys
sys.path.insert(0, {str(Path(caller.__file__).parent)!r})
from caller import call
import posix
if b"BECOME" in posix.environ:  # after the imports: the interpreter may lie in a home that other users cannot read
    import site
    site.main()
    sys.path.insert(1, "FOLDER")
    import ctypes, os, pwd, command
    user, group, groups = os.environ.pop("BECOME").split(":")
    os.setgroups(list(map(int, groups.split())))
    os.setresgid(*[int(group)] * 3)
    os.setresuid(*[int(user)] * 3)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as after execve(2)
    if "SANDBOX" in os.environ:
        ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
call("squeue")
sys.path[0] = "FOLDER"
import site
site.main()
from command import os, report
status = report("squeue")
sys.stdout.flush()
sys.stderr.flush()
os._exit(status)
"""
OTHER = "65501:65501:"
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may become another user")


class Machine:
    """A service, and a program that calls it. `is_compiled`: the program's caller is `caller.c`."""

    def __init__(self, folder: Path, *, is_compiled: bool = False) -> None:
        self.folder, self.socket, self.program = folder, folder / "slurm-commands.sock", folder / "squeue"
        self.is_compiled = is_compiled
        (folder / "command.py").write_text(COMMAND)
        program = CALL.replace("FOLDER", str(folder))
        if is_compiled:
            compiled = compile_caller(folder)
            assert compiled is not None
            program = f"#!{compiled} squeue\n{program.partition(chr(10))[2]}"
        self.program.write_text(program)
        self.program.chmod(0o755)
        self.around = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PHALANX_SLURM_SOCKET": str(self.socket)}
        self.service: subprocess.Popen[str] | None = None

    def start(self, before: str = "") -> None:
        code = f"import sys\nsys.path.insert(0, {str(self.folder)!r})\n{SERVICE}{before}\n{SERVE}"
        words = [sys.executable, "-I", "-c", code, str(self.socket)]
        self.service = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self.service.stdout is not None
        assert self.service.stdout.readline() == "ready\n"

    def stop(self) -> None:
        if self.service is not None:
            self.service.terminate()
            self.service.communicate(timeout=60)
            self.service = None

    def call(self, *words: str, served: bool = True, **how: Any) -> subprocess.CompletedProcess[bytes]:
        """Call the command. `served`: False runs it in its own process, as without a service."""
        around = {**self.around, **how.pop("around", {})}
        around = around if served else {**around, "PHALANX_SLURM_SOCKET": ""}
        how = {"env": around, "capture_output": True, "timeout": 60, "check": False, **how}
        if self.is_compiled and "BECOME" in around:
            pytest.skip("the program becomes another user in Python, after the compiled caller")
        return subprocess.run([str(self.program), *words], **how)

    def states(self, *words: str, **how: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the command's view of its process in the service, and without the service."""
        served, alone = (json.loads(self.call("state", *words, served=one, **how).stdout) for one in (True, False))
        assert self.service is not None
        assert served.pop("real") == self.service.pid
        assert alone.pop("real") == os.getpid()
        for one in (served, alone):
            del one["around"]["PHALANX_SLURM_SOCKET"]
        return served, alone

    def is_served(self, **how: Any) -> bool:
        assert self.service is not None
        return bool(json.loads(self.call("state", **how).stdout)["real"] == self.service.pid)

    def begin(self, **how: Any) -> tuple[subprocess.Popen[str], int]:
        """Start a command that waits. Return its caller and the id of the process that runs it."""
        words = [str(self.program), "wait"]
        process = subprocess.Popen(
            words, env=self.around, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how
        )
        assert process.stdout is not None
        return process, int(process.stdout.readline())


@contextmanager
def reachable() -> Iterator[Path]:
    """Yield a folder that other users can reach. They cannot reach the folders of pytest, because each new pytest
    process closes these folders to other users."""
    with TemporaryDirectory(prefix="phalanx-resident-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def machine_in(folder: Path, kind: str) -> Iterator[Machine]:
    if kind == "compiled" and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("needs a C compiler")
    machine = Machine(folder, is_compiled=kind == "compiled")
    try:
        yield machine
    finally:
        machine.stop()


KINDS = ("python", "compiled")


@pytest.fixture(scope="module", params=KINDS)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    with reachable() as folder, machine_in(folder, request.param) as machine:
        machine.start()
        yield machine


@pytest.fixture(params=KINDS)
def own(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A machine whose service the test starts itself."""
    with reachable() as folder, machine_in(folder, request.param) as machine:
        yield machine


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)  # other processes send no signal when they have stopped


def state_of(pid: int) -> str:
    """Return the letter of a process (proc(5)); empty: there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_a_call_sees_the_process_that_its_caller_would_see(machine: Machine, tmp_path: Path) -> None:
    def before() -> None:
        os.umask(0o027)
        os.nice(3)
        resource.setrlimit(resource.RLIMIT_NOFILE, (77, 99))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 21))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup(1) does
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    odd = {"TZ": "Asia/Tokyo", "EMPTY": "", "LINES": "a\nb=c", "BYTES": "\udcff\u00e4"}
    served, alone = machine.states("", "-x", "a b\n", "\udcff\u00e4", cwd=tmp_path, around=odd, preexec_fn=before)
    assert served == alone
    nicer = min(os.nice(0) + 3, 19)
    assert (served["umask"], served["nice"], served["limits"]["RLIMIT_NOFILE"]) == (0o027, nicer, [77, 99])
    assert (served["cwd"], served["words"][1:]) == (str(tmp_path), ["", "-x", "a b\n", "\udcff\u00e4"])
    assert (served["parent"], served["zone"][0], served["handles"]) == (os.getpid(), "JST", ["0", "1", "2"])
    assert served["handlers"][signal.SIGHUP - 1] == str(signal.SIG_IGN)


def test_a_call_sees_the_terminal_of_its_caller(machine: Machine) -> None:
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
    served, alone = machine.states(stdin=its)
    os.close(ours)
    os.close(its)
    assert served == alone
    assert (served["tty"], served["size"]) == ([True, False, False], [111, 33])


@pytest.mark.parametrize("language", ["C", "C.UTF-8", "POSIX", "no_SUCH.UTF-8", "en_US.UTF-8"])
@pytest.mark.parametrize("name", ["LANG", "LC_ALL", "LC_CTYPE"])
def test_a_call_has_the_locale_of_its_caller(machine: Machine, language: str, name: str) -> None:
    del machine.around["LANG"]
    try:
        served, alone = machine.states(around={name: language})
    finally:
        machine.around["LANG"] = "C.UTF-8"
    assert (served["streams"], served["around"]) == (alone["streams"], alone["around"])


@pytest.mark.parametrize("language", ["C", "C.UTF-8"])
def test_output_and_exit_code_are_the_same_to_the_byte(machine: Machine, language: str) -> None:
    text, around = b"one\n\xff\xc3\xa4 two", {"LANG": language, "LC_ALL": language}
    for words in (["copy", "0"], ["copy", "117"], ["raise"]):
        served, alone = (machine.call(*words, served=one, input=text, around=around) for one in (True, False))
        assert (served.returncode, served.stdout) == (alone.returncode, alone.stdout)
        assert served.stderr.splitlines()[-1:] == alone.stderr.splitlines()[-1:]
    assert served.stderr.endswith(b"RuntimeError: a defect\n")


@pytest.mark.parametrize(
    "how",
    [
        {"around": {"LC_ALL": "POSIX", "PYTHONUTF8": "0"}, "words": ("/dev/fd/9",)},
        {"words": ("/proc/self/fd/0",)},
        {"around": {"KUBECONFIG": "/dev/fd/5"}},
        {"preexec_fn": lambda: os.close(0)},
    ],
    ids=["descriptor", "proc", "kubeconfig", "closed"],
)
def test_a_call_that_only_its_own_process_can_carry_out_is_not_passed_on(machine: Machine, how: dict[str, Any]) -> None:
    rest = {name: value for name, value in how.items() if name != "words"}
    assert json.loads(machine.call("state", *how.get("words", ()), **rest).stdout)["real"] == os.getpid()


def test_ctrl_c_reaches_the_command(machine: Machine) -> None:
    process, _ = machine.begin()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("interrupted\n", "")
    assert process.returncode == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT], ids=lambda number: number.name)
def test_a_signal_ends_the_command_and_its_caller(machine: Machine, number: signal.Signals) -> None:
    process, pid = machine.begin()
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    until(lambda: not state_of(pid))


def test_an_ignored_signal_ends_nothing(machine: Machine) -> None:
    process, pid = machine.begin(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None)
    process.send_signal(signal.SIGHUP)
    os.kill(pid, signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupted\n"


def test_ctrl_z_stops_the_command_and_fg_continues_it(machine: Machine) -> None:
    process, pid = machine.begin()
    process.send_signal(signal.SIGTSTP)
    until(lambda: (state_of(pid), state_of(process.pid)) == ("T", "T"))
    process.send_signal(signal.SIGCONT)
    until(lambda: state_of(pid) == "S")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


def test_the_command_ends_if_its_caller_is_killed(machine: Machine) -> None:
    process, pid = machine.begin()
    assert state_of(pid)
    process.kill()
    process.communicate(timeout=60)
    until(lambda: not state_of(pid))
    assert (process.returncode, state_of(pid)) == (-signal.SIGKILL, "")


def test_a_command_whose_service_is_killed_reports_it(own: Machine) -> None:
    own.start()
    process, pid = own.begin()
    assert own.service is not None
    own.service.kill()
    assert process.wait(timeout=60) == 1
    os.kill(pid, signal.SIGKILL)
    assert "the service that runs Slurm's commands ended" in process.communicate(timeout=60)[1]
    own.stop()
    # the socket still exists, and no process listens on it
    assert json.loads(own.call("state").stdout)["real"] == os.getpid()


def test_a_service_that_stops_lets_its_calls_end(own: Machine) -> None:
    own.start()
    process, _ = own.begin()
    assert own.service is not None
    own.service.terminate()
    until(lambda: not own.socket.exists() or not _listens(own.socket))
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupted\n"
    assert process.returncode == 130
    own.stop()
    assert not own.socket.exists()


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(str(path)) == 0


def test_one_user_has_a_limited_number_of_calls(own: Machine) -> None:
    own.start("service._CALLS_OF_A_USER = 1")
    process, pid = own.begin()
    assert not own.is_served()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    until(lambda: not state_of(pid))
    until(own.is_served)


def test_a_compiled_caller_of_an_older_phalanx_leaves_the_call_to_python(
    own: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller, "identity", lambda _: b"an older one")
    if own.is_compiled:
        compile_caller(own.folder)
    own.start()
    assert own.is_served()


def test_two_services_do_not_take_one_socket(machine: Machine) -> None:
    code = f"import sys\nsys.path.insert(0, {str(machine.folder)!r})\n{SERVICE}{SERVE}"
    words = [sys.executable, "-I", "-c", code, str(machine.socket)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert "another service listens at it" in done.stderr
    assert machine.is_served()


# --- attacks ----------------------------------------------------------------------------------------------------------


def request(machine: Machine, *, identity: bytes | None = None, name: str = "squeue") -> bytes:
    own = caller.identity(str(caller.__file__)) if identity is None else identity
    body = b"\0".join([own, name.encode(), b"/x", b"strict", b"18", b"1", b"", b"", b"1", b"state", b"A=b"])
    return len(body).to_bytes(4, "big") + body


def answer(machine: Machine, data: bytes, handles: int = 4) -> bytes:
    """Send a request by hand and return the first bytes of the answer; empty: the service declined."""
    with socket.socket(socket.AF_UNIX) as connection, open(os.devnull) as file:
        connection.settimeout(60)
        connection.connect(str(machine.socket))
        folder = os.open("/", os.O_RDONLY)
        rights = array.array("i", [*[file.fileno()] * (handles - 1), folder][:handles])
        connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if handles else [])
        os.close(folder)
        try:
            found = connection.recv(5)
        except ConnectionResetError:
            found = b""
        return b"" if found[:1] == caller.STATUS else found


def test_a_request_that_is_wrong_runs_nothing(machine: Machine) -> None:
    good = request(machine)
    assert answer(machine, good)[:1] == caller.PID
    assert answer(machine, good, handles=3) == b""
    assert answer(machine, good, handles=0) == b""
    assert answer(machine, good, handles=5) == b""
    assert answer(machine, (MAX_BYTES + 1).to_bytes(4, "big") + b"x") == b""
    assert answer(machine, b"\0\0\0\5a\0b\0c") == b""
    assert answer(machine, request(machine, identity=b"of another Phalanx")) == b""
    assert answer(machine, request(machine, name="srun")) == b""
    assert machine.is_served()


@ROOT
def test_a_call_runs_as_its_caller_with_its_groups(machine: Machine) -> None:
    served, alone = machine.states(around={"BECOME": "65501:65502:65503 65502"})
    assert served == alone
    assert ["Uid:", *["65501"] * 4] in served["status"]
    assert ["Gid:", *["65502"] * 4] in served["status"]
    assert ["Groups:", "65502", "65503"] in served["status"]


@ROOT
def test_a_caller_in_a_directory_that_it_may_not_enter_runs_the_command_itself(
    machine: Machine, tmp_path: Path
) -> None:
    (private := tmp_path / "private").mkdir(mode=0o700)
    assert not machine.is_served(around={"BECOME": OTHER}, cwd=private)
    assert machine.is_served(around={"BECOME": OTHER}, cwd="/")


@ROOT
def test_a_process_with_fewer_rights_is_not_served(machine: Machine) -> None:
    """A sandbox that has lost rights (PR_SET_NO_NEW_PRIVS, capabilities) regains none through the service."""
    assert machine.is_served(around={"BECOME": OTHER})
    assert not machine.is_served(around={"BECOME": OTHER, "SANDBOX": "1"})

    def without_capabilities() -> None:  # root keeps them over execve(2) unless they are removed from the bounding set
        for number in range(40):
            ctypes.CDLL(None).prctl(24, number, 0, 0, 0)  # PR_CAPBSET_DROP

    assert not machine.is_served(preexec_fn=without_capabilities)


@ROOT
@pytest.mark.parametrize("kind", ["--mount", "--net", "--uts", "--pid"])
def test_a_process_in_another_namespace_is_not_served(machine: Machine, kind: str) -> None:
    words = ["unshare", kind, "--fork", str(machine.program), "state"]
    done = subprocess.run(words, env=machine.around, capture_output=True, check=True, timeout=60)
    assert machine.service is not None
    assert json.loads(done.stdout)["real"] != machine.service.pid


@ROOT
def test_a_service_of_one_user_serves_no_other(own: Machine) -> None:
    os.chown(own.folder, 65501, 65501)
    become = "import os; os.setgroups([]); os.setresgid(*[65501] * 3); os.setresuid(*[65501] * 3)"
    own.start(f"service._warm_up(()); {become}; service._warm_up = lambda _: None")
    assert own.is_served(around={"BECOME": OTHER})
    assert not own.is_served()  # root's caller trusts no socket of a user
    own.socket.chmod(0o666)
    assert not own.is_served(around={"BECOME": "65504:65504:"})


@ROOT
def test_root_sends_nothing_to_a_socket_of_a_user(own: Machine) -> None:
    """The environment of a caller has its secrets."""
    code = "import os, socket, sys; s = socket.socket(socket.AF_UNIX); os.setuid(65501)\n"
    own.folder.chmod(0o777)
    code += "s.bind(sys.argv[1]); s.listen(); print(1, flush=True); c, _ = s.accept(); print(c.recv(100))"
    words = [sys.executable, "-I", "-c", code, str(own.folder / "trap")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as trap:
        assert trap.stdout is not None
        trap.stdout.readline()
        own.around["PHALANX_SLURM_SOCKET"] = words[-1]
        assert json.loads(own.call("state").stdout)["real"] == os.getpid()
        assert trap.communicate(timeout=60)[0] == "b''\n"
