"""The shared API server: a real process, one for each session. And the settings of property tests.

Examples are the same in every run and have no time limit, so that a failing test points to the change, not to chance or
to a busy machine. `make fuzz` tries many more, random examples."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import signal
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.cli.upstart import Up, started
from tests.embedded.apiserver.process import ServerProcess

ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", ANY_MACHINE, derandomize=True, max_examples=50)
settings.register_profile("few", ANY_MACHINE, derandomize=True, max_examples=15)
settings.register_profile("fuzz", ANY_MACHINE, max_examples=2000)
settings.load_profile("same")


# A shell that starts the run in the background, and `nohup`, ignore these signals. Each process of the tests would
# ignore them too. Some tests end a process by one of them.
DEFAULTS = (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
)
for number, usual in DEFAULTS:
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# Modules and the thousands of tests are there until the end: the collector need not walk them, nor look for garbage
# among them while they are made.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the examples of property tests the same, whichever modules a run imports.

    Hypothesis takes some examples from the constants in the source of all imported modules, and each worker would parse
    a thousand modules for them. `make fuzz` does so. Without the slow tests there are fewer examples."""
    if config.getoption("hypothesis_profile") is None:
        providers._get_local_constants = lambda: providers._local_constants
        if "not slow" in config.getoption("markexpr"):
            settings.load_profile("few")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import a share of the test modules before the others, in each worker of a parallel run.

    pytest compiles a test module once and keeps the result. In a fresh clone, each worker would compile all modules."""
    if (worker := getattr(session.config, "workerinput", None)) is None:
        return
    root, number = session.config.rootpath, int(worker["workerid"].removeprefix("gw"))
    files = sorted(path for folder in session.config.args for path in (root / folder).rglob("test_*.py"))
    for path in files[number :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # the collection reports it
            import_module(".".join(path.relative_to(root).with_suffix("").parts))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session")
def shared_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A `phalanx up` with 4 cpus. It is shared, so use names of jobs of your own, and leave nothing running."""
    with started(tmp_path_factory.mktemp("up"), "--local-cpu", "4") as up:
        yield up
        up.stop()


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """An API server on a free loopback port: `url`, `ca`, `token`, `kubeconfig`, `ask`. It is shared, so use a
    namespace of your own."""
    with ServerProcess.started(tmp_path_factory.mktemp("apiserver")) as server:
        yield server


@pytest.fixture(autouse=True)
def same_log_level() -> Iterator[None]:
    """Restore what a command does for the rest of its process: it hides warnings about objects that its user may not
    list. Without that, later tests in this process would not see their warnings."""
    logger = logging.getLogger("phalanx.kube")
    level = logger.level
    yield
    logger.setLevel(level)
