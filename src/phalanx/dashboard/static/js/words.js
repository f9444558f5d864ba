// Reason codes in words, and what follows from each.

export const CODE_WORDS = {
  ArrayLimit: "for a turn in the array",
  Backoff: "to be tried again",
  BeginTime: "not before a time",
  BehindHead: "behind the first of the queue",
  Dependency: "for another job",
  DependencyNeverSatisfied: "for a job that ended otherwise",
  DeadlineMissed: "past its deadline",
  Held: "held",
  Invalid: "invalid",
  NamespaceQuota: "for the namespace’s quota",
  NeverFits: "larger than any node",
  NeverWithinLimit: "larger than a limit",
  NoDomain: "for a topology domain",
  NoNodeMatches: "no node matches",
  NoRoom: "for capacity",
  PlacementRules: "for its placement rules",
  Preempted: "after a preemption",
  Preempting: "for others to leave",
  QueueClosed: "its queue is closed",
  QueueHeld: "its queue is held",
  QueueLimit: "at the queue’s limit",
  QueueMisconfigured: "its queue is misconfigured",
  QueueQuota: "for quota to borrow",
  QueueUnknown: "its queue does not exist",
  Reserved: "so as not to delay another",
  Starts: "to be started now",
  UserLimit: "at the user’s limit",
  WaitingForMembers: "for its other members",
  WaitingForVolumes: "for a volume",
};

const ADVICE = {
  ArrayLimit: "More of them run at a time if the array’s limit is raised.",
  Backoff: "A start failed, and it is tried again by itself.",
  BeginTime: "Its owner asked for that.",
  BehindHead: "Its queue starts jobs strictly in order, so the job that blocks the first blocks all behind it.",
  Dependency: "It starts when the other job has ended as it should.",
  DependencyNeverSatisfied: "Waiting will not help: submit it again without the dependency, or after another job.",
  DeadlineMissed: "Waiting will not help: it could not end in time any more.",
  Held: "It does not start until it is released.",
  Invalid: "Waiting will not help: correct the manifest and submit it again.",
  NeverFits: "Waiting will not help. Smaller pods would, or larger nodes.",
  NeverWithinLimit: "Waiting will not help: ask for less, or have the limit raised.",
  NoNodeMatches: "Waiting will not help. Change the selector or the tolerations, or label a node.",
  NoRoom: "Nothing forbids it: it starts as soon as enough is free.",
  NoDomain: "It starts when one domain has enough free nodes.",
  Preempting: "Pods are ending to make capacity for it. It starts in a moment.",
  QueueHeld: "It starts when the queue is opened.",
  QueueLimit: "It starts when a job of that queue ends, or the limit is raised.",
  QueueQuota: "It starts when its queue uses less, or another queue has quota to lend.",
  QueueUnknown: "It starts when a queue of that name is created.",
  UserLimit: "It starts when one of the user’s jobs ends.",
  WaitingForMembers: "It starts when all of its members exist.",
  WaitingForVolumes: "It starts by itself when the claim is there.",
};
/** What follows from a reason, in a sentence. @param {string} code */
export const adviceOf = (code) => ADVICE[code] ?? "";

/** Which numbers of a reason name the blocking jobs, and what they are to it. @param {{ code: string, numbers: any }} reason @returns {[string, Map<string, number>]} */
export function blockers(reason) {
  const { code, numbers } = reason;
  const found = new Map();
  const add = (value, amount = 0) => {
    if (typeof value === "string") {
      if (value.includes("/")) found.set(value, amount);
    } else if (Array.isArray(value)) value.forEach((one) => add(one));
    else if (value) for (const [id, n] of Object.entries(value)) add(id, Number(n) || 0);
  };
  if (code === "Preempting") add(numbers.waits_for);
  else if (code === "Reserved") add(numbers.for);
  else if (code === "Dependency") add(numbers.jobs);
  else if (code === "DependencyNeverSatisfied") add(numbers.job);
  else if (code === "Preempted") add(numbers.by);
  else {
    add(numbers.holders);
    if (!found.size) add(numbers.jobs);
    if (!found.size) add(numbers.head ?? numbers.for);
  }
  const titles = {
    Preempting: "Jobs that are making room",
    Reserved: "The job before it",
    BehindHead: "The job before it",
    Dependency: "The jobs that it waits for",
    DependencyNeverSatisfied: "The job that it waited for",
    Preempted: "The job that preempted it",
    UserLimit: "Running jobs of its user",
  };
  return [titles[code] ?? "Jobs that hold most of it", found];
}
