"""What is around the flows of `flows.py`: Prefect's server, and a worker that makes a Job of each run, here both as
processes of this machine; the flows are deployed and run, and their Jobs are looked at."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep
from typing import Any

HOME, BIN, POOL = Path(os.environ["HOME"]), Path(sys.executable).parent, "cluster"
with socket.create_server(("127.0.0.1", 0)) as found:
    PORT = found.getsockname()[1]
# Prefect's own settings, before it is imported: a server of this run's.
os.environ |= {
    "PREFECT_HOME": str(HOME / "prefect"),
    "PREFECT_API_URL": f"http://127.0.0.1:{PORT}/api",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}


@contextmanager
def running(*words: str) -> Iterator[None]:
    process = subprocess.Popen([str(BIN / "prefect"), *words], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def await_server() -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", PORT), timeout=10).close()
        except OSError:
            sleep(0.3)
        else:
            return


def deploy() -> None:
    """Jobs run by what is installed here, and wait in a queue."""
    from prefect import flow

    variables: dict[str, Any] = {
        "image": "host",
        "command": f"{BIN}/prefect flow-run execute",
        "labels": {"phalanx.dev/queue": "default"},
        "finished_job_ttl": 600,
    }
    for name in ("squares", "fails"):
        source = flow.from_source(source=str(Path(__file__).parent), entrypoint=f"flows.py:{name}")
        source.deploy("host", work_pool_name=POOL, job_variables=variables)


def jobs() -> dict[str, int]:
    """Name of a flow -> pods of its Job that ended well."""
    from kubernetes_asyncio import client, config  # of Prefect's own

    async def look() -> dict[str, int]:
        await config.load_kube_config()
        async with client.ApiClient() as api:
            found = await client.BatchV1Api(api).list_namespaced_job("default")
        return {job.metadata.labels["prefect.io/flow-name"]: job.status.succeeded or 0 for job in found.items}

    return asyncio.run(look())


def main() -> None:
    with ExitStack() as around:
        around.enter_context(running("server", "start", "--host", "127.0.0.1", "--port", str(PORT)))
        await_server()
        subprocess.run([str(BIN / "prefect"), "work-pool", "create", POOL, "--type", "kubernetes"], check=True)
        around.enter_context(running("worker", "start", "--pool", POOL, "--type", "kubernetes"))
        from prefect.deployments import run_deployment

        deploy()
        told = HOME / "told"
        done = run_deployment("squares/host", parameters={"most": 5, "into": str(told)}, timeout=300)
        assert str(done.state).startswith("Completed"), done
        assert told.read_text().startswith(f"[0, 1, 4, 9, 16] {done.name}-"), told.read_text()
        failed = run_deployment("fails/host", timeout=300)
        assert str(failed.state).startswith("Failed"), failed
        assert jobs() == {"squares": 1, "fails": 1}, "a Job ends well where Prefect was told how the flow ended"
    print("a flow ran as a Job in a queue and ended well; another failed, and Prefect says so")


if __name__ == "__main__":
    main()
