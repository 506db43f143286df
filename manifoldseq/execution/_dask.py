"""The executor on a dask cluster: recipes are sent, results return, and workers may fail."""

from __future__ import annotations

import asyncio
import io
import pickle
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from .._extras import needing
from ._blas import one_blas_thread
from ._executors import CARRIED, SERIAL, Executor, Shards
from ._memory_maps import recipe_of

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

ANSWER_SECONDS = 5.0  # for a scheduler to answer, and for its first worker to be there
_PATIENCE_SECONDS = 1.0  # between looks whether the workers that hold shards are still alive
_REVIEW_SECONDS = 10.0  # between looks whether there are new ones
_LIVES = 4  # how often an evaluation may lose a worker; more is not an accident
_CHUNKS_PER_THREAD = 4  # enough to even out tasks of different lengths; each chunk costs a few milliseconds
_HEAVY = 1 << 20  # bytes of a function's closure above which it travels once per thread, not once per chunk


class _Home(NamedTuple):
    """A worker, and a future on it whose value loads shards on first use."""

    address: str
    shards: Any


class _WorkerLost(Exception):
    pass


class _Dask:
    """Tasks in chunks, and shards distributed to homes, about one per thread of the workers.

    Chunks and homes depend on the cluster, but the computation of a task and the position of its result do not. Dask
    itself recomputes the chunks of a dead worker. Tasks on shards are bound to their worker, so that no shard is loaded
    twice. Dask would let such tasks wait forever if their worker dies, so that the homes are then assigned to other
    workers.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self.tasks = 0
        """The number of tasks that were sent."""
        self._threads: dict[str, int] = client.nthreads()
        self._seen = time.monotonic()
        self._homes: WeakKeyDictionary[Shards[Any], list[_Home]] = WeakKeyDictionary()
        self._carried: tuple[list[Any], bytes] = [], _dumps([])

    @property
    def width(self) -> int:
        """The number of threads of all workers."""
        return max(1, sum(self._threads.values()))

    def map(self, function: Callable[[T], R], tasks: Sequence[T], /) -> list[R]:
        self.tasks += len(tasks)
        code = _dumps(function)
        wanted = self.width * (1 if len(code) > _HEAVY else _CHUNKS_PER_THREAD)
        size = -(-len(tasks) // wanted)
        chunks = [_dumps(tasks[start : start + size]) for start in range(0, len(tasks), size)]
        carried = self._context()
        futures = self._client.map(_run, [carried] * len(chunks), [code] * len(chunks), chunks, pure=False)
        parts = self._gather(futures)
        return [result for part in parts for result in part]

    def map_shards(
        self, shards: Shards[S], function: Callable[[S, T], R], tasks: Sequence[tuple[int, T]], /
    ) -> list[R]:
        self.tasks += len(tasks)
        for _ in range(_LIVES):
            homes = self._settled(shards)
            dealt: dict[int, list[int]] = {}
            for position, (number, _) in enumerate(tasks):
                dealt.setdefault(number % len(homes), []).append(position)
            calls = [_dumps((function, [tasks[position] for position in positions])) for positions in dealt.values()]
            futures = [
                self._submit(homes[home].address, _run_on_shards, homes[home].shards, self._context(), call)
                for home, call in zip(dealt, calls, strict=True)
            ]
            with suppress(_WorkerLost):
                results: dict[int, R] = {}
                for positions, part in zip(dealt.values(), self._gather(futures, homes), strict=True):
                    results.update(zip(positions, part, strict=True))
                return [results[position] for position in range(len(tasks))]
        raise RuntimeError(
            f"workers died {_LIVES} times in a row during a computation on shards: see their logs, and use workers "
            "with more memory or smaller shards"
        )

    def _context(self) -> bytes:
        """Return the factories of the contexts of this process on a worker, which are pickled when contexts change."""
        makers = [make for take in CARRIED if (make := take()) is not None]
        if [id(make) for make in makers] != [id(make) for make in self._carried[0]]:
            self._carried = makers, _dumps(makers, "a record that was given to manifoldseq.register")
        return self._carried[1]

    def _settled(self, shards: Shards[Any]) -> list[_Home]:
        """Return the homes of shards after moving homes from dead or overloaded workers."""
        if time.monotonic() - self._seen > _REVIEW_SECONDS or not self._threads:
            self._look()
        before = self._homes.get(shards)
        old = [None] * min(sum(self._threads.values()), len(shards)) if before is None else before
        addresses = _deal([home and home.address for home in old], self._threads)
        homes = []
        for number, (home, address) in enumerate(zip(old, addresses, strict=True)):
            if home is None or home.address != address:
                recipes = _dumps(shards.some(range(number, len(shards), len(old))))
                home = _Home(address, self._submit(address, pickle.loads, recipes))
            homes.append(home)
        self._homes[shards] = homes
        return homes

    def _look(self) -> None:
        self._client.wait_for_workers(1)
        self._threads = self._client.nthreads()
        self._seen = time.monotonic()

    def _submit(self, address: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.submit(function, *arguments, workers=[address], pure=False)

    def _gather(self, futures: list[Any], homes: Sequence[_Home] = ()) -> list[Any]:
        try:
            return self._client.sync(self._watched, futures, {home.address for home in homes})
        except BaseException as error:
            try:
                if isinstance(error, _WorkerLost):
                    self._look()
                elif isinstance(error, Exception):
                    for future in futures:
                        future.result()  # raises the first failure in the order of the tasks, as everywhere
                raise
            finally:
                self._client.cancel(futures)

    async def _watched(self, futures: list[Any], addresses: set[str]) -> list[Any]:
        """Return the results, or raise an error if one of the workers of the results dies."""
        gathering = asyncio.ensure_future(self._client.gather(futures, asynchronous=True))
        try:
            while not (await asyncio.wait([gathering], timeout=_PATIENCE_SECONDS))[0]:
                if addresses and not addresses <= (await self._client.nthreads()).keys():
                    raise _WorkerLost
            return gathering.result()
        finally:
            gathering.cancel()


def _deal(homes: Sequence[str | None], threads: dict[str, int]) -> list[str]:
    """Return an address for every home: its worker if it is alive and not full, otherwise the emptiest worker."""
    load = dict.fromkeys(sorted(threads), 0)
    dealt = dict.fromkeys(range(len(homes)), "")
    for number, address in enumerate(homes):
        if address in load and load[address] < threads[address]:
            dealt[number] = address
            load[address] += 1
    for number in [number for number, address in dealt.items() if not address]:
        dealt[number] = min(load, key=lambda worker: (load[worker] + 1) / threads[worker])
        load[dealt[number]] += 1
    return list(dealt.values())


def _run(carried: bytes, code: bytes, chunk: bytes) -> list[Any]:
    with _as_in_the_client(carried):
        function = pickle.loads(code)
        return [function(task) for task in pickle.loads(chunk)]


def _run_on_shards(shards: Shards[Any], carried: bytes, call: bytes) -> list[Any]:
    with _as_in_the_client(carried):
        function, tasks = pickle.loads(call)
        return [function(shards.here(number), argument) for number, argument in tasks]


@contextmanager
def _as_in_the_client(carried: bytes) -> Iterator[None]:
    with ExitStack() as stack:
        for make in _loaded(carried):
            stack.enter_context(make())
        stack.enter_context(one_blas_thread())
        yield


_loaded = lru_cache(maxsize=8)(pickle.loads)


@lru_cache(maxsize=1)
def _pickler() -> Callable[..., Any]:
    """Return the pickler of functions, tasks and recipes, which writes the name of the file of a memory map."""
    cloudpickle: Any = import_module("cloudpickle")

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            recipe = recipe_of(obj)
            return super().reducer_override(obj) if recipe is None else (recipe, ())

    return Pickler


def _dumps(value: Any, what: str = "this") -> bytes:
    try:
        with io.BytesIO() as file:
            _pickler()(file).dump(value)
            return file.getvalue()
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise TypeError(
            f"{what} cannot be sent to a worker ({error}): use functions and data that can be pickled, "
            "or the executors 'serial' and 'threads'"
        ) from error


@contextmanager
def connected(where: Any, security: Any) -> Iterator[Executor]:
    """Yield the executor on the cluster at an address, or the serial executor inside one of its own tasks."""
    with needing("clusters need", "dask"):
        distributed: Any = import_module("distributed")
    if _is_task(distributed):
        yield SERIAL
        return
    if isinstance(where, distributed.Client):
        context: Any = nullcontext(where)
    else:
        context = _client(distributed, where, security)
    # a function may carry its data: slower than a recipe, but no reason for a warning
    without_warning = import_module("dask.config").set
    with context as client, without_warning({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        try:
            client.wait_for_workers(1, timeout=ANSWER_SECONDS)
        except TimeoutError as error:
            raise ConnectionError(
                f"the scheduler at {client.scheduler.address} has no workers: start some with `dask worker ADDRESS`"
            ) from error
        yield _Dask(client)


def _is_task(distributed: Any) -> bool:
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


def _client(distributed: Any, where: Any, security: Any) -> Any:
    if where is None:
        raise ValueError(
            "using('dask', …) needs the address of a scheduler, such as 'tcp://127.0.0.1:8786', or a cluster"
        )
    if isinstance(where, str):
        _knock(where)
    try:
        return distributed.Client(where, timeout=ANSWER_SECONDS, security=security, set_as_default=False)
    except OSError as error:
        raise ConnectionError(_no_answer(where, error)) from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"no connection to the dask scheduler {where!r} can be made: {error}") from error


def _knock(address: str) -> None:
    """Connect once and close: without a scheduler, a client could wait forever and leave a thread."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:  # of a port that is not a number
        host = port = None
    if host is None or port is None:
        raise ValueError(f"{address!r} is not the address of a dask scheduler: write it like 'tcp://127.0.0.1:8786'")
    try:
        with socket.create_connection((host, port), ANSWER_SECONDS) as connection:
            if parts.scheme == "tcp" and not connection.recv(1):  # with TLS it is the client who speaks first
                raise ConnectionResetError("the server closed the connection")
    except OSError as error:
        raise ConnectionError(_no_answer(address, error)) from error


def _no_answer(address: Any, error: OSError) -> str:
    return f"no dask scheduler answers at {address!r} ({error}): check the address, or start one with `dask scheduler`"
