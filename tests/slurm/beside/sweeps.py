"""Sweeps: one command after the other with every option and field of its manual page, with right and wrong values.

The jobs that the commands look at are made first, the same ones for every sweep.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.slurm.beside.generator import VALUES
from tests.slurm.beside.player import Scene, Step

# Kinds of values beside those of generator.VALUES.
_KINDS: dict[str, tuple[str, ...]] = {
    "none": (),
    "job": ("$J1", "$J2", "$J1,$J3", "${J2}_1", "${J2}_[1-2]", "99999999", "x", "", "0", "$J1,x", "$J1.0", "${J4}"),
    "user": ("u1", "u2", "u1,u2", "root", "nosuch", "20001", "", "99999"),
    "account": ("physics", "chem", "physics,chem", "nothing", "PHYSICS", ""),
    "state": ("PD", "R", "pending", "RUNNING", "PD,R", "all", "CD", "nothing", "ca,to", "pend", ""),
    "nodestate": ("idle", "alloc", "IDLE", "mix", "down", "idle,down", "nothing", "all", "drain", "resp", "", "idl"),
    "part": ("batch", "short", "batch,short", "closed", "nowhere", "", "BATCH"),
    "host": ("cn1", "cn[1-2]", "cn9", "cn1,cn3", "cn[1-", ""),
    "letters": ("i", "-i", "P,-i", "+t", "u,i", "z", "", "N", "j", "T", "S,-P"),
    "when": ("now", "midnight", "now-1hour", "2020-01-01", "tomorrow", "x", "00:00", "0101", "12/31/29", "now+1day"),
    "name": ("held", "array", "held,array", "nosuch", "", "HELD"),
    "qoses": ("normal", "fast", "normal,fast", "nothing"),
    "number": ("0", "1", "-1", "x", "", "5"),
    "units": ("K", "M", "G", "KM", "x"),
    "cluster": ("beside", "all", "nowhere"),
    "spread": ("block", "cyclic", "block:cyclic", "plane=2", "x", "", "2:8:1", "1"),
    "signal": ("USR1", "USR1@60", "B:USR1@10", "10@x", "x", "R:USR1", ""),
    "mail": ("END", "ALL", "NONE", "x", "BEGIN,FAIL"),
    "place": ("/tmp", "/nosuch", ""),
    "stream": ("none", "all", "out.%j", "0", "out.%t"),
    "form": (),
    "Form": (),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Command:
    """`options`: words `--spelled,x:kind`. `fields`: names for `form`. `letters`: for `%`-forms."""

    options: str
    fields: str = ""
    letters: str = ""
    lines: tuple[str, ...] = ()


_SACCT = """
Account AdminComment AllocCPUS AllocNodes AllocTRES AveCPU AveCPUFreq AveDiskRead AvePages AveRSS AveVMSize BlockID
Cluster Comment Constraints ConsumedEnergy ConsumedEnergyRaw Container CPUTime CPUTimeRAW DerivedExitCode Elapsed
ElapsedRaw Eligible End ExitCode Flags GID Group JobID JobIDRaw JobName Layout MaxRSS MaxVMSize McsLabel MinCPU
NCPUS NNodes NodeList NTasks Partition Priority QOS Reason ReqCPUFreq ReqCPUFreqGov ReqCPUS ReqMem ReqNodes ReqTRES
Reservation Reserved ResvCPU ResvCPURAW Start State Submit SubmitLine Suspended SystemComment SystemCPU Timelimit
TimelimitRaw TotalCPU TRESUsageInAve TRESUsageOutTot UID User UserCPU WCKey WCKeyID WorkDir
"""
_SQUEUE = """
account accruetime admin_comment allocnodes allocsid arrayjobid arraytaskid associd batchflag batchhost
boardspernode burstbuffer burstbufferstate cluster clusterfeature command comment contiguous container cores
corespec cpufreq cpus-per-task cpus-per-tres deadline delayboot dependency derivedec eligibletime endtime exit_code
feature groupid groupname hetjobid hetjoboffset hetjobidset jobarrayid jobid lastschedeval licenses maxcpus maxnodes
mcslabel mem-per-tres minmemory mintime mintmpdisk mincpus name network nice nodes nodelist ntperboard ntpercore
ntpernode ntpersocket numcpus numnodes numtasks origin originraw oversubscribe partition pendingtime preempttime
prefer priority prioritylong profile qos reason reasonlist reboot reqnodes reqswitch requeue reservation resizetime
restartcnt resvport schednodes sct selectjobinfo siblingsactive siblingsviable sockets sperboard starttime state
statecompact stderr stdin stdout stepid stepname submittime system_comment threads timeleft timelimit timeused
tres-alloc tres-bind tres-freq tres-per-job tres-per-node tres-per-socket tres-per-step tres-per-task userid
username wait4switch wckey workdir
"""
_SINFO = """
all allocmem allocnodes available cluster comment cores cpus cpusload freemem cpusstate cores defaulttime disk extra
features features_act groups gres gresused maxcpuspernode memory nodes nodeaddr nodeai nodeaiot nodehost nodelist
oversubscribe partition partitionname port preemptmode priorityjobfactor prioritytier reason root size statecompact
statelong statecomplete sockets socketcorethread time timestamp threads user userlong version weight
"""
_SSTAT = """
AveCPU AveCPUFreq AveDiskRead AvePages AveRSS AveVMSize ConsumedEnergy ConsumedEnergyRaw JobID MaxRSS MaxRSSNode
MaxVMSize MinCPU Nodelist NTasks Pids ReqCPUFreq ReqCPUFreqMin TRESUsageInAve TRESUsageOutTot
"""
# What sbatch, salloc and srun read alike.
_ASKS = """
--account,A:account --begin,b:moment --comment:word --constraint,C:features --contiguous:none --cores-per-socket:count
--core-spec,S:count --cpu-freq:word --cpus-per-gpu:count --cpus-per-task,c:count --deadline:moment --delay-boot:count
--dependency,d:dependency --distribution,m:spread --exclude,x:host --exclusive:none --extra-node-info,B:spread
--gpus,G:gpus --gpus-per-node:gpus --gpus-per-socket:gpus --gpus-per-task:gpus --gres:gres --gres-flags:word
--hint:word --hold,H:none --job-name,J:word --licenses,L:word --mem:memory --mem-per-cpu:memory --mem-per-gpu:memory
--mem-bind:word --mincpus:count --nice:count --no-kill,k:none --nodelist,w:host --nodes,N:nodes --ntasks,n:count
--ntasks-per-core:count --ntasks-per-gpu:count --ntasks-per-node:count --ntasks-per-socket:count --overcommit,O:none
--oversubscribe,s:none --partition,p:partition --prefer:features --priority:count --profile:word --qos,q:qos
--reservation:word --signal:signal --sockets-per-node:count --switches:count --thread-spec:count
--threads-per-core:count --time,t:time --time-min:time --tmp:memory --use-min-nodes:none --wckey:word --power:word
"""
COMMANDS: dict[str, _Command] = {
    "sbatch": _Command(
        f"{_ASKS} --array,a:array --batch:features --bb:word --clusters,M:cluster --export:word --export-file:word "
        "--get-user-env:none --ignore-pbs:none --kill-on-invalid-dep:word --mail-type:mail --mail-user:name "
        "--no-requeue:none --open-mode:word --propagate:word --quiet,Q:none --reboot:none --requeue:none "
        "--spread-job:none --test-only:none --uid:user --gid:user --wait-all-nodes:number --nosuch:none"
    ),
    "srun": _Command(
        f"{_ASKS} --chdir,D:place --cpu-bind:word --disable-status,X:none --epilog:word --exact:none --export:word "
        "--input,i:stream --interactive:none --jobid:job --kill-on-bad-exit,K:none --label,l:none --mpi:word "
        "--multi-prog:none --open-mode:word --output,o:stream --error,e:stream --overlap:none "
        "--preserve-env,E:none --prolog:word --quiet,Q:none --quit-on-interrupt:none --relative,r:number "
        "--resv-ports:none --slurmd-debug:word --task-epilog:word --task-prolog:word --threads,T:number "
        "--unbuffered,u:none --wait,W:number --whole:none --nosuch:none "
    ),
    "squeue": _Command(
        "--account,A:account --all,a:none --array,r:none --array-unique:none --clusters,M:cluster --federation:none "
        "--format,o:Form --Format,O:form --hide:none --jobs,j:job --licenses,L:name --local:none --long,l:none "
        "--me:none --name,n:name --noconvert:none --nodelist,w:host --noheader,h:none --partition,p:part "
        "--priority,P:none --qos,q:qoses --reservation,R:name --sibling:none --sort,S:letters --start:none "
        "--states,t:state --steps,s:none --user,u:user",
        _SQUEUE,
        "aABcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ",
    ),
    "sinfo": _Command(
        "--all,a:none --clusters,M:cluster --dead,d:none --exact,e:none --federation:none --format,o:Form "
        "--Format,O:form --hide:none --list-reasons,R:none --local:none --long,l:none --noconvert:none --Node,N:none "
        "--nodes,n:host --noheader,h:none --partition,p:part --reservation,T:none --responding,r:none "
        "--sort,S:letters --states,t:nodestate --summarize,s:none",
        _SINFO,
        "aAbBcCdDeEfFgGhHiIlLmMnNoOpPrRsStTuUvwXYzZ",
    ),
    "sacct": _Command(
        "--accounts,A:account --allocations,X:none --allusers,a:none --brief,b:none --clusters,M:cluster "
        "--constraints,C:features --duplicates,D:none --endtime,E:when --federation:none --format,o:form "
        "--flags,F:name --gid,g:user --group:user --jobs,j:job --local:none --long,l:none --name:name --ncpus,I:count "
        "--nnodes,i:count --noconvert:none --nodelist,N:host --noheader,n:none --parsable,p:none --parsable2,P:none "
        "--partition,r:part --qos,q:qoses --reason,R:name --starttime,S:when --state,s:state --timelimit-max,K:time "
        "--timelimit-min,k:time --truncate,T:none --units:units --user,u:user --uid:user --wckeys,W:name "
        "--whole-hetjob:none --delimiter:word --batch-script,B:none --env-vars:none",
        _SACCT,
    ),
    "sshare": _Command(
        "--accounts,A:account --all,a:none --clusters,M:cluster --format,o:form --long,l:none --noheader,n:none "
        "--parsable,p:none --parsable2,P:none --partition,m:none --users,u:user --Users,U:none",
        "Account Cluster EffectvUsage FairShare GrpTRESMins GrpTRESRaw ID LevelFS NormShares NormUsage Partition "
        "RawShares RawUsage TRESRunMins User",
    ),
    "sstat": _Command(
        "--allsteps,a:none --helpformat,e:none --pidformat,i:none --jobs,j:job --noheader,n:none --noconvert:none "
        "--parsable,p:none --parsable2,P:none --format,o:form",
        _SSTAT,
    ),
    "sprio": _Command(
        "--clusters,M:cluster --federation:none --format,o:Form --jobs,j:job --long,l:none --local:none "
        "--noheader,h:none --norm,n:none --partition,p:part --sibling:none --sort,S:letters --user,u:user "
        "--weights,w:none",
        "",
        "aAbBcCfFijJNnoprqQstTuxYy",
    ),
    "scancel": _Command(
        "--account,A:account --batch,b:none --ctld:none --full,f:none --hurry,H:none --name,n:name "
        "--nodelist,w:host --partition,p:part --quiet,Q:none --qos,q:qoses --reservation,R:name --signal,s:word "
        "--state,t:state --user,u:user --verbose,v:none --wckey:name --sibling:name --me:none",
    ),
    "scontrol": _Command(
        "--all,a:none --details,d:none --future,F:none --hide:none --local:none --oneliner,o:none --quiet,Q:none "
        "--clusters,M:cluster",
        lines=(
            "show job $JOB", "show jobs", "show node $HOST", "show nodes", "show partition $PART", "show part",
            "show step $JOB", "show step", "show reservation", "show reservation $NAME", "show licenses",
            "show hostnames $HOST", "show hostlist $HOST", "show hostlistsorted $HOST", "show daemons", "show topology",
            "show burstbuffer", "show federation", "show frontend", "show dwstat", "show bbstat", "show assoc_mgr",
            "show aliases $HOST", "show slurmd", "show nothing", "show", "hold $JOB", "release $JOB", "uhold $JOB",
            "holdu $JOB", "requeue $JOB", "requeuehold $JOB", "suspend $JOB", "resume $JOB", "hold", "release",
            "requeue", "hold name=$NAME", "release jobname=$NAME", "top $JOB", "ping", "version", "help", "nothing",
            "listpids", "pidinfo 1", "errnumstr 2017", "errnumstr x", "token", "completing", "cluster nowhere",
            "write batch_script $JOB -", "write batch_script", "write config", "reconfigure", "takeover", "shutdown",
            "setdebug info", "setdebugflags +gres", "schedloglevel 1", "abort", "reboot $HOST", "notify $JOB hello",
            "wait_job $JOB", "cancel_reboot $HOST", "create reservation", "create part", "delete reservation=$NAME",
            "delete partition=$PART", "delete", "delete $JOB", "delete jobid=$JOB", "create", "fsdampeningfactor 2",
            "show config nothing", "scontrol", "getent $HOST", "checkpoint", "all", "oneliner", "quiet", "verbose",
            "exclusive", "shutdown slurmctld", "errnumstr", "update", "update nodename=$HOST state=drain",
            "update part=$PART state=down", "update res=x nodes=cn1", "update nothing=1", "update jobid=$JOB",
            *(f"update jobid=$JOB {name}=${kind.upper()}" for name, kind in (
                ("timelimit", "time"), ("name", "name"), ("jobname", "word"), ("comment", "word"), ("nice", "number"),
                ("priority", "number"), ("starttime", "moment"), ("deadline", "moment"), ("dependency", "dependency"),
                ("qos", "qos"), ("partition", "partition"), ("account", "account"), ("numcpus", "nodes"),
                ("numnodes", "nodes"), ("mincpusnode", "count"), ("minmemorynode", "memory"),
                ("minmemorycpu", "memory"), ("mintmpdisknode", "memory"), ("features", "features"),
                ("reqnodelist", "hosts"), ("excnodelist", "hosts"), ("gres", "gres"), ("requeue", "number"),
                ("reservationname", "name"), ("shared", "number"), ("oversubscribe", "word"), ("contiguous", "number"),
                ("arraytaskthrottle", "number"), ("wckey", "name"), ("numtasks", "count"), ("reqcores", "count"),
                ("stdout", "word"), ("userid", "user"), ("endtime", "moment"), ("mailuser", "name"),
                ("mailtype", "word"), ("cluster", "name"), ("clusterfeatures", "name"), ("burstbuffer", "name"),
                ("delayboot", "number"), ("switches", "number"), ("timemin", "time"), ("corespec", "count"),
                ("threadspec", "count"), ("admincomment", "word"), ("licenses", "name"), ("network", "word"),
                ("sockets", "number"), ("reboot", "number"), ("prefer", "features"), ("workdir", "word"),
            )),
        ),
    ),
    "sacctmgr": _Command(
        "--immediate,i:none --noheader,n:none --parsable,p:none --parsable2,P:none --readonly,r:none "
        "--oneliner,o:none --quiet,Q:none --associations,s:none --verbose,v:none",
        lines=(
            "list account", "list accounts $ACCOUNT", "show account where name=$ACCOUNT", "list account withassoc",
            "list account format=account,descr%20,org", "list assoc", "list assoc user=$USER",
            "list assoc format=cluster,account,user,share,qos", "list associations where account=$ACCOUNT", "list user",
            "list user $USER", "list user where name=$USER", "list user withassoc",
            "list users format=user,admin,coord",
            "list user withassoc format=user,account,defaultaccount%10", "list qos", "list qos $QOS",
            "list qos format=name,priority,flags%30", "list qos where name=$QOS format=name", "list cluster",
            "list clusters format=cluster,classification,controlhost", "list coordinator", "list tres", "list event",
            "list wckey", "list stats", "list config", "list problem", "list runaway", "list runawayjobs",
            "list resource", "list transaction", "list txn", "list federation", "list reservation", "list archive",
            "list nothing", "list", "show", "add account new", "add user $USER account=$ACCOUNT", "add qos new",
            "modify user $USER set fairshare=3", "modify account $ACCOUNT set maxjobs=$NUMBER", "delete user $USER",
            "modify user where name=$USER set defaultaccount=$ACCOUNT", "delete account $ACCOUNT", "delete qos $QOS",
            "modify qos $QOS set priority=$NUMBER", "modify", "add", "delete", "add nothing x", "dump", "load",
            "nothing", "version", "problem", "list user format=nothing", "list assoc format=user,nothing",
            "list account where nothing=x", "modify user $USER set nothing=1", "archive dump", "clear stats",
            "reconfigure", "shutdown", "ping", "list instance", "list job", "list assoc tree", "list assoc tree -p",
            "list account parent=root", "list assoc where parent=$ACCOUNT", "list assoc wopi", "list user wopl",
        ),
    ),
    "sreport": _Command(
        "--all_clusters,a:none --cluster,M:cluster --noheader,n:none --parsable,p:none --parsable2,P:none "
        "--tres,T:name --quiet,Q:none",
        lines=(
            "cluster utilization", "cluster util", "cluster AccountUtilizationByUser",
            "cluster userutilizationbyaccount",
            "cluster userutilizationbywckey", "cluster wckeyutilizationbyuser", "job sizesbyaccount",
            "job sizesbywckey",
            "job sizesbyaccountandwckey", "user topusage", "reservation utilization", "user top topcount=1",
            "user topusage group", "cluster", "job", "user", "reservation", "nothing", "cluster nothing",
            "cluster utilization start=$WHEN", "cluster utilization end=$WHEN", "cluster utilization format=cluster",
            "cluster utilization format=nothing", "cluster util nothing=1", "user topusage users=$USER",
            "cluster accountutilizationbyuser accounts=$ACCOUNT", "cluster accountutilizationbyuser tree",
            "job sizesbyaccount grouping=1,2", "job sizesbyaccount printjobcount", "cluster utilization -t $UNITS",
            "cluster utilization -t percent", "cluster utilization -t hourper", "version", "help",
        ),
    ),
}  # fmt: skip
_FIRST = (
    Step("sbatch -H -J held -o /dev/null -t 10 --mem=100 --comment=two --wrap 'sleep 1'"),
    Step("sbatch -H -J array -o /dev/null -a 1-3 -n2 -p short --wrap 'sleep 1'"),
    Step("sbatch -H -J other -o /dev/null -A chem -p priv -N2 --qos=fast --wrap 'sleep 1'", "u2"),
    Step("sbatch -J runs -o /dev/null -t 30 -c2 --gres=gpu:1 -w cn3 --wrap 'srun sleep 1000'", wait="J4 running"),
    Step("sbatch -J ended -o /dev/null -w cn1 --wrap 'srun -n1 true; exit 3'", wait="J5 done"),
)
_ASKED = "%j %T %C %D %m %l %P %q %a %r %b %f %n %x %k %v %W %h %H %Y"
_SAID = "echo $SLURM_PROCID $SLURM_NTASKS $SLURM_CPUS_PER_TASK $SLURM_NNODES $SLURM_CPUS_ON_NODE $SLURM_JOB_PARTITION"
_LENGTH = 40  # lines in a scene


def sweep(command: str, seed: int, steps: int) -> Iterator[Scene]:
    """Yield scenes with `steps` lines of this command in total; the jobs before them are not counted."""
    chance = random.Random(f"{command} {seed}")
    for at in range(0, steps, _LENGTH):
        lines = [_line(command, chance) for _ in range(min(_LENGTH, steps - at))]
        users = [chance.choice(("u1", "u1", "u2", "root")) for _ in lines]
        asked = (Step(line, user if _harmless(line) else "u1") for line, user in zip(lines, users, strict=True))
        yield Scene(f"{command} {seed}, scene {at // _LENGTH}", (*_FIRST, *asked))


def begun(scene: Scene) -> int:
    """Return how many steps of a scene only make what the others look at."""
    return len(_FIRST) if scene.steps[: len(_FIRST)] == _FIRST else 0


def _harmless(line: str) -> bool:
    """Return whether root may say it: it ends nothing that later steps need."""
    return line.split()[0] in ("squeue", "sinfo", "sacct", "sshare", "sstat", "sprio", "sreport") or " show" in line


def _line(command: str, chance: random.Random) -> str:
    of = COMMANDS[command]
    # A real sacctmgr repeats its question for ever at the end of its input.
    words = ["yes n |", command] if command == "sacctmgr" else [command]
    options = of.options.split()
    for _ in range(chance.choice((0, 0, 0, 1)) if of.lines else chance.choice((1, 1, 2, 2, 3))):
        words.append(_option(of, chance.choice(options), chance))
    if of.lines:
        words.append(_filled(chance.choice(of.lines), chance))
    if command == "sbatch":
        return f"J=$({' '.join(words)} -H -o /dev/null --parsable --wrap true) && squeue -h -j $J -o '{_ASKED}'"
    if command == "srun":
        # No terminal, and no waiting for what comes later.
        return f"timeout 20 {' '.join(words)} sh -c '{_SAID}' | sort"
    if command == "scancel":
        words.append(chance.choice(("$J1", "${J2}_2", "$J3", "99999999", "x", "", "$J2", "$J4.0", "$J4.9")))
    return " ".join(words)


def _option(of: _Command, word: str, chance: random.Random) -> str:
    spelled, kind = word.split(":")
    long, _, letter = spelled.partition(",")
    name = f"-{letter}" if letter and chance.random() < 0.5 else long
    if (not letter and chance.random() < 0.1) or chance.random() < 0.05:
        name = long[: chance.randint(4, max(4, len(long)))]  # abbreviated, maybe ambiguously
    if kind == "none":
        return name
    value = _form(of, kind, chance) if kind in ("form", "Form") else chance.choice(_values(kind))
    return f'{name}="{value}"' if name.startswith("--") else f'{name} "{value}"'


def _values(kind: str) -> tuple[str, ...]:
    return _KINDS[kind] if kind in _KINDS else VALUES[kind]


def _form(of: _Command, kind: str, chance: random.Random) -> str:
    if kind == "Form":
        parts = []
        for _ in range(chance.randint(1, 4)):
            width = chance.choice(("", "", ".10", ".3", "5", "-8", ".-6"))
            parts.append(f"%{width}{chance.choice(of.letters)}")
        return chance.choice((" ", "|", "", ",")).join(parts)
    separator = "%" if of.fields[0].isupper() else ":"
    names = []
    for _ in range(chance.randint(1, 4)):
        name = chance.choice(of.fields.split())
        if chance.random() < 0.1:
            name = chance.choice((name.upper(), name[:4], "nothing"))
        sign = "-" if separator == "%" else "."
        width = chance.choice(("", "", "", f"{separator}12", f"{separator}3", f"{separator}{sign}10"))
        names.append(name + width)
    return ",".join(names)


def _filled(line: str, chance: random.Random) -> str:
    words = []
    for word in line.split():
        before, dollar, kind = word.partition("$")
        known = kind.lower()
        if dollar and (known in _KINDS or known in VALUES):
            word = f'{before}"{chance.choice(_values(known))}"'
        words.append(word)
    return " ".join(words)
