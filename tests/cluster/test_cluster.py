"""A cluster of processes on this machine gives the bits of serial execution, whatever becomes of a worker."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strangers.distributions import command
from threadpoolctl import threadpool_limits

import manifoldseq as ms
from manifoldseq import execution
from manifoldseq.cli import main
from manifoldseq.execution import _blocks, map_ordered, sum_ordered, using

distributed = pytest.importorskip("distributed")
import cloudpickle  # noqa: E402  comes with distributed

from manifoldseq.execution._dask import _deal  # noqa: E402

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a worker cannot import a test

slow = pytest.mark.slow


def local(workers: int, threads: int, **options: Any) -> Any:
    """Return processes on loopback, each with a nanny that starts a new one where one died."""
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=threads, processes=True, dashboard_address=":0", **options
    )


@pytest.fixture(scope="module", params=[(1, 2), (2, 1)], ids=["one-worker", "two-workers"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Any]:
    workers, threads = request.param
    with local(workers, threads) as made:
        yield made


def product(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((60, 60)) @ rng.standard_normal((60, 60))


def load(log: Path, seed: int) -> np.ndarray:
    with log.open("a") as file:
        file.write(f"{os.getpid()} {seed}\n")
    return np.random.default_rng(seed).standard_normal((50, 6))


def variance(data: np.ndarray) -> ms.Objective:
    """The variance that a frame leaves out: its minimum is known from the eigenvalues."""

    def fused(X: np.ndarray) -> tuple[float, np.ndarray]:
        return -float(np.sum((data @ X) ** 2)), -2 * data.T @ (data @ X)

    whole = ms.objective(value_and_gradient=fused, hessian_product=lambda X, U: -2 * data.T @ (data @ U))
    terms = ms.objectives.FiniteTerms(len(data), lambda i: len(data) / len(i) * variance(data[i]))
    return ms.Objective(whole.value, whole.value_and_gradient, whole.hessian_product, terms)


def die_once(flag: Path) -> None:
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def equal(a: Any, b: Any) -> None:
    """Compare results bit by bit."""
    assert cloudpickle.dumps(a) == cloudpickle.dumps(b)


@slow
def test_maps_and_sums_have_the_bits_of_serial_execution(cluster: Any) -> None:
    expected, total = map_ordered(product, range(23)), sum_ordered(product, range(23))
    with using("dask", cluster.scheduler_address):
        assert [a.tobytes() for a in map_ordered(product, range(23))] == [a.tobytes() for a in expected]
        assert sum_ordered(product, range(23)).tobytes() == total.tobytes()
        assert map_ordered(lambda k: expected[k][0, 0], range(3)) == [a[0, 0] for a in expected[:3]]
        assert os.getpid() not in map_ordered(lambda _: os.getpid(), range(4))
        assert map_ordered(abs, []) == [] and map_ordered(abs, [-1]) == [1]


@slow
def test_a_function_may_carry_many_bytes(cluster: Any) -> None:
    heavy = np.arange(2_000_000.0)
    with using("dask", cluster):
        assert map_ordered(lambda k: float(heavy[k]), range(20)) == list(range(20))


@slow
def test_one_blas_thread_and_serial_maps_in_a_task(cluster: Any) -> None:
    def set_blas_threads(number: int) -> int:
        execution.blas_threads()  # loads the libraries
        threadpool_limits(number)
        return execution.blas_threads()

    def look(_: int) -> tuple[int, set[int], list[str]]:
        here = threading.get_ident()
        nested = map_ordered(lambda _: threading.get_ident() == here, range(3))
        with using("dask", address):
            nested += map_ordered(lambda _: threading.get_ident() == here, range(3))
        return execution.blas_threads(), set(nested), [type(execution.current()).__name__]

    address = cluster.scheduler_address
    with distributed.Client(cluster, set_as_default=False) as client, using("dask", client):
        assert set(client.run(set_blas_threads, 2).values()) == {2}
        assert map_ordered(look, range(8)) == [(1, {True}, ["_Serial"])] * 8
        assert set(client.run(execution.blas_threads).values()) == {2}
        client.run(set_blas_threads, 1)
    assert client.status == "closed"


@slow
def test_a_client_of_ones_own_stays_open(cluster: Any) -> None:
    with distributed.Client(cluster, set_as_default=False) as client:
        with using("dask", client):
            assert map_ordered(abs, [-1, -2]) == [1, 2]
        assert client.status == "running"


@slow
def test_the_first_failure_comes_back_with_its_cause(cluster: Any) -> None:
    def fails(task: int) -> int:
        if task == 1:
            time.sleep(0.3)  # a later task fails before this one
        if task:
            try:
                raise KeyError(task)
            except KeyError as error:
                raise ValueError(f"task {task}") from error
        return task

    with using("dask", cluster):
        with pytest.raises(ValueError, match="task 1") as raised:
            map_ordered(fails, range(3))
        assert isinstance(raised.value.__cause__, KeyError)
        with pytest.raises(TypeError, match="cannot be sent to a worker"):
            map_ordered(lambda _: lock, range(2))
        with pytest.raises(FileNotFoundError, match="nowhere") as absent:
            ms.sharded(variance, [partial(np.load, "nowhere.npy")])
        assert absent.value.__notes__ == ["while loading shard 0"]
        assert map_ordered(abs, [-1, 2]) == [1, 2]


lock = threading.Lock()


@slow
def test_sharded_sums_stay_on_the_workers(cluster: Any, tmp_path: Path) -> None:
    recipes = [partial(load, tmp_path / "log", seed) for seed in range(5)]
    X, U = np.random.default_rng(9).standard_normal((2, 6, 2))

    def answers(f: ms.Objective) -> Any:
        assert f.value_and_gradient and f.hessian_product and f.terms
        batch = f.terms.batch(np.array([200, 3, 77, 4]))
        return f.value(X), f.value_and_gradient(X), f.hessian_product(X, U), batch.value(X)

    here = ms.sharded(variance, recipes)
    expected = answers(here)
    (tmp_path / "log").unlink()
    with distributed.Client(cluster, set_as_default=False) as client, using("dask", client):
        there = ms.sharded(variance, recipes)
        for _ in range(3):
            equal(answers(there), expected)
        loads = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
        assert sorted(seed for _, seed in loads) == list("01234"), loads
        assert {int(pid) for pid, _ in loads} == set(client.run(os.getpid).values())
        equal(answers(here), expected)  # one that was loaded in this process
        assert sum(client.run(lambda dask_worker: len(dask_worker.data)).values()) > 0
        del there, here
        gc.collect()
        wait_for(lambda: sum(client.run(lambda dask_worker: len(dask_worker.data)).values()) == 0)


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@slow
def test_minimize_survives_a_worker_killed_in_an_evaluation(cluster: Any, tmp_path: Path) -> None:
    """The seventh evaluation of shard 1 kills its process with -9; its data are gone, its recipe is not."""
    flag, calls = tmp_path / "died", tmp_path / "calls"

    def mortal(data: np.ndarray) -> ms.Objective:
        whole = variance(data)

        def fused(X: np.ndarray) -> tuple[float, np.ndarray]:
            with calls.open("a") as file:
                file.write("x")
            if calls.stat().st_size >= 7:
                die_once(flag)
            return whole.value_and_gradient(X)

        return ms.Objective(whole.value, fused) if data[0, 0] == marked else whole

    recipes = [partial(load, tmp_path / "log", seed) for seed in range(4)]
    marked = recipes[1]()[0, 0]
    manifold, stop = ms.manifolds.Stiefel(6, 2), ms.MaxIterations(25)
    x0 = manifold.random_point(np.random.default_rng(0))
    expected = ms.minimize(ms.Problem(manifold, ms.sharded(variance, recipes)), x0, stop=stop)
    with using("dask", cluster):
        result = ms.minimize(ms.Problem(manifold, ms.sharded(mortal, recipes)), x0, stop=stop)
    assert flag.exists() and calls.stat().st_size > 7
    equal((result.x, result.fun, result.nit), (expected.x, expected.fun, expected.nit))


@slow
def test_map_survives_a_killed_worker(cluster: Any, tmp_path: Path) -> None:
    flag = tmp_path / "died"

    def mortal(k: int) -> np.ndarray:
        if k == 5:
            die_once(flag)
        return product(k)

    with using("dask", cluster):
        assert sum_ordered(mortal, range(12)).tobytes() == sum_ordered(product, range(12)).tobytes()
    assert flag.exists()


@slow
def test_starts_are_shared_out_with_their_checkpoints(cluster: Any, tmp_path: Path) -> None:
    data = np.random.default_rng(3).standard_normal((30, 6))
    problem = ms.Problem(ms.manifolds.Stiefel(6, 2), variance(data))
    seen = ms.Recorder()
    pids: set[int] = set()
    arguments: Any = {"n_starts": 4, "seed": 1, "observers": [seen, lambda event: pids.add(os.getpid())]}
    expected = ms.minimize(problem, **arguments)
    before = list(seen.records)
    seen.records.clear()
    with using("dask", cluster):
        result = ms.minimize(problem, checkpoint=tmp_path / "run", **arguments)
        for here, there in zip(before, seen.records, strict=True):
            np.testing.assert_array_equal(there, here)
        again = ms.minimize(problem, checkpoint=tmp_path / "run", resume=True, **arguments)
    for found in (result, again):
        equal((found.x, found.fun, found.nit, found.nfev), (expected.x, expected.fun, expected.nit, expected.nfev))
    np.testing.assert_array_equal(result.history["fun"], expected.history["fun"])
    assert len(list((tmp_path / "run").glob("start-*/checkpoint-*.npz"))) >= 4
    assert pids == {os.getpid()}


@slow
@pytest.mark.parametrize("estimator", ["lds-kmeans", "subspace-kmeans"])
def test_estimators_fit_with_observers_and_relative_checkpoints(
    cluster: Any, estimator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers are in the folder that they were started in, the caller is not."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X: Any = rng.standard_normal((60, 6))
    if estimator == "lds-kmeans":
        X = [np.cumsum(rng.standard_normal((30, 6)), axis=0) for _ in range(12)]
    seen = ms.Recorder(lambda event: (os.getpid(), event.measures.fun))

    def fit(**options: Any) -> Any:
        return ms.get_estimator(estimator)(2, n_init=3, random_state=0, max_iter=4).fit(X, observers=[seen], **options)

    expected = fit()
    before = list(seen.records)
    seen.records.clear()
    with using("dask", cluster):
        model = fit(checkpoint="run")
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_array_equal(model.history_["fun"], expected.history_["fun"])
    assert seen.records == before and len(list((tmp_path / "run").glob("start-*/*.npz"))) >= 3


@slow
def test_kernel_tiles_and_clustering(cluster: Any) -> None:
    rng = np.random.default_rng(0)
    sequences = [np.cumsum(rng.standard_normal((30, 3)), axis=0) for _ in range(12)]

    @ms.kernel(domain="lds")
    def overlap(first: Any, second: Any) -> Any:
        return float(np.sum(first[0] * second[0]))

    def fit() -> Any:
        model = ms.get_estimator("lds-kmeans")(2, n_states=2, random_state=0, n_init=3, max_iter=4).fit(sequences)
        packed = overlap.pack(list(model.systems_))
        return (
            model.systems_.A,
            model.systems_.C,
            model.labels_,
            model.mean_kernel_value_,
            overlap.cross(packed, packed),
        )

    expected = fit()
    with using("dask", cluster):
        for a, b in zip(fit(), expected, strict=True):
            np.testing.assert_array_equal(a, b)


@slow
def test_interrupt_cancels_what_still_waits(cluster: Any, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def sleep(k: int) -> None:
        begun.touch()
        (tmp_path / f"task {k}").touch()
        time.sleep(0.25)

    def interrupt() -> None:
        wait_for(begun.exists)
        os.kill(os.getpid(), signal.SIGINT)

    with using("dask", cluster):
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            map_ordered(sleep, range(80))  # in 8 chunks of 10
        thread.join()
        assert map_ordered(abs, [-1, 2]) == [1, 2]
    assert len(list(tmp_path.glob("task *"))) < 60


@slow
def test_command_line_fits_on_a_cluster(cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    walks = np.cumsum(rng.standard_normal((8, 20, 2)), axis=1)
    np.savez(tmp_path / "walks.npz", **{f"walk{k}": walk for k, walk in enumerate(walks)})
    fit = ["fit", "lds-kmeans", str(tmp_path / "walks.npz"), "--set", "n_clusters=2", "--set", "n_states=1"]
    for name, more in (("here", []), ("there", ["--dask", cluster.scheduler_address])):
        assert main([*fit, "--set", "n_init=2", *more, "-o", str(tmp_path / name)]) == 0, capsys.readouterr()
    assert (tmp_path / "here" / "model.npz").read_bytes() == (tmp_path / "there" / "model.npz").read_bytes()
    assert "on the cluster" not in capsys.readouterr().err


@slow
@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        ("statistics", "every step of the fit was a single task (a task computes 16 MiB of rows, or one start)"),
        ("sequential", "each step needs the step before"),
    ],
)
def test_command_line_says_why_a_fit_does_not_use_the_cluster(
    cluster: Any, estimator: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Sequential(ms.get_estimator("statistics")):  # type: ignore[misc]
        sequential = "each step needs the step before"

    ms.register(ms.hooks.EstimatorSpec("sequential", Sequential, input="sequences"))
    np.savez(tmp_path / "walks.npz", **{f"walk{k}": np.arange(20.0)[:, None] + k for k in range(3)})
    fit = ["fit", estimator, str(tmp_path / "walks.npz"), "--no-quality", "-o"]
    assert main([*fit, str(tmp_path / "here")]) == 0 and "on the cluster" not in capsys.readouterr().err
    assert main([*fit, str(tmp_path / "there"), "--dask", cluster.scheduler_address]) == 0
    assert f"{estimator} computed nothing on the cluster: {reason}.\n" in capsys.readouterr().err


OBJECTS = '''
"""Objects in a file that no worker can import, and that need another such file."""
import numpy as np
import manifoldseq as ms
from manifoldseq.execution import _blocks
from manifoldseq.storage import SequenceData
from neighbour import gramian, stopped_early

_blocks.BLOCK_BYTES = 512

@ms.kernel(domain="lds")
def overlap(first, second):
    return (gramian(first) * gramian(second)).sum()

class Steps(ms.solvers.LBFGS):
    pass

class Mixture(ms.get_estimator("vmf-mixture")):
    input = "samples"

def walks():
    rng = np.random.default_rng(0)
    return SequenceData([rng.standard_normal((20, 2)).cumsum(axis=0) for _ in range(6)])

def begin(problem, rng):
    K, D = problem.manifold.shape[1]
    return stopped_early(problem, (np.full(K, 1 / K), 3.0 * rng.standard_normal((K, D))))

@ms.hookimpl
def manifoldseq_models():
    yield ms.hooks.ModelSpec("sparse", base="hope.vmf", value_and_gradient=sparse)

def sparse(model, point, sums):
    fun, (by_weights, by_mu) = VMF.value_and_gradient(model, point, sums)
    return fun + 0.01 * np.abs(point[1]).sum(), (by_weights, by_mu + 0.01 * np.sign(point[1]))

VMF = ms.get_model("hope.vmf")
'''
NEIGHBOUR = """
import manifoldseq as ms

def gramian(item):
    return item[1] @ item[1].T

def stopped_early(problem, point):
    return ms.minimize(problem, point, solver="objects:named", max_iter=2).x
"""
NAMED = """
@ms.hookimpl
def manifoldseq_solvers():
    yield ms.hooks.SolverSpec("named", Steps, needs=("value_and_gradient",))
"""


@slow
@pytest.mark.parametrize(
    "fit",
    [
        ("lds-kmeans", "objects.py:walks", "kernel=objects.py:overlap", "n_clusters=2", "n_states=1"),
        ("objects.py:Mixture", "rows.csv", "init=objects.py:begin", "solver=objects.py:Steps"),
        ("vmf-mixture", "rows.csv", "--plugin", "objects.py", "model=sparse", "init=objects.py:begin", "solver=lbfgs"),
    ],
    ids=["kernel", "estimator", "model"],
)
def test_objects_of_plugin_files_work_on_workers(cluster: Any, tmp_path: Path, fit: tuple[str, ...]) -> None:
    (tmp_path / "objects.py").write_text(OBJECTS + NAMED)
    (tmp_path / "neighbour.py").write_text(NEIGHBOUR)
    rows = np.random.default_rng(0).standard_normal((60, 3))
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,c", comments="")
    told = [word for one in (*fit, "n_init=2", "max_iter=3") for word in (["--set"] if "=" in one else []) + [one]]
    for name, more in (("here", ()), ("there", ("--dask", cluster.scheduler_address))):
        done = command(None, "fit", *told, "--seed", "0", "--no-quality", *more, "-o", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "here/model.npz").read_bytes() == (tmp_path / "there/model.npz").read_bytes()


@slow
def test_what_a_session_registers_is_found_by_its_tasks_alone(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ms.register.__globals__["_registry"]
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))

    class Halved(ms.solvers.LBFGS):
        pass

    def named(name: str) -> tuple[int, str, bool]:
        time.sleep(0.02)  # both workers, and both threads of one, have tasks
        try:
            return os.getpid(), type(ms.get_solver(name)).__name__, False
        except ValueError:
            return os.getpid(), "", True

    with using("dask", cluster):
        assert {one[1:] for one in map_ordered(named, ["halved"] * 8)} == {("", True)}
        ms.register(ms.hooks.SolverSpec("halved", Halved, needs=("value_and_gradient",)))
        ms.register(ms.hooks.SolverSpec("lbfgs", Halved, needs=("value_and_gradient",)))
        found = map_ordered(named, ["halved", "lbfgs"] * 8)
        assert {one[1:] for one in found} == {("Halved", False)} and os.getpid() not in {one[0] for one in found}
        monkeypatch.setattr(registry, "_registered", {})
        assert {one[1:] for one in map_ordered(named, ["lbfgs"] * 8)} == {("LBFGS", False)}
        ms.register(ms.hooks.DatasetSpec("locked", partial(id, threading.Lock())))
        with pytest.raises(TypeError, match=r"a record that was given to manifoldseq.register cannot be sent"):
            map_ordered(named, ["lbfgs"] * 8)


@slow
def test_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manifoldseq.execution._dask.ANSWER_SECONDS", 0.5)
    with local(0, 1) as made:
        with pytest.raises(ConnectionError, match=r"at tcp://127\.0\.0\.1:\d+ has no workers: start some with"):
            with using("dask", made.scheduler_address):
                pass


@slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate of this test")
def test_tls(tmp_path: Path) -> None:
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True)
    roles = {
        f"tls_{role}_{what}": path
        for role in ("client", "scheduler", "worker")
        for what, path in (("cert", cert), ("key", key))
    }
    security = distributed.Security(tls_ca_file=cert, require_encryption=True, **roles)
    with local(1, 1, protocol="tls://", security=security) as made:
        assert made.scheduler_address.startswith("tls://")
        with using("dask", made.scheduler_address, security=security):
            assert map_ordered(abs, [-1, 2]) == [1, 2]
        with pytest.raises(ValueError, match=r"no connection to the dask scheduler 'tls:.* can be made: TLS expects"):
            with using("dask", made.scheduler_address):
                pass


@slow
def test_shards_that_kill_every_worker_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manifoldseq.execution._dask._LIVES", 2)
    shards = execution.Shards([partial(os.getpid)])
    with local(1, 1) as made, using("dask", made):
        (pid,) = shards.map(lambda pid, _: pid, [(0, None)])
        with pytest.raises(RuntimeError, match="workers died 2 times in a row during a computation on shards"):
            shards.map(lambda pid, _: os.kill(pid, signal.SIGKILL), [(0, None)])
        (other,) = shards.map(lambda pid, _: pid, [(0, None)])
        assert other not in (pid, os.getpid())


@pytest.mark.parametrize(
    ("homes", "threads", "expected"),
    [
        ([None] * 4, {"b": 1, "a": 3}, "aaab"),  # a thread each
        ([None] * 2, {"a": 2, "b": 2}, "ab"),
        ("ab", {"a": 1, "b": 1}, "ab"),
        ("ab", {"a": 1}, "aa"),  # b died
        ("aa", {"a": 1, "c": 1}, "ac"),  # another came
        ("bbaa", {"a": 2, "c": 4}, "ccaa"),
    ],
)
def test_homes_move_only_where_they_must(homes: Any, threads: dict[str, int], expected: str) -> None:
    assert sorted(_deal(homes, threads)) == sorted(expected)
    assert [a for a, b in zip(_deal(homes, threads), homes, strict=True) if a == b] == [
        a for a, b in zip(expected, homes, strict=True) if a == b
    ]


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize(
    ("where", "error", "sentence"),
    [
        (None, ValueError, r"using\('dask', …\) needs the address of a scheduler, such as 'tcp:"),
        ("localhost", ValueError, "'localhost' is not the address of a dask scheduler: write it like 'tcp:"),
        ("tcp://x:port", ValueError, "'tcp://x:port' is not the address of a dask scheduler"),
        ("quic://127.0.0.1:{port}", ConnectionError, r"no dask scheduler answers at 'quic:.*refused"),
        (
            "tcp://127.0.0.1:{port}",
            ConnectionError,
            r"no dask scheduler answers at 'tcp://127\.0\.0\.1:\d+' \(.*refused",
        ),
        ("127.0.0.1:{port}", ConnectionError, "start one with `dask scheduler`"),
        (2, ValueError, "no connection to the dask scheduler 2 can be made"),
    ],
)
def test_addresses_that_are_none(where: Any, error: type[Exception], sentence: str) -> None:
    if isinstance(where, str):
        where = where.format(port=closed_port())
    with pytest.raises(error, match=sentence), using("dask", where):
        pass


def test_whoever_listens_is_not_yet_a_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manifoldseq.execution._dask.ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionError, match="no dask scheduler answers"), using("dask", address):
            pass


@slow
def test_script_of_the_how_to_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "cluster-of-machines.md").read_text(encoding="utf-8")
    script = page.split("The file `components.py`")[1].split("```python\n")[1].split("\n```")[0]
    (tmp_path / "components.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "components.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    # a client that closes may log a task that it has left
    assert "Warning" not in done.stderr and done.stdout.startswith("The point is stationary")


@pytest.mark.slow
def test_one_start_of_a_registered_model_is_that_of_serial(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six blocks or more; the statistics are computed on the workers."""
    from manifoldseq_hierarchical import SubspaceEncoder
    from manifoldseq_hope import HOPE, VonMisesFisherMixture
    from manifoldseq_mpcca import MixturePCCA

    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 1500)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((240, 8)), np.repeat(np.arange(4), 60)
    Z = rng.standard_normal((240, 2))
    views = [Z @ rng.standard_normal((2, size)) + 0.5 * rng.standard_normal((240, size)) for size in (5, 4)]
    kept: dict[str, Any] = {"tol": 0.0, "max_iter": 3, "random_state": 0}
    fits: list[Callable[[], Any]] = [
        lambda: VonMisesFisherMixture(3, **kept).fit(X).parameters_[0],
        lambda: VonMisesFisherMixture(3, solver="online-em", batch_size=60, **kept).fit(X).parameters_[0],
        lambda: HOPE(3, n_latent=3, solver="em", **kept).fit(X).components_,
        lambda: HOPE(3, n_latent=3, family="gmm", solver="lbfgs", **kept).fit(X).components_,
        lambda: MixturePCCA(2, 2, covariance_type="diag", **kept).fit(views).mixture_.loadings,
        lambda: SubspaceEncoder().fit(X, y).components_,
    ]
    with distributed.Client(cluster) as client:
        for fit in fits:
            serial = fit()
            with using("dask", client):
                assert np.array_equal(fit(), serial)
