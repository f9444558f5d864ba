"""Pi by the midpoint rule, each rank every n-th strip, put together by MPI_Allreduce."""

import json
import math
import socket

from mpi4py import MPI

STRIPS = 300_000

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
mine = sum(4 / (1 + ((strip + 0.5) / STRIPS) ** 2) for strip in range(rank, STRIPS, size)) / STRIPS
pi = world.allreduce(mine)
hosts = world.gather(socket.gethostname())
if rank == 0:
    result = {
        "size": size,
        "hosts": hosts,
        "error": abs(pi - math.pi),
        "library": MPI.Get_library_version().split(",")[0],
    }
    print("RESULT " + json.dumps(result), flush=True)
