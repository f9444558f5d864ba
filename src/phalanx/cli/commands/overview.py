"""The overview of all commands: the text of `phalanx --help`. This module has no imports, so that the text is printed
without delay."""

from __future__ import annotations

from keyword import iskeyword

# folder of `commands` -> the title of this group of commands
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
ABOUT = "A batch scheduler for Kubernetes. All pods of a job start together, or none of them."
_EXAMPLES = """For example:

    phalanx up                       # a Kubernetes on this machine, until Ctrl-C
    phalanx run -- echo hello        # a Job without writing YAML
        phalanx jobs                     # running and waiting jobs, and why they wait
        phalanx logs JOB                 # the output of a job, also after its end

`phalanx COMMAND --help` describes a command and its options.
"""

# name -> (folder of `commands`, a description of one line). The function of a command has the command's name, and is in
# a module with this name.
COMMANDS = {
    "up": ("one_machine", "Start a Kubernetes on this machine. Ctrl-C stops it."),
    "down": ("one_machine", "Stop the cluster of this machine."),
    "login": ("one_machine", "Become a user of a cluster that is shared on this machine."),
    "install": ("one_machine", "Install a shared cluster of this machine as a service of systemd."),
    "image": ("one_machine", "Manage the images that containers of this machine run."),
    "demo": ("one_machine", "Run six applications at once: first pod by pod, then as gangs."),
    "backup": ("one_machine", "Write a cluster of this machine into a file, also while the cluster runs."),
    "restore": ("one_machine", "Restore a cluster of this machine from a backup."),
    "scheduler": ("in_cluster", "Schedule the jobs of any Kubernetes cluster."),
    "webhook": ("in_cluster", "Prepare new Jobs for Phalanx, for API servers before Kubernetes 1.36."),
    "visibility": ("in_cluster", "Serve an API about waiting jobs in a cluster."),
    "deploy": ("in_cluster", "Print the manifests that install Phalanx in a cluster."),
    "slurm": ("work", "Install Slurm's commands: sbatch, squeue and others."),
    "run": ("work", "Run a command as a Job, show its output, exit with its exit code."),
    "submit": ("work", "Submit Jobs from files, or a Job made from a command."),
    "completion": ("work", "Complete commands and names of jobs in bash, zsh and fish."),
    "logs": ("attend", "Show the output of a job, also after its pods are deleted."),
    "wait": ("attend", "Wait until jobs have ended, and exit with their exit code."),
    "cancel": ("attend", "End jobs, or take them out of the queue."),
    "hold": ("attend", "Keep jobs queued."),
    "release": ("attend", "Let held jobs start."),
    "nice": ("attend", "Change the place of jobs in a multifactor queue."),
    "rerun": ("attend", "Submit an ended job again."),
    "attach": ("attend", "Follow a job again, exit with its exit code."),
    "shell": ("inside", "Run a shell or a command in a pod of a job."),
    "cp": ("inside", "Copy files from and to a pod of a job."),
    "port-forward": ("inside", "Forward a port of this machine to a pod of a job."),
    "examples": ("work", "Show and copy the examples that come with Phalanx."),
    "status": ("status", "Show whether the scheduler runs, and how many nodes, queues and jobs there are."),
    "jobs": ("status", "List running and waiting jobs: since when, and why they wait."),
    "top": ("status", "Show nodes, queues and jobs live, with their measured usage."),
    "explain": ("status", "Explain in full why a job waits."),
    "history": ("status", "List past and present jobs, and what each user consumed."),
    "ledger": ("status", "Export, archive and purge the ledger."),
    "dashboard": ("status", "Show all of this on a page in a browser."),
    "nodes": ("status", "Show the resources of each node, and the jobs that use them."),
    "queues": ("status", "Show the queues, with their quota, usage and jobs."),
    "replay": ("study", "Go through a recording of a scheduler, decision by decision."),
    "whatif": ("study", "Forecast what a change would do, before you make it."),
    "snapshot": ("study", "Write the present state of a cluster into a file."),
    "migrate": ("study", "Show what the queues of another scheduler become in Phalanx."),
    "import": ("study", "Convert the configuration of a Slurm site."),
    "queue": ("administer", "Create, edit, drain or delete a queue."),
    "clusters": ("administer", "Show other clusters to which jobs are sent, and why one gets no jobs."),
    "doctor": ("administer", "Show what this cluster enforces, which problems it has, and how to solve them."),
    "move": ("administer", "Move queues, accounts, ledger and waiting jobs to another cluster."),
    "simulate": ("study", "Run traces in virtual time, and compare policies."),
}


def import_path(name: str) -> str:
    """Return the import path of the function of command `name`, as `module:function`."""
    room = f"{name}_" if iskeyword(name) else name.replace("-", "_")
    return f"phalanx.cli.commands.{COMMANDS[name][0]}.{room}:{room}"


def overview(*, bold: bool = False) -> str:
    """Return the overview of all commands, grouped by title. `bold`: print the titles bold, for a terminal."""
    width = max(map(len, COMMANDS)) + 2
    lines = ["Usage: phalanx COMMAND", "", ABOUT]
    for folder, title in TITLES.items():
        lines += ["", f"\x1b[1m{title}\x1b[0m" if bold else title]
        lines += [f"  {name:{width}}{line}" for name, (its, line) in COMMANDS.items() if its == folder]
    return "\n".join([*lines, "", f"  {'--version':{width}}Print the version.", "", _EXAMPLES])
