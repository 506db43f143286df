"""A step that keeps rows orthonormal, compared with torch's own parametrizations of orthogonal matrices."""

import importlib.util

import numpy as np

from .._report import Report, interleaved

M, D, BATCH = 100, 784, 100
CARE = {"householder": "householder", "matrix_exp": "matrix_exp", "cayley": "cayley"}


def run(report: Report) -> None:
    """Measure."""
    if importlib.util.find_spec("torch") is None:
        report.note("skipped: torch is not installed")
        report.skipped.append("network")
        return
    import torch
    from torch.nn.utils.parametrizations import orthogonal

    from manifoldseq.torch import OrthonormalParameter, RiemannianSGD
    from manifoldseq_papers.hope._penalty_sgd import gram_schmidt

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    report.title(f"one step of a projection of {M} orthonormal rows of {D} columns, float32, torch {torch.__version__}")
    torch.manual_seed(0)
    start = torch.linalg.qr(torch.randn(D, M))[0].T.contiguous()
    G = torch.randn(M, D) / D
    ours = {}
    for mode in ("polar", "qr"):
        U = OrthonormalParameter(start.clone())
        U.grad = G
        ours[mode] = RiemannianSGD([U], lr=0.1, momentum=0.9, retraction=mode)

    def peer(name: str):
        linear = torch.nn.Linear(D, M, bias=False)
        with torch.no_grad():
            linear.weight.copy_(start)
        orthogonal(linear, orthogonal_map=name)
        optimizer = torch.optim.SGD(linear.parameters(), lr=0.1, momentum=0.9, fused=True)

        def step() -> None:
            optimizer.zero_grad()
            linear.weight.backward(G)  # the matrix from its parameters, and the way back
            optimizer.step()

        return step

    steps = {name: optimizer.step for name, optimizer in ours.items()}
    steps |= {name: peer(name) for name in CARE}
    seconds = {name: float(np.median(values)) for name, values in interleaved(steps, repeat=5).items()}
    for name in steps:
        report.row(
            f"milliseconds, {'RiemannianSGD' if name in ours else 'torch orthogonal'}, {name}", 1e3 * seconds[name]
        )
    for mode in ours:
        for name in CARE:
            least = 20 if name == "householder" else None  # torch's default for matrices that are not square
            report.row(f"torch's {name} over {mode}", seconds[name] / seconds[mode], least=least)
    for mode, optimizer in ours.items():
        (U,) = optimizer.param_groups[0]["params"]
        U64 = U.detach().double().numpy()
        report.row(f"largest entry of |U U' - I|, {mode}", float(np.abs(U64 @ U64.T - np.eye(M)).max()), most=2e-6)
    U64 = start.double().numpy()
    once = interleaved({"gram-schmidt": lambda: gram_schmidt(U64)}, repeat=3)["gram-schmidt"]
    report.row("milliseconds, Gram-Schmidt row by row in numpy", 1e3 * float(np.median(once)))
    _epochs(report)
    torch.set_num_threads(threads)


def _epochs(report: Report) -> None:
    """Measure epochs of the networks of Table 2 on 6000 random images."""
    from manifoldseq_hope import HOPENetworkClassifier

    report.title(f"an epoch of 6000 images, batches of {BATCH}, K=1000")
    rng = np.random.default_rng(0)
    X, y = rng.random((6000, D), dtype=np.float32), rng.integers(10, size=6000)

    def epoch(layers, mode):
        return lambda: HOPENetworkClassifier(
            layers, orthogonality=mode, init="uniform", max_iter=1, batch_size=BATCH, random_state=0
        ).fit(X, y)

    nets = {"polar": epoch([(M, 1000)], "polar"), "penalty": epoch([(M, 1000)], "penalty")}
    nets |= {"linear": epoch([(M, 1000)], None), "plain": epoch([1000], None)}
    seconds = interleaved(nets, repeat=3)
    for name, values in seconds.items():
        report.row(f"seconds, {name}, start included", float(np.median(values)))
