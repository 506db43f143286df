"""All pairs of 2000 systems and 16 atoms against a per-pair Kronecker loop and the rate of matrix products."""

from types import ModuleType

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import Systems

from .._report import Report, interleaved

N, J, M, STATES = 2000, 16, 177, 10
SAMPLE = 100
SIZE = 1000
BLOCK = 40


def gramian(A1: np.ndarray, A2: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Solve the Stein equation as one linear system."""
    return np.linalg.solve(np.eye(Q.size) - np.kron(A1.T, A2.T), Q.ravel()).reshape(Q.shape)


def inverse_gramian(A: np.ndarray) -> np.ndarray:
    """Return the inverse of a system's own Gramian, which the loop computes once per system."""
    return np.linalg.inv(gramian(A, A, np.eye(len(A))))


def run(report: Report) -> None:
    """Measure."""
    report.title(f"all pairs: n={STATES}, m={M}, {N} x {J}, one BLAS thread")
    problems = report.reference("lds_problems", "pairs")
    if problems is None:
        return
    data = Systems(*problems.systems(N, M, STATES, 0.6, seed=3, clusters=J))
    kernel = ms.get_kernel("projection")
    packed = kernel.pack(data)
    atoms = packed[:J]
    rng = np.random.default_rng(0)
    pairs = np.stack([rng.integers(J, size=SAMPLE), rng.integers(N, size=SAMPLE)], axis=1)
    inverses = {int(i): inverse_gramian(data.A[i]) for i in np.unique(pairs)}
    matrix = rng.standard_normal((SIZE, SIZE))
    product = np.empty((J * STATES, N * STATES))
    steps = len(packed.powers) - 1

    def doublings() -> None:
        """Do the small products of the doublings with contiguous arrays in the cache, and nothing else."""
        left, right = atoms.powers[0], packed.powers[0][:BLOCK]
        X, Y = rng.standard_normal((2, J * STATES * BLOCK * STATES))
        X, Y = X.reshape(J, STATES, BLOCK * STATES), Y.reshape(BLOCK, J * STATES, STATES)
        W, Z = np.empty_like(X), np.empty_like(Y)
        for _ in range(steps * N // BLOCK):
            np.matmul(left, X, out=W)
            np.matmul(Y, right, out=Z)

    def loop() -> list[float]:
        values = []
        for i, j in pairs:
            G12 = gramian(data.A[i], data.A[j], data.C[i].T @ data.C[j])
            values.append(float(np.sum((inverses[i] @ G12) * (G12 @ inverses[j]))))
        return values

    seconds = interleaved(
        {
            "ours": lambda: kernel.cross(atoms, packed),
            "loop": loop,
            "gemm": lambda: matrix @ matrix,
            "bare product": lambda: np.matmul(atoms.Ct.reshape(-1, M), packed.Ct.reshape(-1, M).T, out=product),
            "bare doublings": doublings,
            "pack": lambda: kernel.pack(Systems.trusted({"A": data.A, "C": data.C})),
            "pack loop": lambda: [inverse_gramian(A) for A in data.A[:SAMPLE]],
        }
    )
    ours, peer = seconds["ours"] / (N * J), seconds["loop"] / SAMPLE
    pack, pack_peer = seconds["pack"] / N, seconds["pack loop"] / SAMPLE
    rate = 2 * SIZE**3 / seconds["gemm"]
    outputs = 2 * STATES**2 * M  # floating-point operations of C1'C2
    tails = packed.norms[:, :J, None] * packed.norms[:, None, :]
    doublings = 4 * STATES**3 * float((tails > 1e-15).sum(axis=0).mean())
    error = np.abs(kernel.cross(atoms, packed)[pairs[:, 0], pairs[:, 1]] - loop()).max()
    report.row("microseconds per pair", 1e6 * np.median(ours))
    report.row("microseconds per pair, Kronecker loop", 1e6 * np.median(peer))
    report.row("times faster than the Kronecker loop", np.median(peer / ours), least=40)
    report.row("microseconds to pack one system", 1e6 * np.median(pack))
    report.row("microseconds for the loop's own Gramian of one system", 1e6 * np.median(pack_peer))
    ratio = (peer + pack_peer / J) / (ours + pack / J)
    report.row("times faster, packing of the systems included on both sides", np.median(ratio))
    report.row("GFLOP/s of a float64 matrix product in this run", np.median(rate) / 1e9)
    limit, share = np.median(outputs / rate / ours), np.median((outputs + doublings) / rate / ours)
    report.row("share of the GEMM limit (time of C1'C2 at that rate / time)", limit, least=0.25)
    report.row("share of that rate (operations of C1'C2 and the doublings)", share, least=0.5)
    bare = (seconds["bare product"] + seconds["bare doublings"]) / (N * J)
    what = "share of the joint limit (one product C1'C2 and bare products of the doublings, timed alone)"
    report.row(what, np.median(bare / ours), least=0.5)
    report.row("largest difference from the loop", error, most=1e-11)
    run_large(report, problems, matrix)


def run_large(report: Report, problems: ModuleType, matrix: np.ndarray) -> None:
    """Measure the pairs of systems with many outputs."""
    kernel = ms.get_kernel("projection")
    for m, number, target in ((2500, 500, 0.55), (20000, 64, 0.7)):
        report.title(f"all pairs: n={STATES}, m={m}, {number} x {J}")
        data = Systems(*problems.systems(number, m, STATES, 0.6, seed=3, clusters=J))
        packed = kernel.pack(data)
        atoms = packed[:J]
        seconds = interleaved(
            {
                "ours": lambda packed=packed, atoms=atoms: kernel.cross(atoms, packed),
                "gemm": lambda: matrix @ matrix,
                "pack": lambda data=data: kernel.pack(Systems.trusted({"A": data.A, "C": data.C})),
            }
        )
        rate, ours = 2 * SIZE**3 / seconds["gemm"], seconds["ours"] / (number * J)
        tails = packed.norms[:, :J, None] * packed.norms[:, None, :]
        operations = 2 * STATES**2 * m + 4 * STATES**3 * float((tails > 1e-15).sum(axis=0).mean())
        report.row("microseconds per pair", 1e6 * np.median(ours))
        report.row("microseconds to pack one system", 1e6 * np.median(seconds["pack"]) / number)
        report.row("share of the GEMM rate of this run", np.median(operations / rate / ours), least=target)
