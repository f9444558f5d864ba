"""Check those values of sbatch, salloc and srun options whose check needs no data of the site. The messages about
invalid values are those of Slurm.

Each option has a function (a `Form`) that checks the form of its value. Many of these options belong to a plug-in of
Slurm. They have no effect in Phalanx, as in a Slurm without this plug-in. Their values are checked. `scontrol show job`
shows a value if Slurm shows it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from phalanx.slurm.cluster.site import Site
from phalanx.slurm.notation import amounts, times
from phalanx.slurm.notation.amounts import AmountError
from phalanx.slurm.notation.signals import read_warning
from phalanx.slurm.notation.times import TimeError
from phalanx.slurm.options import Usage, require_cluster, say

Said = Mapping[str, str | None]
Form = Callable[[str, str, str], None]  # takes command, option and value; raises Usage if the value is invalid
_LONG_MOST = (1 << 63) - 1

_DISTRIBUTION = re.compile(r"(\*|block|cyclic|arbitrary|plane=\d+)(:(\*|block|cyclic|fcyclic)){0,2}(,(no)?pack)?", re.I)
_HINTS = ("compute_bound", "memory_bound", "multithread", "nomultithread")
_FREQUENCY = re.compile(
    r"(\d+|low|medium|high|highm1)(-(\d+|low|medium|high|highm1))?(:(\w+))?"
    r"|conservative|ondemand|performance|powersave|schedutil|userspace",
    re.I,
)
_GPU_FREQUENCY = re.compile(r"((memory=|type=)?(\d+|low|medium|high|highm1)|verbose)(,((memory=)?(\d+|low|medium|high|highm1)|verbose))*", re.I)  # fmt: skip # noqa: E501 (one expression)
_ACCOUNTING = re.compile(r"\d+|((task|energy|network|filesystem)=\d+)(,(task|energy|network|filesystem)=\d+)*", re.I)
_MEMORY_BIND = re.compile(r"(quiet|q|verbose|v|none|no|rank|local|help|sort|nosort|prefer|map_mem:\S+|mask_mem:\S+)(,(quiet|q|verbose|v|none|no|rank|local|sort|nosort|prefer|map_mem:\S+|mask_mem:\S+))*", re.I)  # fmt: skip # noqa: E501 (one expression)
_CPU_BIND = re.compile(r"(quiet|q|verbose|v|none|no|rank|rank_ldom|sockets?|cores?|threads?|ldoms?|boards?|help|one_thread|(map|mask)_(cpu|ldom):\S+)(,(quiet|q|verbose|v|none|no|rank|rank_ldom|sockets?|cores?|threads?|ldoms?|boards?|one_thread|(map|mask)_(cpu|ldom):\S+))*", re.I)  # fmt: skip # noqa: E501 (one expression)
_GPU_BIND = re.compile(
    r"(v(erbose)?,)?(closest|none|map_gpu:[\dx*,a-f]+|mask_gpu:[\dxa-f*,]+|per_task:\d+|single:\d+)|v(erbose)?", re.I
)
_PROFILES = {"none", "all", "energy", "task", "lustre", "network"}
_LIMITS = {"ALL", "NONE", "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK"}
_GRES_FLAGS = {"disable-binding", "enforce-binding"}
# The values of --mail-type in the order in which scontrol shows them (measured with Slurm 22.05).
MAIL_OF_ALL = ("INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT")
MAIL_TYPES = (*MAIL_OF_ALL, "ARRAY_TASKS", "TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50")
_LATE = ("hint", "cpu-bind", "propagate")  # Slurm checks their values after all other options
_RESERVED = "since it's not allowed by configuration (AllowSpecResourcesUsage = No)"


def check_forms(command: str, said: dict[str, str | None], *, late: bool = True) -> None:
    """Check the value of each option. Replace numbers by their plain form (`+3` by `3`). `late`: True to check the
    options that Slurm checks last, which needs all options. Raises Usage for the first invalid value, with Slurm's
    message."""
    for option, text in said.items():
        if (form := FORMS.get(option)) is not None and text is not None and option not in _LATE:
            form(command, option, text)
            if option in _COUNTS:
                said[option] = str(int(text))
    if not late:
        return
    for option, spelled in (("core-spec", "-S"), ("thread-spec", "--thread-spec")):
        if said.get(option) is not None:  # even for the value 0
            say(f"{command}: error: Ignoring {spelled} {_RESERVED}")
    for option in _LATE:
        if (text := said.get(option)) is not None:
            FORMS[option](command, option, text)


def checking(command: str) -> Callable[[Sequence[tuple[str, str | None]]], None]:
    """Return a function for `OptionReader.read` that checks the option that was parsed last. As in Slurm, an invalid
    value is refused even if a later option replaces it."""

    def check(typed: Sequence[tuple[str, str | None]]) -> None:
        option, text = typed[-1]
        if option != "power":  # the form of --power prints a message, and must not print it twice
            check_forms(command, {option: text}, late=False)

    return check


def _moment(command: str, option: str, text: str) -> None:
    try:
        times.read_moment(text, time.time())
    except TimeError as error:
        raise Usage(
            f"Invalid time specification (pos={error.at}): {text}\n{command}: error: Invalid --{option} specification",
            255,
        ) from None


def _invalid(command: str, option: str) -> Usage:
    return Usage(f"{command}: error: Invalid --{option} specification", 255)


def _number(least: int) -> Form:
    def read(command: str, option: str, text: str) -> None:
        if re.fullmatch(r"\s*\+?\d{10,}", text):
            raise Usage(f"{command}: error: Numeric argument ({min(int(text), _LONG_MOST)}) to big for --{option}.")
        if re.fullmatch(r"\s*\+?\d{1,9}", text) is None or int(text) < least:
            raise Usage(f'{command}: error: Invalid numeric value "{text}" for --{option}.')

    return read


def _number_or_empty(least: int) -> Form:
    def read(command: str, option: str, text: str) -> None:
        if text:
            _number(least)(command, option, text)

    return read


def _matches(pattern: re.Pattern[str], wrong: str, status: int = 255) -> Form:
    """Return a form for values that match the pattern. `wrong`: the message for other values, with {option} and {text}
    as placeholders for the option and the value."""

    def read(command: str, option: str, text: str) -> None:
        if pattern.fullmatch(text) is None:
            shown = wrong.format(option=option, text=text)
            raise Usage("\n".join(f"{command}: error: {line}" for line in shown.split("\n")), status)

    return read


def _one_of(words: set[str]) -> Form:
    def read(command: str, option: str, text: str) -> None:
        if not {word.strip().lower() for word in text.split(",")} <= words:
            raise _invalid(command, option)

    return read


def _minutes(command: str, option: str, text: str) -> None:
    try:
        times.read_limit_min(text)
    except TimeError:
        raise _invalid(command, option) from None


def _memory(command: str, option: str, text: str) -> None:
    try:
        amounts.read_mib(text)
    except AmountError:
        raise _invalid(command, option) from None


def _hint(command: str, option: str, text: str) -> None:
    if text not in _HINTS:
        raise Usage(f'{command}: error: unrecognized --hint argument "{text}", see --hint=help')


def _switches(command: str, option: str, text: str) -> None:
    count, _, _ = text.partition("@")
    _number(1)(command, option, count)


def _propagate(command: str, option: str, text: str) -> None:
    for name in text.split(",") if text else ():
        if name.upper().removeprefix("RLIMIT_") not in _LIMITS:
            raise Usage(
                f"{command}: error: Bad rlimit name: {name}\n{command}: error: --propagate={text} is not valid."
            )


def _profile(command: str, option: str, text: str) -> None:
    if not {word.lower() for word in text.split(",")} <= _PROFILES:
        raise Usage(f"{command}: error: invalid --profile={text} option", 255)


def _of_root(command: str, option: str, text: str) -> None:
    if os.getuid() != 0:
        raise Usage(f"{command}: error: --{option} only permitted by root user", 255)


def _mail_type(command: str, option: str, text: str) -> None:
    if any(one not in (*MAIL_TYPES, "ALL", "NONE") for one in text.upper().split(",") if one):
        raise _invalid(command, option)


def _cpu_bind(command: str, option: str, text: str) -> None:
    if _CPU_BIND.fullmatch(text) is None:
        raise Usage(
            f"{command}: cluster configuration lacks support for cpu binding\n"
            f'{command}: error: unrecognized --cpu-bind argument "{text}"\n'
            f"{command}: fatal: Failed to parse --cpu-bind= values."
        )


def _distribution(command: str, option: str, text: str) -> None:
    if text.lower() == "plane":
        say(f"{command}: error: Invalid plane size or size not specified")
    if _DISTRIBUTION.fullmatch(text) is None:
        raise _invalid(command, option)


def _wait_all_nodes(command: str, option: str, text: str) -> None:
    _number(0)(command, option, text or "0")
    if int(text or 0) > 1:
        raise _invalid(command, option)


def _geometry(command: str, option: str, text: str) -> None:
    """Check a value of -B (--extra-node-info): sockets, cores and threads."""
    if not text:
        return
    for place, part in zip(("first", "second", "third"), text.split(":"), strict=False):
        if re.fullmatch(r"\*|\d+(-\d+)?", part) is None:
            raise Usage(f'{command}: error: Invalid numeric value "{part}" for {place} arg of -B.')


def _burst_buffer_file(command: str, option: str, text: str) -> None:
    if not os.path.isfile(text):
        raise Usage(f"{command}: error: Invalid --bbf specification")


def _power(command: str, option: str, text: str) -> None:
    if text.lower() not in ("", "level"):
        # print the message twice, because Slurm's sbatch and salloc parse the option twice
        for _ in range(1 if command == "srun" else 2):
            say(f"{command}: error: Ignoring unrecognized power option ({text})")


def _yes_or_no(command: str, option: str, text: str) -> None:
    if text.lower() not in ("yes", "y", "no", "n"):
        raise _invalid(command, option)


def _nice(command: str, option: str, text: str) -> None:
    if abs(read_nice(text)) > 2147483645:
        raise Usage(f"{command}: error: Invalid --nice value, out of range (+/- 2147483645)", 255)


def read_nice(text: str | None) -> int:
    """Return the value of --nice: the number at the beginning of the text, as strtoll(3) parses it; 0 without a number.
    If the option has no value (None), return 100."""
    if text is None:
        return 100
    found = re.match(r"\s*[+-]?\d+", text)
    return int(found[0]) if found is not None else 0


def _priority(command: str, option: str, text: str) -> None:
    if text.strip().startswith("-"):
        raise Usage(f"{command}: error: Priority must be >= 0", 255)


def _nodes(command: str, option: str, text: str) -> None:
    least, _, most = text.partition("-")
    for part in (least, most):
        if re.fullmatch(r"(\d+[km]?)?", part, re.I) is None:
            raise Usage(f'{command}: error: "{text}" is not a valid node count', 255)
    if not least and not most:
        raise Usage(f'{command}: error: "{text}" is not a valid node count', 255)
    if least.isdecimal() and text.endswith("-"):
        most = "-1"
    if least.isdecimal() and re.fullmatch(r"-?\d+", most) and int(least) > int(most):
        raise Usage(f"{command}: error: Maximum node count {most} is less than minimum node count {least}", 255)


def _signal(command: str, option: str, text: str) -> None:
    if read_warning(text) is None or (command == "srun" and text.upper().startswith(("B:", "RB:", "BR:"))):
        raise _invalid(command, option)


_COUNTS = (
    "cpus-per-task", "ntasks", "ntasks-per-node", "ntasks-per-core", "ntasks-per-socket", "ntasks-per-gpu",
    "ntasks-per-tres", "cpus-per-gpu", "mincpus", "threads", "threads-per-core", "cores-per-socket", "sockets-per-node",
)  # fmt: skip
FORMS: dict[str, Form] = {
    **dict.fromkeys(_COUNTS, _number(1)),
    "acctg-freq": _matches(_ACCOUNTING, "Invalid --acctg-freq specification: {text}"),
    "bbf": _burst_buffer_file,
    "begin": _moment,
    "core-spec": _number(0),
    "cpu-bind": _cpu_bind,
    "cpu-freq": _matches(_FREQUENCY, 'unrecognized --cpu-freq argument "{text}"\nInvalid --cpu-freq argument'),
    "deadline": _moment,
    "delay-boot": _minutes,
    "distribution": _distribution,
    "extra-node-info": _geometry,
    "gid": _of_root,
    "gpu-bind": _matches(_GPU_BIND, "Invalid --gpu-bind argument: gpu:{text}"),
    "gpu-freq": _matches(_GPU_FREQUENCY, "Invalid --gpu-freq argument: gpu:{text}"),
    "gres-flags": _one_of(_GRES_FLAGS),
    "hint": _hint,
    "jobid": _number(1),
    "kill-on-bad-exit": _number_or_empty(0),
    "kill-on-invalid-dep": _yes_or_no,
    "mail-type": _mail_type,
    "mem": _memory,
    "mem-bind": _matches(_MEMORY_BIND, 'unrecognized --mem-bind argument "{text}"'),
    "mem-per-cpu": _memory,
    "mem-per-gpu": _memory,
    "msg-timeout": _number(1),
    "nice": _nice,
    "nodes": _nodes,
    "priority": _priority,
    "no-kill": _matches(re.compile(r"off|set"), "Invalid --{option} specification"),
    "open-mode": _matches(re.compile(r"[at].*", re.I), "Invalid --open-mode specification"),
    "power": _power,
    "profile": _profile,
    "propagate": _propagate,
    "relative": _number_or_empty(0),
    "signal": _signal,
    "switches": _switches,
    "thread-spec": _number(1),
    "time": _minutes,
    "time-min": _minutes,
    "tmp": _memory,
    "uid": _of_root,
    "wait": _number_or_empty(0),
    "wait-all-nodes": _wait_all_nodes,
}  # fmt: skip

# Options of all three commands, in the form of `options.declare`, that are checked in this module.
HINTS = (
    "acctg-freq= bb= bbf= cluster-constraint= cluster|clusters,M= container= context= core-spec,S= "
    "cores-per-socket= cpu-freq= "
    "cpus-per-gpu= delay-boot= distribution,m= extra-node-info,B= gpu-bind= gpu-freq= gpus-per-socket= gres-flags= "
    "hint= mail-type= mail-user= mcs-label= mem-bind= mem-per-gpu= network= no-kill,k=? nodefile,F= ntasks-per-core= "
    "ntasks-per-gpu= ntasks-per-socket= ntasks-per-tres= power= prefer= priority= profile= propagate=? reboot "
    "sockets-per-node= spread-job switches= thread-spec= threads-per-core= time-min= use-min-nodes wckey="
)


def named_cluster(command: str, said: Said, here: Site) -> str:
    """Return the name of the cluster if -M names it; "" without -M. Raises Usage if -M does not name this cluster."""
    text = said.get("clusters")
    if not text:
        return ""
    require_cluster(command, text, here.cluster)
    return here.cluster


def read_files(command: str, said: dict[str, str | None]) -> None:
    """Replace --nodefile by --nodelist with the nodes in the file. Raises Usage if the file of --nodefile or
    --export-file cannot be read, or if --distribution=arbitrary has no node list."""
    if file := said.pop("nodefile", None):
        try:
            said["nodelist"] = ",".join(Path(file).read_text().split())
        except OSError as error:
            raise Usage(
                f"{command}: error: slurm_allocate_resources error opening file {file}, {error.strerror}\n"
                f"{command}: error: Invalid --nodefile node file",
                255,
            ) from None
    if (file := said.get("export-file")) is not None:
        try:
            Path(file).read_bytes()
        except OSError:
            raise Usage(f"{command}: error: Could not open user environment file {file}") from None
    if (said.get("distribution") or "").lower().startswith("arbitrary") and not said.get("nodelist"):
        what = "you need to specify a nodelist or hostfile with the -w option"
        raise Usage(f"{command}: error: With Arbitrary distribution {what}")


def shown(said: Said) -> dict[str, str]:
    """Return the fields that `scontrol show job` prints for these options. `sockets`, `cores` and `threads` are the
    smallest numbers that a node must have."""
    found = dict(zip(("sockets", "cores", "threads"), _least(said.get("extra-node-info") or ""), strict=False))
    match said.get("hint"):
        case "compute_bound" | "nomultithread":
            found["threads"] = "1"
        case "memory_bound":
            found |= {"cores": "1", "threads": "1"}
    for option, name in _SHOWN.items():
        if text := said.get(option):
            found[name] = text
    if text := said.get("switches"):
        found["Switches"] = f"{int(text.partition('@')[0])}@00:05:00"  # Slurm shows the site's maximum
    if text := said.get("delay-boot"):
        found["DelayBoot"] = times.limit(times.read_limit_min(text), long=True)
    if text := said.get("cpu-freq"):
        found["frequency"] = _frequency(text)
    if (said.get("power") or "").lower() == "level":
        found["Power"] = "LEVEL"
    flags = ""
    if text := said.get("gres-flags"):
        flags += f"GresEnforceBind={'No' if text.lower().startswith('dis') else 'Yes'}"
    if text := said.get("kill-on-invalid-dep"):
        flags += f"KillOInInvalidDependent={'Yes' if text.lower().startswith('y') else 'No'}"
    if "spread-job" in said:
        flags += "SpreadJob=Yes"
    for option, name in (("gpu-bind", "TresBind"), ("gpu-freq", "TresFreq")):
        if text := said.get(option):
            found[name] = f"gpu:{text}"
    return {name: text for name, text in found.items() if text} | ({"flags": flags} if flags else {})


_SHOWN = {
    "sockets-per-node": "sockets", "cores-per-socket": "cores", "threads-per-core": "threads",
    "ntasks-per-socket": "per_socket", "ntasks-per-core": "per_core", "bb": "BurstBuffer", "network": "Network",
    "cluster-constraint": "ClusterFeatures", "container": "Container",
}  # fmt: skip


def _least(text: str) -> list[str]:
    return [re.split("-", part)[0].replace("*", "") for part in text.split(":")] if text else []


def _frequency(text: str) -> str:
    first, _, governor = text.partition(":")
    least, dash, most = first.partition("-")
    words = [f"CPU_min_freq={least.capitalize()}" if dash else "", f"CPU_max_freq={(most or least).capitalize()}"]
    return " ".join(filter(None, [*words, f"Governor={governor.capitalize()}" if governor else ""]))
