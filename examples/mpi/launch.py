"""The launcher: mpirun over the workers, by their names; and then it lets them go."""

import os
import subprocess
import sys

WORKERS = os.environ["WORKERS"].split(",")


def main() -> int:
    command = ["mpirun", "--host", ",".join(f"{name}:1" for name in WORKERS), "-np", str(len(WORKERS))]
    command += ["--mca", "plm_rsh_agent", "/mnt/agent", "--mca", "plm_rsh_no_tree_spawn", "1"]
    if os.environ["POD_IP"].startswith("127."):  # pods are processes of one machine
        command += ["--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_if_include", "lo"]
    command += ["--mca", "btl", "tcp,self", "python3", "/mnt/pi.py"]
    code = subprocess.run(command, check=False).returncode
    for name in WORKERS:
        subprocess.run(["python3", "/mnt/rsh.py", name, "--end"], check=True)
    return code


sys.exit(main())
