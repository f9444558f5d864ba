"""The columns of `sacctmgr list`. As in sacctmgr(1) 22.05, one table defines the columns of all entities.

A line of the table is `HEADING|WIDTH|NAMES`. A user may leave out the letters in brackets: `maxj[obs]` stands for
`maxj`, `maxjo` … `maxjobs`. A column is empty for an entity that does not have the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.notation.printed import Printed, show
from phalanx.slurm.options import Usage

Row = Mapping[str, str]
_TABLE = """\
# Allowed|10|counta[llowed]
% Allocated|11|allocat[ed]
% Allowed|10|al[lowed]
Account|10|acc[ount]
Action|20|acti[on]
Actor|10|acto[r]
Admin|9|ad[minlevel]
Assocs|10|as[sociations]
CPU Cnt|7|cp[ucount]
Class|9|cla[ssification]
Cluster|10|cl[usters]
Cluster Nodes|20|clustern[odes]
ControlHost|15|controlh[ost]
ControlPort|12|controlp[ort]
Coord Accounts|20|co[ordinators]
Count|6|cou[nt]
Def Acct|10|defaulta[ccount]
Def QOS|9|defaultq[os]
Def WCKey|10|defaultw[ckey]
Descr|20|des[cription]
Duration|13|du[ration]
Event|7|ev[ent]
EventRaw|8|eventr[aw]
Features|20|fea[tures]
FedState|12|feds[tate]
FedStateRaw|11|fedstater[aw]
Federation|10|fed[eration]
Flags|20|fl[ags]
GraceTime|10|gra[cetime]
GrpCPUMins|11|grpcpum[ins]
GrpCPURunMins|13|grpcpur[unmins]
GrpCPUs|8|grpcpu[s]
GrpJobs|7|grpj[obs]
GrpJobsAccrue|13|grpjobsa[ccrue]
GrpMem|7|grpm[emory]
GrpNodes|8|grpn[odes]
GrpSubmit|9|grps[ubmitjobs]
GrpTRES|13|grptres
GrpTRESMins|13|grptresm[ins]
GrpTRESRunMins|13|grptresr[unmins]
GrpWall|11|grpw[all]
ID|6|id
Info|20|in[fo]
LFT|6|l[ft]
LimitFactor|11|limitf[actor]
MaxCPUMins|11|maxcpum[insperjob]
MaxCPURunMinsPU|15|maxcpur[unminsperuser] maxcpur[unminspu]
MaxCPUs|8|maxcpus[perjob]
MaxCPUsPU|9|maxcpusperu[ser] maxcpuspu
MaxJobs|7|maxj[obs]
MaxJobsAccrue|13|maxjobsa[ccrue]
MaxJobsAccruePA|15|maxjobsaccruepera[ccount] maxjobsaccruepa
MaxJobsAccruePU|15|maxjobsaccrueperu[ser] maxjobsaccruepu
MaxJobsPA|9|maxjobspera[ccount] maxjobspa
MaxJobsPU|9|maxjobsperu[ser] maxjobspu
MaxNodes|8|maxn[odesperjob]
MaxNodesPU|10|maxnodesperu[ser] maxnodespu
MaxSubmit|9|maxs[ubmitjobs]
MaxSubmitPA|11|maxsubmitjobspera[ccount] maxsubmitjobspa maxsubmitpa
MaxSubmitPU|11|maxsubmitjobsp[eruser] maxsubmitjobspu maxsubmitp[u]
MaxTRES|13|maxtres maxtresperj[ob]
MaxTRESMins|13|maxtresm[insperjob]
MaxTRESPA|13|maxtrespera[ccount] maxtrespa
MaxTRESPU|13|maxtresperu[ser] maxtrespu
MaxTRESPerNode|14|maxtrespern[ode]
MaxTRESRunMinsPA|15|maxtresrunminspera[ccount] maxtresrunminspa
MaxTRESRunMinsPU|15|maxtresr[unminsperuser] maxtresrunminspu
MaxWall|11|maxw[alldurationperjob]
MinCPUs|8|mincpus[perjob]
MinPrioThres|12|minp[riothreshold]
MinTRES|13|mintres[perjob]
Name|10|na[me]
NodeCount|9|nodec[ount]
NodeInx|9|nodei[nx]
NodeName|15|noden[ames]
Org|20|o[rganization]
ParentID|8|parenti[d]
ParentName|10|parentn[ame]
Partition|10|part[ition]
PluginIDSelect|14|pl[uginidselect]
Preempt|10|preempt
PreemptExemptTime|19|preempte[xempttime]
PreemptMode|11|preemptm[ode]
Priority|10|pri[ority]
Problem|40|p[roblem]
QOS|20|qos[level]
QOS_RAW|10|qosr[aw]
RGT|6|rg[t]
RPC|5|rp[c]
Reason|30|r[eason]
Server|10|ser[ver]
ServerType|10|servertype
Share|9|s[hare] fa[irshare]
State|6|st[ate]
StateRaw|8|stater[aw]
TRES|20|tr[es]
Time|19|ti[mestamp]
TimeEnd|19|en[d]
TimeStart|19|star[t]
Type|8|ty[pe]
UnusedWall|10|un[used]
UsageFactor|11|usagef[actor]
UsageThres|10|usaget[hreshold]
User|10|u[ser]
WCKeys|20|wc[keys]
Where|20|wh[ere]
"""
_FORM = re.compile(r"([^%]*)(?:%(-?)(\d*).*)?")


class ListColumn(NamedTuple):
    """A column of a list. `field`: the key of its value in a row. `printed`: its heading and its width."""

    field: str
    printed: Printed

    def left(self, width: int) -> ListColumn:
        """Return this column with another width, and left-aligned."""
        return ListColumn(self.field, self.printed._replace(width=-width))


@cache
def _names() -> list[tuple[str, str, str, int]]:
    """Return (shortest abbreviation, whole name, heading, width) for each name, the longest abbreviation first."""
    found = []
    for line in _TABLE.splitlines():
        heading, width, names = line.split("|")
        for name in names.split():
            least, _, rest = name.rstrip("]").partition("[")
            found.append((least, least + rest, heading, int(width)))
    return sorted(found, key=lambda one: -len(one[0]))


def chosen(form: str) -> list[ListColumn]:
    """Return the columns that a value of `format=` names. Raises Usage for an unknown field."""
    found = []
    for word in [one for one in form.split(",") if one] or [""]:
        match = _FORM.fullmatch(word)
        typed, sign, digits = match.groups() if match is not None else (word, None, None)
        name = next(
            (one for one in _names() if typed.lower().startswith(one[0]) and one[1].startswith(typed.lower())), None
        )
        if name is None:
            raise Usage(f"Unknown field '{typed}'")
        width = read_width(digits) if digits else name[3]
        found.append(ListColumn(name[2].lower(), Printed(name[2], -width if sign else width)))
    return found


def listed(columns: Sequence[ListColumn], rows: Sequence[Row], said: Mapping[str, str | None]) -> None:
    """Print the rows as a table. The keys of a row are the headings of columns in lower case. `said`: the options of
    sacctmgr."""
    show([one.printed for one in columns], [[row.get(one.field, "") for one in columns] for row in rows], said)
