"""The runs of a sweep on a Ray cluster: one task per run, whose messages contain its progress and its record."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from harness.cluster.node import Message, ReceivedRecord, compute_run, forget_runs
from harness.cluster.shipment import Packer, Shipment, chunks_of
from harness.core.errors import HarnessError, UsageError
from harness.core.extras import require_extra
from harness.core.hardware import usable_cores
from harness.runs.specs import AttackSpec
from harness.sweeps.record import nodes_of_runs
from harness.sweeps.running import Active, Ended, PlannedRun

LOCAL = "local"
_WAIT_SECONDS = 0.2
_MAX_ATTEMPTS = 3
"""The number of times that a run is begun by a node; a node that dies ends an attempt."""
_MAX_STARTS = 100
"""The number of times that a run is given to a node that dies before it has begun the run."""
_TASKS_PER_SLOT = 2
"""Tasks that are submitted for each slot, so that no slot waits for this process."""
MESSAGES_AHEAD = 8
_RESOURCE_SECONDS = 5.0
_FINISHING_SECONDS = 30.0
_CONNECT_SECONDS = 10.0
_DELETED_AT_ONCE = 100
_ENVIRONMENT = {
    # Nothing is reported to anybody.
    "RAY_USAGE_STATS_ENABLED": "0",
    # A task without a GPU sees none.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
}
_TOKEN_VARIABLES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_TOKEN_FILE = Path("~/.ray/auth_token")
_WAITING = "waiting for a node"
Contents = dict[str, list[Any]]
"""References to the parts of each content, by SHA-256."""


def require_ray() -> Any:
    """Return the library. Raises HarnessError if it is not installed."""
    require_extra("ray", "a cluster", instead="use --ray none for one run after the other on this machine")
    import ray

    return ray


def check_address(address: str) -> None:
    """Raise HarnessError if Ray is not installed, or if nothing listens at `address`: Ray itself tries for minutes."""
    require_ray()
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        if address not in (LOCAL, "auto"):
            raise UsageError(f"--ray {address}: expected HOST:PORT, auto, local or none.")
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise HarnessError(f"--ray {address}: no cluster answers ({error}). Start one with ray start --head.") from None


def connect(address: str) -> Any:
    """Connect to the cluster at `address`, or start one on this machine for `local`, and return the library.

    Raises HarnessError if Ray is not installed or the cluster does not answer.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if address != LOCAL and (any(map(os.environ.get, _TOKEN_VARIABLES)) or _TOKEN_FILE.expanduser().exists()):
        # `ray start` makes a token and asks for it; a client has to be told to send it.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    ray = require_ray()
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    if address == LOCAL:
        # With this address, Ray joins no cluster, not even the one that RAY_ADDRESS names.
        options |= {"num_cpus": usable_cores(), "include_dashboard": False}
    try:
        ray.init(**options)
    except Exception as error:
        # Ray raises errors of many kinds here, also a bare RuntimeError for a wrong token.
        if "InvalidAuthToken" in f"{error} {error.__cause__}":
            raise HarnessError(
                f"--ray {address}: the cluster refuses the token. "
                "Set RAY_AUTH_TOKEN, or copy ~/.ray/auth_token from its head."
            ) from None
        reason, advice = "no cluster answers", "Start one with ray start --head."
        if address == LOCAL:
            reason, advice = "Ray did not start on this machine", "Try again, or use --ray none."
        raise HarnessError(f"--ray {address}: {reason} ({type(error).__name__}). {advice}") from None
    return ray


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """Yield the library, connected to the cluster at `address` as by `connect`, with a silent stdout."""
    # Ray prints what its nodes report, where a command prints its data.
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        ray = connect(address)
        try:
            yield ray
        finally:
            ray.shutdown()


@contextlib.contextmanager
def last_words(sentence: str) -> Iterator[None]:
    """Print `sentence` on stderr if this process ends inside the block without leaving it.

    Ray calls `_exit` when one of its own processes dies, so another process has to say it.
    """
    command = ["sh", "-c", 'read -r _ || printf "%s\\n" "$0" >&2', sentence]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as shell:
        try:
            yield
        finally:
            shell.communicate(b"\n")


def slots_of(ray: Any, *, threads: int, uses_gpus: bool) -> int:
    """Return how many runs the connected cluster computes at once, with so many CPU threads each.

    A run also has a GPU if `uses_gpus` and the cluster has any.
    """
    needed = {"CPU": threads, **({"GPU": 1} if uses_gpus and ray.cluster_resources().get("GPU", 0) else {})}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(min(int(node.get(name, 0) // number) for name, number in needed.items()) for node in nodes)


class RayExecutor:
    """A Ray cluster. The record of each run is copied into the store of this machine when the run is over."""

    def __init__(
        self, address: str, *, journal_file: Path, device: str, threads: int, on_message: Callable[[str], None]
    ) -> None:
        """`device` and `threads` are options of the sweep; `journal_file` remembers which node has which run.

        `on_message` gets a sentence when a node died and its run is given to another one.
        """
        self._address = address
        self._journal_file = journal_file
        self._node_of_run = nodes_of_runs(journal_file)
        self._device = device
        self._threads = threads
        self._on_message = on_message
        self._packer = Packer()
        self._references: dict[str, list[Any]] = {}
        self._tasks: dict[Any, _Task] = {}
        self._stored: dict[str, list[str]] = {}
        self._deletions: list[Any] = []
        self._slots = 1
        self._slots_known_until = 0.0
        self._gpus = 0

    def __enter__(self) -> Self:
        """Connect to the cluster."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(
                last_words(
                    f"harness: --ray {self._address}: this command was killed, or ended by a process of Ray that died. "
                    "`harness resume` continues the work."
                )
            )
            self._ray = stack.enter_context(connected(self._address))
            if self._device == "cuda" and not self._ray.cluster_resources().get("GPU", 0):
                raise HarnessError(f"--ray {self._address}: the cluster has no GPU. Use --device cpu or auto.")
            self._gpus = int(self._device != "cpu" and self._ray.cluster_resources().get("GPU", 0) > 0)
            retry_never = {"max_retries": 0, "num_returns": "streaming"}
            self._compute = self._ray.remote(**retry_never, _generator_backpressure_num_objects=MESSAGES_AHEAD)(_task)
            self._forget = self._ray.remote(num_cpus=0, max_retries=0)(forget_runs)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect. Runs in progress are continued by the next command."""
        with self._stack:
            for task in self._tasks.values():
                task.received.discard()
            for node in list(self._stored):
                self._delete_copies(node)
            if self._deletions:
                self._ray.wait(self._deletions, num_returns=len(self._deletions), timeout=_FINISHING_SECONDS)

    @property
    def has_room(self) -> bool:
        """True if fewer tasks are submitted than twice the slots of the cluster."""
        now = time.monotonic()
        if now >= self._slots_known_until:
            self._slots_known_until = now + _RESOURCE_SECONDS
            self._count_slots()
        return len(self._tasks) < max(1, _TASKS_PER_SLOT * self._slots)

    def _count_slots(self) -> None:
        """Count the runs that the nodes can compute at the same time, and say so if there is none."""
        slots = slots_of(self._ray, threads=self._threads, uses_gpus=self._gpus > 0)
        if slots == 0 and self._slots > 0:
            needs = f"{self._threads} CPU" + (" and 1 GPU" if self._gpus else "")
            self._on_message(
                f"no node of the cluster offers {needs}, which a run needs. The runs wait until one joins."
            )
        self._slots = slots

    @property
    def active(self) -> Sequence[Active]:
        """The submitted runs; those that a node works on first."""
        tasks = sorted(self._tasks.values(), key=lambda task: task.words == _WAITING)
        return [Active(task.spec.id, task.words, task.share) for task in tasks]

    def start(self, planned: PlannedRun) -> None:
        """Submit a run. A node that has begun it in an earlier command continues it."""
        try:
            self._submit(_Task(planned.spec, self._packer.shipment(planned), self._node_of_run.get(planned.spec.id)))
        except (OSError, self._ray.exceptions.RayError) as error:
            raise HarnessError(f"{planned.spec.id}: cannot be sent to a node ({error}). Resume the sweep.") from None

    def wait(self) -> Sequence[Ended]:
        """Take the messages that have arrived; return the runs whose record is in the store, or that failed."""
        if not self._tasks:
            return ()
        ready, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        if not ready:
            ready, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=_WAIT_SECONDS)
        ended = []
        for generator in ready:
            task = self._tasks[generator]
            try:
                is_over = self._take(task, self._ray.get(next(generator)))
            except StopIteration:
                is_over, task.failure = True, "the node ended the task without a record."
            except self._ray.exceptions.RayError as error:
                # First, because the error of a task is also of the class of its cause.
                is_over = self._take_error(generator, task, error)
            except HarnessError as error:
                is_over, task.failure = True, str(error)
            except OSError as error:
                is_over, task.failure = True, f"its record cannot be stored here ({error.strerror})."
            if is_over:
                self._tasks.pop(generator, None)
                task.received.discard()
                ended.append(Ended(task.spec.id, task.failure))
        return ended

    def _submit(self, task: "_Task") -> None:
        contents = {}
        for sha256 in task.shipment.contents:
            if sha256 not in self._references:
                self._references[sha256] = [self._ray.put(chunk) for chunk in chunks_of(self._packer.contents[sha256])]
            contents[sha256] = self._references[sha256]
        uses_gpu = self._gpus if task.spec.attack.uses_target else 0
        options: dict[str, Any] = {"num_cpus": self._threads, "num_gpus": uses_gpu, "name": task.spec.id}
        if task.node is not None:
            options["scheduling_strategy"] = self._on_node(task.node, soft=True)
        device = "cuda" if uses_gpu else "cpu"
        generator = self._compute.options(**options).remote(task.shipment.model_dump_json(), contents, device)
        self._tasks[generator] = task

    def _take(self, task: "_Task", message: Message) -> bool:
        """Take one message; return True if the record of the run is complete and in the store."""
        kind, content = message
        if kind == "node":
            task.node, task.has_begun = content, True
            self._record_node(task.spec.id, content)
        elif kind == "status":
            task.words, task.share = content
        elif kind == "file":
            task.words = "copying its record"
            task.received.add(*content)
        elif kind == "end":
            task.received.store(content)
            stored = self._stored.setdefault(str(task.node), [])
            stored.append(task.spec.id)
            if len(stored) >= _DELETED_AT_ONCE:
                self._delete_copies(str(task.node))
            return True
        return False

    def _record_node(self, run: str, node: str) -> None:
        """Record that a node has begun a run. A line that is lost costs only the work of the run."""
        if self._node_of_run.get(run) != node:
            self._node_of_run[run] = node
            with self._journal_file.open("a", encoding="utf-8") as file:
                file.write(f"{run} {node}\n")

    def _delete_copies(self, node: str) -> None:
        """Let a node delete the runs whose records are in the store, many at once: each task may start a process."""
        strategy = self._on_node(node, soft=False)
        self._deletions.append(self._forget.options(scheduling_strategy=strategy).remote(self._stored.pop(node)))

    def _take_error(self, generator: Any, task: "_Task", error: Exception) -> bool:
        """Submit a task again whose node died; return True if it has failed for good."""
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception):
            task.failure = str(cause) if isinstance(cause, HarnessError) else repr(cause)
            return True
        if task.has_begun:
            task.attempts += 1
        else:
            # Ray has not noticed yet that the node is dead, and may choose it again.
            task.starts += 1
            time.sleep(_WAIT_SECONDS)
        if task.attempts >= _MAX_ATTEMPTS or task.starts >= _MAX_STARTS:
            task.failure = f"{task.attempts + task.starts} nodes died that were given it."
            return True
        if task.has_begun:
            self._on_message(f"{task.spec.id}: its node died ({type(error).__name__}). Another one takes it.")
        del self._tasks[generator]
        task.node = None
        task.begin_again()
        self._submit(task)
        return False

    def _on_node(self, node: str, *, soft: bool) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node, soft=soft)


class _Task:
    """A submitted run, and what has arrived of it. node: the id of the node that has begun it."""

    def __init__(self, spec: AttackSpec, shipment: Shipment, node: str | None) -> None:
        self.spec = spec
        self.shipment = shipment
        self.node = node
        self.attempts = self.starts = 0
        self.failure = ""
        self.begin_again()

    def begin_again(self) -> None:
        """Forget what has arrived."""
        self.words, self.has_begun = _WAITING, False
        self.share: float | None = None
        self.received = ReceivedRecord(self.spec)


def fetch_from(contents: Contents) -> Callable[[str], Iterator[bytes]]:
    """Return a function that yields the parts of the content with a SHA-256, on a node."""
    import ray

    return lambda sha256: map(ray.get, contents[sha256])


def _task(shipment: str, contents: Contents, device: str) -> Iterator[Message]:
    """Compute a run on the node where this is called."""
    import ray

    yield "node", ray.get_runtime_context().get_node_id()
    yield from compute_run(Shipment.model_validate_json(shipment), fetch_from(contents), device=device)
