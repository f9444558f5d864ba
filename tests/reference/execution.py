"""Apply the decisions of a plan to the facts one by one, and check each. For each decision, nodes must have capacity
for the whole minimum (R10), and no reservation may be delayed (R13)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from phalanx.model.job import Phase
from phalanx.model.plan import Nominate, Place, Plan, Preempt

from .choices import Choices
from .decisions import Broken, Decision, decisions, losing
from .facts import Facts, Nodes, Work, plus
from .nodes import Reservation, fits, free, free_at, may_take, reserve, respects
from .order import Kind, Request, strict_above
from .outcomes import Cycle, Demand
from .quota import allows, charges
from .victims import Search, apply_victims, faults


class Execution(Cycle):
    """A cycle whose decisions come from a plan.

    `left`: job -> the decisions of the plan that are not judged yet.
    `withdrawn`: jobs whose nomination the plan withdraws in favour of another job.
    `losers`: jobs that the plan preempts.
    `tried`: requests that were tried in this cycle and got nothing.
    `blocked`: queue whose strict head waits -> the priority of that head.
    `known`: request -> its outcome on the present facts."""

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

    def start_nominated(self, work: Work, mine: list[Decision]) -> None:
        """R4, R10: a nominated job starts, or its nominated pods are placed, when its nodes are free."""
        name, wanted = work.job.id, len(work.nominated)
        if not mine and name in self.losers:  # the plan need not mention the pods of a job that it preempts later
            work.imagined, work.nominated, pods = work.imagined | work.nominated.keys(), {}, work.nominated
            return self.put(work, pods)
        if not mine or mine[0].is_nomination:
            raise Broken("R4", f"the nodes of {name}'s nomination are free: it does not start", is_late=self.ends_early)
        first, left = mine.pop(0), Counter(work.nominated.values())
        if first.losers or not Counter(first.pods.values()) >= left:
            raise Broken("R4", f"{name} does not start on the nodes of its nomination")
        if work.phase is Phase.QUEUED and wanted < work.minimum:
            raise Broken("R10", f"{name} starts with {wanted} pods of its minimum {work.minimum}")
        work.nominated, taken = {}, {}
        for ordinal, node in sorted(first.pods.items()):
            if left[node]:
                left[node] -= 1
                taken[ordinal] = node
        self.put(work, taken)
        work.surplus = {ordinal: node for ordinal, node in first.pods.items() if ordinal not in taken}
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

    def start(self, request: Request, mine: list[Decision], held: Reservation | None) -> None:
        """R10, R12: place the minimum. An elastic job gets its further pods in the second pass."""
        work, pods = request.work, mine.pop(0).pods
        rows = list(pods.items())  # in the order of the decisions
        if request.kind is not Kind.JOB and len(rows) > 1:
            mine.insert(0, Decision(False, dict(rows[1:])))
            pods = dict(rows[:1])
        elif request.kind is Kind.JOB and len(rows) < work.minimum:
            raise Broken("R10", f"{request.name} starts with {len(rows)} pods of its minimum {work.minimum}")
        elif request.kind is Kind.JOB and work.is_elastic:
            rows.sort()
            pods, work.surplus = dict(rows[: work.minimum]), dict(rows[work.minimum :])
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

    def nominate(self, request: Request, demand: Demand, mine: list[Decision]) -> bool:
        """R17, R21, R22: preempt the victims, then start the request or nominate it to their nodes. Return whether
        replacements are tried again."""
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
        all_again = any(self.facts.works[name].imagined for name in victims)
        if self.held and (self.held.request.work is work or self.held.request.work.phase is Phase.STOPPING):
            # R13: the next request gets a reservation, although it may have been tried before
            self.held, all_again = None, True
        if all_again:
            self.tried.clear()
            self.blocked.clear()
        pods = {ordinal: node for ordinal, node in first.pods.items() if ordinal not in work.nominated}
        if not first.is_nomination:
            mine.insert(0, Decision(False, first.pods))
            self.known.clear()
            self.start(request, mine, held)
            return all_again
        if request.kind is Kind.GROWTH and len(pods) > 1:
            mine.insert(0, Decision(True, first.pods))
            pods = {min(pods): pods[min(pods)]}
        elif len(pods) < request.pods or (work.is_elastic and len(pods) > request.pods):
            raise Broken("R10", f"{name} is nominated with {len(pods)} pods; its minimum is {request.pods}")
        self.check_nodes(request, pods, free(self.facts, is_soon=True), held)
        work.nominated = {**work.nominated, **pods}
        work.rank = 1 + max(each.rank for each in self.facts.works.values())
        self.renew()
        return all_again or self.held is None  # after victims terminate, the start time of a request may be known

    def first_pod(self, request: Request, mine: list[Decision]) -> Decision | None:
        """R12: a job grows pod by pod. Choose the decision about the first of several nominated pods, with as few
        victims as possible, and leave the other pods in the plan. The pods are equal, so each of them may be the first.
        Return None if the plan has one pod, or if the victims free too little. If the plan preempts the job later, it
        shows no pods."""
        whole = mine[0]
        pods = {each: node for each, node in whole.pods.items() if each not in request.work.nominated}
        if request.kind is not Kind.GROWTH or not whole.is_nomination or len(pods) == 1 or not whole.losers:
            return None
        search = Search(self.facts, request, self.holder_for(request))
        units: list[tuple[str, int | None]] = [(name, None) for name in sorted(whole.gangs)]
        units += [(name, pod) for name, lost in sorted(whole.surplus.items()) for pod in sorted(lost, reverse=True)]
        parts = []
        for taken in (each for count in range(len(units)) for each in combinations(units, count)):
            part = whole._replace(**losing(taken))
            if next(faults(search, part.victims(self.facts)), None) is None if taken else search.is_enough({}):
                parts += [(ordinal, part, losing({*units} - {*taken})) for ordinal in pods or [0]]
        if not parts:
            return None
        first, part, rest = parts[self.choices.choose(len(parts))]
        mine[0] = whole._replace(pods={each: node for each, node in whole.pods.items() if each != first}, **rest)
        return part._replace(pods={each: node for each, node in pods.items() if each == first})

    def renew(self) -> None:
        """R13: compute the reservation again after a decision that need not respect it."""
        self.known.clear()
        held = self.held
        if held and not fits(free_at(self.facts, held.at_s), held.request.work.asks, held.request.pods):
            self.held, work = reserve(self.facts, held.request), held.request.work
            # R14: without a reservation, the request blocks its strict queues
            if self.held is None and held.request.kind is Kind.JOB:
                self.blocked |= dict.fromkeys(strict_above(self.facts, work.queue), work.job.priority)

    def hand_over(self, request: Request) -> None:
        """R23: withdraw the nomination of another job in this cycle. The other job is decided again."""
        works = self.facts.works
        other = next((name for name in sorted(self.withdrawn) if self.could_take_over(request, works[name])), None)
        if other is None:
            raise Broken("R23", f"{request.name} is nominated, and no job hands its nomination over")
        works[other].nominated = {}
        self.left[other].pop(0)
        self.withdrawn.discard(other)

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

    def said(self, decision: Decision) -> str:
        what = "is nominated" if decision.is_nomination else "starts"
        return f"{what} on {sorted(decision.pods.values())}, preempting {decision.losers}"
