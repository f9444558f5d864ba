"""Judge a plan by the rules of deciding (`docs/guide/rules.md`).

The judge decides the cycle itself, request by request in the order of the rules, and holds each decision of the plan
against the outcomes that the rules allow. Where several outcomes are equally right (nodes, equally cheap victims) the
plan's own is taken over, and the judge goes on from there. The first broken rule is reported; what follows from a wrong
decision is not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

from phalanx.model.job import Phase, Placement
from phalanx.model.plan import Nominate, Place, Plan, Preempt, Shrink, Start

from .choices import Choices
from .facts import Facts, Nodes, Work, plus
from .nodes import Reservation, fits, free, free_at, may_take, places, reserve, respects
from .order import Contest, Kind, Request, comes_before_heads, replacements, requests, strict_above
from .outcomes import Cycle, Demand
from .quota import allows, charges, is_eligible
from .rights import Victims, may_search
from .victims import Search, apply_victims, faults

NOBODY: Victims = {}
WAYS = 64  # ways through what the rules leave open that are tried for one plan


class Fault(NamedTuple):
    """A broken rule. `is_late`: the plan leaves a right decision to the next cycle, which follows at once (R26)."""

    rule: str
    text: str
    is_late: bool = False


class Broken(Exception):
    """The walk ends at the first fault."""

    def __init__(self, rule: str, text: str, *, is_late: bool = False) -> None:
        super().__init__(text)
        self.fault = Fault(rule, text, is_late)


class Decision(NamedTuple):
    """One decision of a plan: pods of a job are placed or nominated, after victims were told to stop. Without pods: a
    nomination is withdrawn."""

    is_nomination: bool
    pods: dict[int, str]
    gangs: frozenset[str] = frozenset()
    surplus: Victims = NOBODY

    def victims(self, facts: Facts) -> Victims:
        """Return the pods that go, by job, as the jobs are at the moment of the decision."""
        return {**{name: frozenset(facts.works[name].kept()) for name in self.gangs}, **self.surplus}

    @property
    def losers(self) -> list[str]:
        return sorted({*self.gangs, *self.surplus})


def losing(units: Sequence[tuple[str, int | None]]) -> dict[str, Any]:
    """Return the victims of a decision. `units`: gangs, each with None, and pods above minimums."""
    surplus: dict[str, frozenset[int]] = {}
    for name, pod in units:
        if pod is not None:
            surplus[name] = surplus.get(name, frozenset()) | {pod}
    return {"gangs": frozenset(name for name, pod in units if pod is None), "surplus": surplus}


def decisions(plan: Plan) -> dict[str, list[Decision]]:
    """Return the decisions of a plan by job, in the plan's order."""
    found: dict[str, list[Decision]] = {}
    gangs: dict[str, frozenset[str]] = {}
    surplus: dict[str, dict[str, frozenset[int]]] = {}
    for action in plan.actions:
        match action:
            case Preempt(job, _, by):
                gangs[by] = gangs.get(by, frozenset()) | {job}
            case Shrink(job, slots, by):
                pods = surplus.setdefault(by, {}).get(job, frozenset())
                surplus[by][job] = pods | {slot.ordinal for slot in slots}
            case Start(job, _, placements) | Place(job, placements) | Nominate(job, placements):
                lost = (gangs.pop(job, frozenset()), surplus.pop(job, {})) if placements else ()
                found.setdefault(job, []).append(Decision(isinstance(action, Nominate), nodes_of(placements), *lost))
    for by in {*gangs, *surplus}:
        raise Broken("R17", f"jobs are preempted for {by}, which gets nothing")
    return found


def nodes_of(placements: tuple[Placement, ...]) -> dict[int, str]:
    return {each.ordinal: each.node for each in placements}


def judge(facts: Facts, plan: Plan) -> Fault | None:
    """Return the first rule that the plan breaks on these facts; None: the plan is right.

    R6 leaves open whether growth comes after the waiting jobs of other queues. A plan need not mention new pods of a
    job that it preempts later, so nobody can see whether they took capacity, and where. Each is right. A plan that is
    only late in one of these ways is late."""
    choices, fault = Choices(), None
    for _ in range(WAYS):
        try:
            Walk(facts.copy(), plan, choices).walk()
        except Broken as broken:
            fault = broken.fault if fault is None or broken.fault.is_late > fault.is_late else fault
        else:
            return None
        if not choices.next_way():
            break
    return fault


class Walk(Cycle):
    """One cycle, held against its plan. `left`: the plan's decisions that are not judged yet, by job.

    `withdrawn`: nominations that the plan withdraws in favour of another job; `losers`: jobs that it preempts; `tried`:
        requests that were tried in vain; `blocked`: queue whose strict head waits -> the priority of that head;
        `known`: outcomes on the present facts."""

    def __init__(self, facts: Facts, plan: Plan, choices: Choices) -> None:
        self.choices, self.growth_last = choices, not choices.choose(2)
        super().__init__(facts)
        self.left = decisions(plan)
        self.is_late = plan.wake_s is not None and plan.wake_s <= facts.now_s
        self.withdrawn: set[str] = set()
        self.ends_early = self.is_late and any(
            isinstance(each, Place)
            or (isinstance(each, Nominate) and (not each.placements or facts.works[each.job].until_s <= facts.now_s))
            for each in plan.actions
        )
        self.losers = {action.job for action in plan.actions if isinstance(action, Preempt)}
        self.tried: set[tuple[Kind, str]] = set()
        self.blocked: dict[str, int] = {}
        self.known: dict[tuple[Kind, str], Demand] = {}

    def walk(self) -> None:
        self.nominations()
        self.replacements()
        self.tournament()
        for job, rest in self.left.items():
            if rest or self.facts.works[job].surplus:
                raise Broken(*self.why_not(job))
        for job in self.withdrawn:
            raise Broken("R23", f"the nomination of {job} is withdrawn without a reason")

    # R4, R23: nominations

    def nominations(self) -> None:
        """R4: nominations first, the oldest first."""
        nominated = [work for work in self.facts.works.values() if work.nominated]
        for work in sorted(nominated, key=lambda each: each.rank):
            name, mine = work.job.id, self.left.get(work.job.id, [])
            withdraws = bool(mine) and mine[0].is_nomination and not mine[0].pods
            if reason := self.must_withdraw(work):
                if not withdraws:
                    raise Broken("R23", f"{name} keeps its nomination, though {reason}")
                mine.pop(0)
                work.nominated = {}
            elif withdraws:
                self.withdrawn.add(name)
            elif self.nodes_are_free(work, is_soon=False):
                self.start_nominated(work, mine)
            elif left := self.free_elsewhere(work):
                self.move_nomination(work, mine, left)

    def start_nominated(self, work: Work, mine: list[Decision]) -> None:
        """R4, R10: a nominated job starts, or its nominated pods are placed, when its nodes are free."""
        name, wanted = work.job.id, len(work.nominated)
        if not mine and name in self.losers:  # the plan need not mention the pods of a job that it preempts later
            work.imagined, work.nominated, pods = work.imagined | work.nominated.keys(), {}, work.nominated
            return self.put(work, pods)
        if not mine or mine[0].is_nomination:
            text = f"the nodes of {name}'s nomination are free, and it does not start"
            raise Broken("R4", text, is_late=self.ends_early)
        first = mine.pop(0)
        if first.losers or Counter(first.pods.values()) & Counter(work.nominated.values()) != Counter(
            work.nominated.values()
        ):
            raise Broken("R4", f"{name} does not start on the nodes of its nomination")
        if work.phase is Phase.QUEUED and wanted < work.minimum:
            raise Broken("R10", f"{name} starts with {wanted} pods of its minimum {work.minimum}")
        rest, work.nominated, by_node = dict(first.pods), {}, Counter(work.nominated.values())
        taken = {}
        for ordinal in sorted(rest):
            if by_node[rest[ordinal]] > 0:
                by_node[rest[ordinal]] -= 1
                taken[ordinal] = rest[ordinal]
        self.put(work, taken)
        work.surplus = {ordinal: node for ordinal, node in rest.items() if ordinal not in taken}
        if not work.is_new and work.surplus:
            mine.insert(0, Decision(False, work.surplus))
            work.surplus = {}
        return None

    def move_nomination(self, work: Work, mine: list[Decision], left: Nodes) -> None:
        """R23: the nomination of a job whose victims are slow moves to other nodes, whole."""
        if not mine or not mine[0].is_nomination or len(mine[0].pods) != len(work.nominated):
            text = f"the victims of {work.job.id} are slow, and its nomination does not move to other nodes"
            raise Broken("R23", text, is_late=self.ends_early)
        kind = Kind.JOB if work.phase is Phase.QUEUED else Kind.GROWTH
        pods, work.nominated = mine.pop(0).pods, {}
        self.check_nodes(Request(kind, work), pods, left, None)
        work.nominated, work.rank = pods, 1 + max(each.rank for each in self.facts.works.values())

    # R5: replacements

    def replacements(self) -> None:
        """R5: replacements second, by priority. Of equal priority those that the plan chose come first: the age may be
        that of the job or of the lost pod."""
        found = replacements(self.facts)
        for priority in sorted({each.work.job.priority for each in found}, reverse=True):
            here = [each for each in found if each.work.job.priority == priority]
            if len(here) > 1 and not self.choices.choose(2):
                here.sort(key=lambda each: [*self.left, each.name].index(each.name))
            losing = [each for each in here if each.name in self.losers]
            losing = losing if losing and not self.choices.choose(2) else []  # the age of these is open as well
            for request in losing:
                while request.work.missing() and self.settle(request) is Demand.START:
                    pass
            for request in here:
                while request.work.missing() and self.left.get(request.name) and self.settle(request) is Demand.START:
                    pass
            short = [each for each in here if each.work.missing()]
            first = self.choices.choose(len(short)) if len(short) > 1 and self.held is None else 0
            for request in short[first:] + short[:first]:
                while request.work.missing():
                    if self.settle(request) is not Demand.START:
                        break

    # R6 to R14: requests

    def tournament(self) -> None:
        """R6 to R8: decide the requests in order, until none would get anything."""
        while True:
            waiting = requests(self.facts, lambda work: is_eligible(self.facts, work))
            main = [each for each in waiting if each.kind is not Kind.SURPLUS]
            self.try_again(main)
            tried = self.tried
            holder = self.held and self.held.request
            if holder and self.left.get(holder.name) and self.demand(holder) is not Demand.NOTHING:
                tried = tried - {(holder.kind, holder.name)}  # victims were found later
            contest = Contest(self.facts, main, self.gets_something, tried, self.blocked, self.growth_last)
            request = contest.first()
            further = [each for each in waiting if each.kind is Kind.SURPLUS]
            further = [each for each in further if request is None or self.comes_first(each, main, contest)]
            if self.place_surplus(further):
                continue
            if request is None:
                return
            self.settle(request)

    def try_again(self, waiting: list[Request]) -> None:
        """R8: the first of a strict queue, which was tried in vain, may preempt after others have started."""
        for request in waiting:
            key = request.kind, request.name
            mine = self.left.get(request.name) if key in self.tried and self.blocked else None
            if mine and mine[0].losers and self.demand(request) is Demand.PREEMPT:
                self.tried.discard(key)
                for queue in strict_above(self.facts, request.work.queue):
                    self.blocked.pop(queue, None)

    def comes_first(self, further: Request, main: list[Request], contest: Contest) -> bool:
        """R10: return whether a pod above a minimum that the plan places comes before all requests that are left: after
        the minimums of all jobs of its priority or a higher one."""
        priority = further.work.job.priority
        left = (each for each in main if each.work.job.priority >= priority and contest.may_be_tried(each))
        return bool(further.work.surplus) and next(left, None) is None

    def place_surplus(self, further: list[Request]) -> bool:
        """R10: place a pod above the minimum of a job that starts in this cycle, for the queue with the smaller share.
        Return False if there is none to place."""
        can = [each for each in further if self.demand(each) is Demand.START or self.may_grow_now(each)]
        urgent = [each for each in can if all(each.work.job.priority >= other.work.job.priority for other in can)]
        before = [each for each in can if each.work.surplus and comes_before_heads(self.facts, each, self.blocked)]
        heads = self.blocked
        trials = ((can, heads, False), (can, heads, True), (urgent, heads, False), (before, {}, False))
        ways = [
            Contest(self.facts, some, lambda _: True, set(), by, by_share=fair).first() for some, by, fair in trials
        ]
        request = next((each for each in ways if each and each.work.surplus), ways[0])
        if request is None:
            return False
        work = request.work
        if not work.surplus:
            later = self.left.get(request.name, [])
            if not later or later[0].is_nomination or later[0].losers:
                raise Broken("R10", f"{request.name} could start with a further pod", is_late=self.ends_early)
            work.surplus = later.pop(0).pods
        ordinal = min(work.surplus)
        node = work.surplus.pop(ordinal)
        self.check_nodes(request, {ordinal: node}, free(self.facts), self.holder_for(request))
        self.put(work, {ordinal: node})
        return True

    def demand(self, request: Request) -> Demand:
        """Return the outcome of the request on the present facts."""
        key = (request.kind, request.name)
        if key not in self.known:
            outcome = self.outcome(request)
            is_open = outcome in (Demand.NOTHING, Demand.RESERVE) and may_search(self.facts, request)
            self.known[key] = self.disputed(request, outcome) if is_open else outcome
        return self.known[key]

    def gets_something(self, request: Request) -> bool:
        return self.demand(request) is not Demand.NOTHING

    def may_grow_now(self, request: Request) -> bool:
        """R21: return whether the plan starts a job with a further pod for which only quota that was given back in this
        cycle is enough. Such a pod is neither demanded nor forbidden."""
        is_allowed = bool(request.work.surplus) and allows(self.facts, charges(self.facts), request.work, 1)
        return is_allowed and may_take(self.facts, self.holder_for(request), request, free(self.facts))

    def disputed(self, request: Request, outcome: Demand) -> Demand:
        """Return the outcome that the plan has, if no rule demands it and none forbids it; else `outcome`. Nobody can
        see whether the plan preempts now, or after the next decision."""
        mine = self.left.get(request.name, [])
        if mine and mine[0].losers:
            search = Search(self.facts, request, self.holder_for(request))
            is_wrong = next(faults(search, mine[0].victims(self.facts)), None) is not None
            return outcome if is_wrong or self.choices.choose(2) else Demand.PREEMPT
        is_nominated = any(each.is_nomination and each.pods for each in mine)
        others = (self.facts.works[name] for name in self.withdrawn)
        if is_nominated and any(self.could_take_over(request, other) for other in others):
            return Demand.TAKE_OVER
        return outcome

    def settle(self, request: Request) -> Demand:
        """Hold the plan's decision about the request against the outcome that the rules demand."""
        demand, mine, name = self.demand(request), self.left.get(request.name, []), request.name
        if demand in (Demand.NOMINATE, Demand.PREEMPT, Demand.TAKE_OVER):  # a plan lists such decisions after others
            mine.sort(key=lambda each: not each.is_nomination and not each.losers)
        match demand:
            case Demand.START:
                if not mine and name in self.losers:
                    return self.imagine(request)
                if not mine:
                    self.blame()
                    is_late = self.ends_early
                    raise Broken(
                        self.unstarted(request), f"{name} could start ({request.kind.name.lower()})", is_late=is_late
                    )
                if mine[0].losers or mine[0].is_nomination:
                    is_late = self.ends_early and not mine[0].losers
                    raise Broken("R17", f"{name} could start at once, and {self.said(mine[0])}", is_late=is_late)
                self.start(request, mine, self.holder_for(request))
            case Demand.NOMINATE | Demand.PREEMPT | Demand.TAKE_OVER:
                if not mine:
                    self.blame()
                    rule = "R23" if demand is Demand.TAKE_OVER else "R22" if request.kind is Kind.GROWTH else "R17"
                    raise Broken(
                        rule,
                        f"{name} {demand.value}, and the plan has nothing",
                        is_late=self.is_late,
                    )
                self.nominate(request, demand, mine)
            case Demand.RESERVE:
                self.held = reserve(self.facts, request)
                self.give_up(request, holds=True)
            case Demand.NOTHING:
                self.give_up(request, holds=False)
        return demand

    def blame(self) -> None:
        """Report a wrong preemption before what follows from it. But a cycle that withdraws a nomination, and is
        followed by another at once, may leave the rest to that (R26)."""
        if self.ends_early:
            return
        for job, rest in self.left.items():
            work = self.facts.works[job]
            if rest and rest[0].losers and work.phase is not Phase.STOPPING:
                request = Request(Kind.JOB if work.phase is Phase.QUEUED else Kind.GROWTH, work)
                for rule, text in faults(Search(self.facts, request, None), rest[0].victims(self.facts)):
                    raise Broken(rule, text)

    def unstarted(self, request: Request) -> str:
        """Return the rule by which a request that was left out should have started."""
        if request.kind is Kind.REPLACEMENT and self.held is None:
            return "R5" if any(self.left.values()) else "R11"
        if any(work.surplus for work in self.facts.works.values()):
            return "R10"
        if self.held is not None:
            return "R13"
        return "R7" if any(self.left.values()) else "R11"

    def imagine(self, request: Request) -> Demand:
        """Place a pod of a job that the same plan preempts later: the plan need not mention that pod."""
        room = places(free(self.facts), request.work.asks)
        nodes = sorted((node for node in room if room[node]), key=lambda node: (room[node], node))
        chosen = self.choices.choose(len(nodes) + 1)
        if chosen == len(nodes):
            self.give_up(request, holds=True)
            return Demand.NOTHING
        ordinal = min(request.work.open - request.work.nominated.keys())
        self.put(request.work, {ordinal: nodes[chosen]})
        request.work.imagined.add(ordinal)
        return Demand.START

    def said(self, decision: Decision) -> str:
        what = "is nominated" if decision.is_nomination else "starts"
        return f"{what} on {sorted(decision.pods.values())}, preempting {decision.losers}"

    def give_up(self, request: Request, *, holds: bool) -> None:
        """R14: a request that waits is not tried again; the first of a strict queue blocks the requests behind it."""
        self.tried.add((request.kind, request.name))
        self.known.clear()
        if request.kind is Kind.JOB and not holds:
            self.blocked |= dict.fromkeys(strict_above(self.facts, request.work.queue), request.work.job.priority)

    def start(self, request: Request, mine: list[Decision], held: Reservation | None) -> None:
        """R10, R12: place the minimum; an elastic job gets the rest in the second pass."""
        work, first = request.work, mine.pop(0)
        pods = first.pods  # in the order of the decisions
        if request.kind is Kind.JOB:
            pods = dict(sorted(pods.items()))
            if len(pods) < work.minimum:
                raise Broken("R10", f"{request.name} starts with {len(pods)} pods of its minimum {work.minimum}")
            if work.is_elastic:
                work.surplus = dict(list(pods.items())[work.minimum :])
                pods = dict(list(pods.items())[: work.minimum])
        elif len(pods) > 1:
            mine.insert(0, Decision(False, dict(list(pods.items())[1:])))
            pods = dict(list(pods.items())[:1])
        self.check_nodes(request, pods, free(self.facts), held)
        if request.kind is Kind.JOB and not work.is_elastic:
            self.check_size(request, len(pods))
        if self.held is not None and self.held.request.work is work:
            self.held = None  # the holder has started
        self.put(work, pods)

    def check_size(self, request: Request, pods: int) -> None:
        """R12: a fixed-at-start job starts with as many pods as quota and nodes allow."""
        work, usage = request.work, charges(self.facts, counts_given_back=False)
        if not allows(self.facts, charges(self.facts), work, pods):
            raise Broken("R9", f"{request.name} starts with {pods} pods, and quota does not allow them")
        may_have_more = pods < work.count and allows(self.facts, usage, work, pods + 1) and self.held is None
        if may_have_more and fits(free(self.facts), work.asks, pods + 1):
            raise Broken("R12", f"{request.name} starts with {pods} pods, and one more fits")

    def nominate(self, request: Request, demand: Demand, mine: list[Decision]) -> None:
        """R17, R21, R22: victims are told to stop, and the request starts, or is nominated to their nodes."""
        work, name = request.work, request.name
        if demand is Demand.TAKE_OVER:
            self.hand_over(request)
        held = self.holder_for(request)
        search, first = Search(self.facts, request, held), self.first_pod(request, mine) or mine.pop(0)
        victims = first.victims(self.facts)
        if demand is Demand.PREEMPT:
            for rule, text in faults(search, victims):
                raise Broken(rule, text)
        elif victims:
            raise Broken("R17", f"{name} {demand.value}, and {self.said(first)}")
        at_once = may_take(self.facts, held, request, free(self.facts))
        if at_once == first.is_nomination and not (at_once and demand is Demand.TAKE_OVER):
            raise Broken("R21", f"{name} {self.said(first)}, and its nodes {'are' if at_once else 'are not'} free")
        apply_victims(self.facts, victims)
        if self.held is not None and self.held.request.work.phase is Phase.STOPPING:
            self.held = None
        has_imagined = any(self.facts.works[name].imagined for name in victims)
        pods = {ordinal: node for ordinal, node in first.pods.items() if ordinal not in work.nominated}
        if not first.is_nomination:
            mine.insert(0, Decision(False, first.pods))
            self.known.clear()
            return self.start(request, mine, held)
        if request.kind is Kind.GROWTH and len(pods) > 1:
            mine.insert(0, Decision(True, first.pods))
            pods = {min(pods): pods[min(pods)]}
        elif len(pods) < request.pods or (work.is_elastic and len(pods) > request.pods):
            raise Broken("R10", f"{name} is nominated with {len(pods)} pods; its minimum is {request.pods}")
        self.check_nodes(request, pods, free(self.facts, is_soon=True), held)
        work.nominated = {**work.nominated, **pods}
        work.rank = 1 + max(each.rank for each in self.facts.works.values())
        self.renew()
        if has_imagined:
            self.tried.clear()
            self.blocked.clear()
        if has_imagined or self.held is None:  # victims that leave let a start be foreseen
            self.replacements()
        return None

    def first_pod(self, request: Request, mine: list[Decision]) -> Decision | None:
        """R12: growth is pod by pod: return the decision about the first of several nominated pods, with the fewest
        victims, and leave the others in the plan. None: the plan has one pod, or the victims are not enough."""
        whole = mine[0]
        pods = {each: node for each, node in whole.pods.items() if each not in request.work.nominated}
        if request.kind is not Kind.GROWTH or not whole.is_nomination or len(pods) < 2 or not whole.losers:
            return None
        search = Search(self.facts, request, self.holder_for(request))
        units: list[tuple[str, int | None]] = [(name, None) for name in sorted(whole.gangs)]
        units += [(name, pod) for name, lost in sorted(whole.surplus.items()) for pod in sorted(lost, reverse=True)]
        parts = []
        for taken in (each for count in range(len(units)) for each in combinations(units, count)):
            part = whole._replace(pods={min(pods): pods[min(pods)]}, **losing(taken))
            if next(faults(search, part.victims(self.facts)), None) is None if taken else search.is_enough({}):
                parts.append((part, losing([each for each in units if each not in taken])))
        if not parts:
            return None
        part, rest = parts[self.choices.choose(len(parts))]
        mine[0] = whole._replace(pods={each: node for each, node in whole.pods.items() if each != min(pods)}, **rest)
        return part

    def renew(self) -> None:
        """R13: after a decision that need not respect the reservation, make it anew."""
        self.known.clear()
        if self.held is not None:
            request = self.held.request
            if not fits(free_at(self.facts, self.held.at_s), request.work.asks, request.pods):
                self.held = reserve(self.facts, request)

    def hand_over(self, request: Request) -> None:
        """R23: the nomination is handed over in the same cycle, and the other job is decided again."""
        for name in sorted(self.withdrawn):
            other = self.facts.works[name]
            if self.could_take_over(request, other):
                other.nominated = {}
                self.left[name].pop(0)
                self.withdrawn.discard(name)
                return
        raise Broken("R23", f"{request.name} is nominated, and no job hands its nomination over")

    def check_nodes(self, request: Request, pods: dict[int, str], left: Nodes, held: Reservation | None) -> None:
        """R10, R13: each pod is placed on a node with capacity, and no reservation is delayed."""
        asks, way = request.work.asks, Counter(pods.values())
        for node, count in way.items():
            if node not in left or min(left[node]) < 0 or min(plus(left[node], asks, -count)) < 0:
                raise Broken("R10", f"{request.name} has {count} pods on {node}, which has no capacity for them")
        if held is not None and not respects(self.facts, held, request.work, way):
            raise Broken("R13", f"{request.name} delays the reservation of {held.request.name}")

    def put(self, work: Work, pods: dict[int, str]) -> None:
        """Place the pods of a job that starts, or that runs already."""
        if work.phase is Phase.QUEUED:
            work.phase, work.started_s, work.is_new = Phase.STARTING, self.facts.now_s, True
            if not work.is_elastic:
                work.size = len(pods)
        else:
            work.has_grown = True
        work.pods.update(pods)
        work.open -= pods.keys()
        self.renew()

    def why_not(self, job: str) -> tuple[str, str]:
        """Return the rule that forbids what the plan decided about the job."""
        work = self.facts.works[job]
        what = self.said(self.left[job][0]) if self.left[job] else f"gets pods {sorted(work.surplus)}"
        if work.phase is Phase.STOPPING:
            return "R24", f"{job} is preempted, and {what}"
        kind = Kind.JOB if work.phase is Phase.QUEUED else Kind.GROWTH
        request, facts = Request(kind, work), self.facts
        if kind is Kind.JOB and not is_eligible(facts, work):
            return "R1", f"{job} does not take part, and {what}"
        if self.left[job] and self.left[job][0].losers:
            search = Search(facts, request, self.holder_for(request))
            for rule, text in faults(search, self.left[job][0].victims(facts)):
                return rule, text
        if not self.allows(request):
            return "R9", f"quota does not allow {job}, and it {what}"
        is_nomination = bool(self.left[job]) and self.left[job][0].is_nomination
        left = free(facts, is_soon=is_nomination)
        if not fits(left, work.asks, request.pods):
            return "R10", f"nodes have no capacity for {job}, and it {what}"
        if is_nomination and not may_search(facts, request):
            return "R22" if kind is Kind.GROWTH else "R17", f"{job} may not preempt, and it {what}"
        if not may_take(facts, self.holder_for(request), request, left):
            return "R13", f"{job} delays the reservation of {self.held and self.held.request.name}, and {what}"
        return "R14" if self.blocked else "R11", f"{job} {what}"
