"""Device files that the processes of a group may not open.

Under version 1 the devices controller keeps a list. Version 2 has no such file: the kernel asks a program of type
BPF_PROG_TYPE_CGROUP_DEVICE that is attached to the group, each time a process in it or below opens a device file or
makes one (bpf(2), include/uapi/linux/bpf.h). Ours compares kind, major and minor number with those that are withheld.
It goes with the group. Programs of groups above, such as systemd's DeviceAllow, hold as well: all must allow.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_PROG_TYPE_CGROUP_DEVICE, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI = 15, 6, 2
_BLOCK, _CHARACTER = 1, 2  # BPF_DEVCG_DEV_BLOCK, BPF_DEVCG_DEV_CHAR
_LOAD_WORD, _AND, _JUMP_UNLESS_EQUAL, _SET, _EXIT = 0x61, 0x57, 0x55, 0xB7, 0x95
_ANSWER, _CONTEXT, _KIND, _MAJOR, _MINOR = 0, 1, 2, 3, 4  # registers


class DeviceNumber(NamedTuple):
    """The numbers by which the kernel identifies a device. `kind`: `_BLOCK` or `_CHARACTER`."""

    kind: int
    major: int
    minor: int


def withhold(place: Path, version: int, files: Iterable[str]) -> None:
    """Deny the processes of the group at `place` access to device files. The group must not contain a process yet.
    Paths that are no device files are ignored. Raises OSError."""
    devices = sorted({device for path in files if (device := _device(path)) is not None})
    if version == 1:
        for one in devices:
            kind = "b" if one.kind == _BLOCK else "c"
            (place / "devices.deny").write_text(f"{kind} {one.major}:{one.minor} rwm")
    elif devices:
        _attach(place, _program(devices))


def try_program(place: Path) -> None:
    """Attach a program that denies no device to the version 2 group at `place`, as a test. Raises OSError if this
    process may not, or if the kernel does not support it."""
    _attach(place, _program(()))


def _device(path: str) -> DeviceNumber | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    kind = {stat.S_IFCHR: _CHARACTER, stat.S_IFBLK: _BLOCK}.get(stat.S_IFMT(status.st_mode))
    return None if kind is None else DeviceNumber(kind, os.major(status.st_rdev), os.minor(status.st_rdev))


def _program(devices: Iterable[DeviceNumber]) -> bytes:
    """Return the instructions: 0 (no) for these devices, 1 for all others. The context has three words: kind in its
    lower half and the access asked in its upper one, major, minor."""
    code = [
        _instruction(_LOAD_WORD, _KIND, _CONTEXT, 0),
        _instruction(_AND, _KIND, value=0xFFFF),
        _instruction(_LOAD_WORD, _MAJOR, _CONTEXT, 4),
        _instruction(_LOAD_WORD, _MINOR, _CONTEXT, 8),
    ]
    for one in devices:
        code += [
            _instruction(_JUMP_UNLESS_EQUAL, _KIND, offset=4, value=one.kind),
            _instruction(_JUMP_UNLESS_EQUAL, _MAJOR, offset=3, value=one.major),
            _instruction(_JUMP_UNLESS_EQUAL, _MINOR, offset=2, value=one.minor),
            _instruction(_SET, _ANSWER, value=0),
            _instruction(_EXIT),
        ]
    return b"".join([*code, _instruction(_SET, _ANSWER, value=1), _instruction(_EXIT)])


def _instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """Return eight bytes (struct bpf_insn)."""
    return struct.pack("=BBhi", code, target | source << 4, offset, value)


def _attach(place: Path, program: bytes) -> None:
    """Load the program, and attach it to the group at `place`. Raises OSError."""
    code, licence = ctypes.create_string_buffer(program, len(program)), ctypes.create_string_buffer(b"GPL")
    count = len(program) // 8
    asked = struct.pack("=IIQQ", _PROG_TYPE_CGROUP_DEVICE, count, ctypes.addressof(code), ctypes.addressof(licence))
    loaded = _bpf(_PROG_LOAD, asked)
    try:
        group = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_PROG_ATTACH, struct.pack("=IIII", group, loaded, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(group)
    finally:
        os.close(loaded)


def _bpf(command: int, attributes: bytes) -> int:
    """Return what bpf(2) returns. Raises OSError."""
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(f"bpf(2) is not known for the architecture {os.uname().machine}")
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    libc = ctypes.CDLL(None, use_errno=True)
    answer = int(libc.syscall(number, command, ctypes.byref(buffer), ctypes.c_uint(len(buffer))))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
