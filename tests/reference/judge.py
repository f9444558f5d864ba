"""Judge a plan by the rules of deciding (`docs/guide/rules.md`).

The judge decides the cycle itself, request by request in the order of the rules. It compares each decision of the plan
with the outcomes that the rules allow. If several outcomes are equally right (nodes, equally cheap victims), the judge
continues with the outcome of the plan. It reports the first broken rule. It does not judge the consequences of a wrong
decision."""

from __future__ import annotations

from phalanx.model.job import Phase
from phalanx.model.plan import Plan

from .choices import Choices
from .decisions import Broken, Decision, Fault
from .execution import Execution
from .facts import Facts
from .nodes import fits, free, may_take, places, reserve
from .order import Contest, Kind, Request, comes_before_heads, replacements, requests, strict_above
from .outcomes import Demand
from .quota import allows, charges, is_eligible
from .rights import may_search
from .victims import Search, faults

WAYS = 64  # the most combinations of open choices that are tried for one plan


def judge(facts: Facts, plan: Plan) -> Fault | None:
    """Return the first rule that the plan breaks on these facts; None: the plan is right.

    R6 leaves open whether growth comes after the waiting jobs of other queues. A plan need not show new pods of a job
    that it preempts later, so the judge cannot see whether these pods took capacity, and on which nodes. Every choice
    is right. If the plan is only late under one choice, the fault is late."""
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


class Walk(Execution):
    """Judge one cycle: go through the requests in the order of the rules, and compare each outcome with the plan.
    `in_second_pass`: whether the last decision placed a pod above a minimum (R10)."""

    in_second_pass = False

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
        """R4: judge the nominations first, the oldest first."""
        nominated = [work for work in self.facts.works.values() if work.nominated]
        for work in sorted(nominated, key=lambda each: each.rank):
            name, mine = work.job.id, self.left.get(work.job.id, [])
            withdraws = bool(mine) and mine[0].is_nomination and not mine[0].pods and not mine[0].losers
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

    # R5: replacements

    def replacements(self) -> None:
        """R5: judge the replacements second, by priority. For equal priorities, take the order of the plan: the rules
        do not define whether the age is that of the job or of the lost pod."""
        found = replacements(self.facts)
        for priority in sorted({each.work.job.priority for each in found}, reverse=True):
            here = [each for each in found if each.work.job.priority == priority]
            if len(here) > 1 and not self.choices.choose(2):
                here.sort(key=lambda each: [*self.left, each.name].index(each.name))
            losing = [each for each in here if each.name in self.losers]
            losing = losing if losing and not self.choices.choose(2) else []  # the order of these is open as well
            for request in losing:
                while request.work.missing() and self.settle(request) is Demand.START:
                    pass
            for request in here:
                while request.work.missing() and self.left.get(request.name) and self.settle(request) is Demand.START:
                    pass
            short = [each for each in here if each.work.missing()]
            first = self.choices.choose(len(short)) if len(short) > 1 and self.held is None else 0
            for request in short[first:] + short[:first]:
                while request.work.missing() and self.settle(request) is Demand.START:
                    pass

    # R6 to R14: requests

    def tournament(self) -> None:
        """R6 to R8: decide the requests in order, until no further request would get anything."""
        while True:
            waiting = requests(self.facts, lambda work: is_eligible(self.facts, work))
            main = [each for each in waiting if each.kind is not Kind.SURPLUS]
            self.try_again(main)
            tried = self.tried
            holder = self.held and self.held.request
            if holder and self.left.get(holder.name) and self.demand(holder) is not Demand.NOTHING:
                tried = tried - {(holder.kind, holder.name)}  # victims of the holder were found later
            contest = Contest(self.facts, main, self.gets_something, tried, self.blocked, self.growth_last)
            request = contest.first()
            further = [each for each in waiting if each.kind is Kind.SURPLUS]
            further = [each for each in further if request is None or self.comes_first(each, main, contest)]
            self.in_second_pass = self.place_surplus(further)
            if self.in_second_pass:
                continue
            if request is None:
                return
            self.settle(request)

    def try_again(self, waiting: list[Request]) -> None:
        """R8: the head of a strict queue that found no victims may preempt after other requests have started."""
        for request in waiting:
            key = request.kind, request.name
            mine = self.left.get(request.name) if key in self.tried and self.blocked else None
            if mine and mine[0].losers and self.demand(request) is Demand.PREEMPT:
                self.tried.discard(key)
                for queue in strict_above(self.facts, request.work.queue):
                    self.blocked.pop(queue, None)

    def comes_first(self, further: Request, main: list[Request], contest: Contest) -> bool:
        """R10: return whether a pod above a minimum comes before all other requests, because no minimum of its priority
        or a higher one is left. One exception: placing such pods may let a request find victims. This request may be
        tried before the next of these pods, or after the last."""
        priority = further.work.job.priority
        left = [each for each in main if each.work.job.priority >= priority and contest.may_be_tried(each)]
        may_wait = self.in_second_pass and all(self.demand(each) is Demand.PREEMPT for each in left)
        return bool(further.work.surplus) and (not left or (may_wait and bool(self.choices.choose(2))))

    def place_surplus(self, further: list[Request]) -> bool:
        """R10: place a pod above the minimum of a job that starts in this cycle, for the queue with the smaller share.
        Return False if there is none to place."""
        can = [each for each in further if self.demand(each) is Demand.START or self.may_grow_now(each)]
        urgent = [each for each in can if all(each.work.job.priority >= other.work.job.priority for other in can)]
        before = [each for each in can if each.work.surplus and comes_before_heads(self.facts, each, self.blocked)]
        heads, every = self.blocked, lambda _: True
        orders = ((can, heads, False), (can, heads, True), (urgent, heads, False), (before, {}, False))
        found = [Contest(self.facts, some, every, set(), by, by_share=fair).first() for some, by, fair in orders]
        request = next((each for each in found if each and each.work.surplus), found[0])
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
        """R21: return whether the plan starts a job with a further pod that needs quota which was given back in this
        cycle. The rules neither demand nor forbid this pod."""
        is_allowed = bool(request.work.surplus) and allows(self.facts, charges(self.facts), request.work, 1)
        return is_allowed and may_take(self.facts, self.holder_for(request), request, free(self.facts))

    def disputed(self, request: Request, outcome: Demand) -> Demand:
        """Return the outcome in the plan, if no rule demands it and none forbids it; else `outcome`. The plan does not
        show whether it preempts now, or after the next decision."""
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
        """Decide the request by the rules, and compare the outcome with the plan's decision. Return the outcome."""
        demand, mine, name = self.demand(request), self.left.get(request.name, []), request.name
        if demand in (Demand.NOMINATE, Demand.PREEMPT, Demand.TAKE_OVER):  # a plan lists these decisions after others
            mine.sort(key=lambda each: not each.is_nomination and not each.losers)
        match demand:
            case Demand.START:
                if not mine and name in self.losers:
                    return self.imagine(request)
                if not mine:
                    self.blame()
                    text = f"{name} could start ({request.kind.name.lower()})"
                    raise Broken(self.unstarted(request), text, is_late=self.ends_early)
                if mine[0].losers or mine[0].is_nomination:
                    is_late = self.ends_early and not mine[0].losers
                    raise Broken("R17", f"{name} could start at once, and {self.said(mine[0])}", is_late=is_late)
                self.start(request, mine, self.holder_for(request))
            case Demand.NOMINATE | Demand.PREEMPT | Demand.TAKE_OVER:
                if name in self.losers and not (mine and mine[0].pods):
                    self.imagine_growth(request, mine)
                if not mine:
                    self.blame()
                    rule = "R23" if demand is Demand.TAKE_OVER else "R22" if request.kind is Kind.GROWTH else "R17"
                    raise Broken(rule, f"{name} {demand.value}, and the plan has nothing", is_late=self.is_late)
                if self.nominate(request, demand, mine):
                    self.replacements()
            case Demand.RESERVE:
                self.held = reserve(self.facts, request)
                self.give_up(request, holds=True)
            case Demand.NOTHING:
                self.give_up(request, holds=self.held is not None and self.held.request.work is request.work)
        return demand

    def blame(self) -> None:
        """Report a wrong preemption before its consequences. A cycle that withdraws a nomination, and is followed by
        another cycle at once, may leave further decisions to that cycle (R26)."""
        if self.ends_early:
            return
        for job, rest in self.left.items():
            work = self.facts.works[job]
            if rest and rest[0].losers and work.phase is not Phase.STOPPING:
                request = Request(Kind.JOB if work.phase is Phase.QUEUED else Kind.GROWTH, work)
                for rule, text in faults(Search(self.facts, request, None), rest[0].victims(self.facts)):
                    raise Broken(rule, text)

    def unstarted(self, request: Request) -> str:
        """Return the rule that requires the start of a request which the plan leaves out."""
        if request.kind is Kind.REPLACEMENT and self.held is None:
            return "R5" if any(self.left.values()) else "R11"
        if any(work.surplus for work in self.facts.works.values()):
            return "R10"
        return "R13" if self.held is not None else "R7" if any(self.left.values()) else "R11"

    def imagine(self, request: Request) -> Demand:
        """Place a pod of a job that the plan preempts later. The plan need not show this pod."""
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

    def imagine_growth(self, request: Request, mine: list[Decision]) -> None:
        """R24: choose a node for a pod that the plan does not show, because the plan preempts the pod's job later."""
        first = (self.first_pod(request, mine) or mine.pop(0)) if mine and mine[0].losers else Decision(True, {})
        victims, held = first.victims(self.facts), self.holder_for(request)
        search, at_once = Search(self.facts, request, held), may_take(self.facts, held, request, free(self.facts))
        left = search.without_nominations(free(self.facts, is_soon=True, gone=victims), victims)
        if nodes := sorted(node for node, pods in places(left, request.work.asks).items() if pods):
            pods = {min(request.work.open - request.work.nominated.keys()): nodes[self.choices.choose(len(nodes))]}
            mine.insert(0, first._replace(is_nomination=not at_once, pods=pods))

    def give_up(self, request: Request, *, holds: bool) -> None:
        """R14: mark a waiting request as tried. The head of a strict queue then blocks the requests behind it."""
        self.tried.add((request.kind, request.name))
        self.known.clear()
        if request.kind is Kind.JOB and not holds:
            self.blocked |= dict.fromkeys(strict_above(self.facts, request.work.queue), request.work.job.priority)

    def why_not(self, job: str) -> tuple[str, str]:
        """Return the rule that forbids the plan's decision about the job."""
        work = self.facts.works[job]
        what = self.said(self.left[job][0]) if self.left[job] else f"gets pods {sorted(work.surplus)}"
        if work.phase is Phase.STOPPING:
            return "R24", f"{job} is preempted, and {what}"
        request, facts = Request(Kind.JOB if work.phase is Phase.QUEUED else Kind.GROWTH, work), self.facts
        if request.kind is Kind.JOB and not is_eligible(facts, work):
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
            return "R22" if request.kind is Kind.GROWTH else "R17", f"{job} may not preempt, and it {what}"
        if not may_take(facts, self.holder_for(request), request, left):
            return "R13", f"{job} delays the reservation of {self.held and self.held.request.name}, and {what}"
        return "R14" if self.blocked else "R11", f"{job} {what}"
