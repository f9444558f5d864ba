"""The overview of all commands: the text of `phalanx --help`. It imports no other module, so that it prints at once."""

from __future__ import annotations

from keyword import iskeyword

# folder of `commands` -> the title of its commands
TITLES = {
    "one_machine": "A cluster on this machine",
    "in_cluster": "In a cluster",
    "work": "Work",
    "attend": "A job",
    "inside": "Inside a job",
    "status": "What runs, what waits, and why",
    "study": "Planning and simulation",
    "administer": "Administration",
}
ABOUT = "A batch scheduler: a job starts whole or not at all."
_EXAMPLES = """For example:

    phalanx up                       # a Kubernetes on this machine, until Ctrl-C
    phalanx run -- echo hello        # a Job without writing YAML
    phalanx jobs                     # running and waiting jobs, and why
    phalanx logs JOB                 # its output, also when it is over

`phalanx COMMAND --help` says more.
"""

# name -> (folder of `commands`, a description of one line). Each is the function of that name in the module of that
# name.
COMMANDS = {
    "up": ("one_machine", "Start a Kubernetes on this machine. Ctrl-C stops it."),
    "down": ("one_machine", "Stop the cluster of this machine."),
    "login": ("one_machine", "Become a user of the cluster that this machine shares."),
    "install": ("one_machine", "Make a shared cluster of this machine a service of systemd."),
    "image": ("one_machine", "Images that containers of this machine run."),
    "demo": ("one_machine", "Six applications at once: first pod by pod, then as gangs."),
    "backup": ("one_machine", "Write a cluster of this machine into a file, while it runs."),
    "restore": ("one_machine", "Put a cluster of this machine back from such a file."),
    "scheduler": ("in_cluster", "Schedule the jobs of any Kubernetes cluster."),
    "webhook": ("in_cluster", "Make Jobs ours, for API servers before Kubernetes 1.36."),
    "visibility": ("in_cluster", "Answer an API about waiting jobs in a cluster."),
    "deploy": ("in_cluster", "The manifests that install Phalanx in a cluster."),
    "slurm": ("work", "Slurm's commands: install sbatch, squeue and others."),
    "run": ("work", "Run a command as a Job, show its output, end with its exit code."),
    "submit": ("work", "Queue Jobs from files, or one made from a command."),
    "completion": ("work", "Complete commands and names of jobs in bash, zsh and fish."),
    "logs": ("attend", "The output of a job, also after its pods are gone."),
    "wait": ("attend", "Wait until jobs are over; the exit code is theirs."),
    "cancel": ("attend", "End jobs, or take them out of the queue."),
    "hold": ("attend", "Keep jobs queued."),
    "release": ("attend", "Let jobs start that are held."),
    "nice": ("attend", "Change the place of jobs in a multifactor queue."),
    "rerun": ("attend", "Submit a job once more that is over."),
    "attach": ("attend", "Follow a job again, end with its exit code."),
    "shell": ("inside", "A shell in a pod of a job, or a command."),
    "cp": ("inside", "Copy files from and to a pod of a job."),
    "port-forward": ("inside", "Reach a port of a pod of a job on this machine."),
    "examples": ("work", "The examples that come with Phalanx."),
    "status": ("status", "The cluster, its scheduler, and how much is in it."),
    "jobs": ("status", "What runs, what waits, since when, and why."),
    "top": ("status", "Nodes, queues and jobs, live, with what they really use."),
    "explain": ("status", "Why a job waits, in full."),
    "history": ("status", "What ran: jobs that are over too, and what each user took."),
    "ledger": ("status", "The ledger as files: exported, archived, purged."),
    "dashboard": ("status", "A page that shows all of this in a browser."),
    "nodes": ("status", "What each node has, and who uses it."),
    "queues": ("status", "The queues, and what is in them."),
    "replay": ("study", "Go through a recording of a scheduler, decision by decision."),
    "whatif": ("study", "See what a change would do, before it is made."),
    "snapshot": ("study", "Write down what a cluster is now."),
    "migrate": ("study", "See what the queues of another scheduler become here."),
    "import": ("study", "Take over the site of another scheduler: Slurm's."),
    "queue": ("administer", "Create, edit, drain or delete a queue."),
    "clusters": ("administer", "Other clusters that get jobs, and why one gets none."),
    "doctor": ("administer", "What this cluster enforces, what is wrong in it, and how to mend that."),
    "move": ("administer", "Move queues, accounts, ledger and waiting jobs to another cluster."),
    "simulate": ("study", "Play traces in virtual time, and compare policies."),
}


def import_path(name: str) -> str:
    """Return where the function of a command is, as `module:function`."""
    room = f"{name}_" if iskeyword(name) else name.replace("-", "_")
    return f"phalanx.cli.commands.{COMMANDS[name][0]}.{room}:{room}"


def overview(*, bold: bool = False) -> str:
    """Return all commands by their titles. `bold`: for a terminal."""
    width = max(map(len, COMMANDS)) + 2
    lines = ["Usage: phalanx COMMAND", "", ABOUT]
    for folder, title in TITLES.items():
        lines += ["", f"\x1b[1m{title}\x1b[0m" if bold else title]
        lines += [f"  {name:{width}}{line}" for name, (its, line) in COMMANDS.items() if its == folder]
    return "\n".join([*lines, "", f"  {'--version':{width}}Print the version.", "", _EXAMPLES])
