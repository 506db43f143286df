"""One epoch of dictionary learning on a mini-batch, against one solve per pair for the same updates in the same run."""

import time
from types import ModuleType
from typing import Any

import numpy as np

from manifoldseq_lds import LDSDictionaryLearning, Systems, sparse_codes

from .._report import Report

N, M, STATES, ALPHA = 128, 177, 10, 0.1
RATES = (0.1, 0.1, 1.0)
ROUNDS = 3


def run(report: Report) -> None:
    """Measure."""
    report.title(f"dictionary, PGD at {RATES}: a batch of {N} systems, m={M}, n={STATES}, coded and every atom updated")
    problems = report.reference("lds_problems", "dictionary")
    naive = problems and report.reference("lds_naive", "dictionary")
    if problems is None or naive is None:
        return
    A, C = problems.systems(N, M, STATES, 0.6, seed=3, clusters=16)
    systems = Systems(A, C)
    tuples = [naive.canonical(a, c) for a, c in zip(A, C, strict=True)]
    for J in (4, 8, 16):
        settings = {"n_states": STATES, "method": "pgd", "step_size": RATES, "alpha": ALPHA, "init": systems[:J]}

        def ours(epochs: int, J: int = J, settings: dict[str, Any] = settings) -> tuple[float, Any]:
            start = time.process_time()
            model = LDSDictionaryLearning(J, max_iter=epochs, tol=0.0, **settings).fit(systems)
            return time.process_time() - start, model

        ours(1)
        first, epoch, peer, difference = [], [], [], 0.0
        for _ in range(ROUNDS):
            once, model = ours(1)
            first.append(once)
            epoch.append((ours(5)[0] - once) / 4)
            start = time.process_time()
            items = [(lam, V, U, naive.gram_inverse(lam, V)) for lam, V, U in tuples]
            packed = time.process_time() - start
            start = time.process_time()
            atoms = _per_pair(naive, items, J)
            peer.append((packed, time.process_time() - start))
            found = [naive.canonical(a, c) for a, c in zip(model.systems_.A, model.systems_.C, strict=True)]
            for pair in zip(found, atoms, strict=True):
                with_inverse = [(lam, V, U, naive.gram_inverse(lam, V)) for lam, V, U in pair]
                difference = max(difference, abs(naive.kernel(*with_inverse) - STATES))
        of_pack, of_epoch = np.array(peer).T
        report.row(f"J={J}: seconds, packing, first codes and first epoch", float(np.median(first)))
        report.row(f"J={J}: seconds, an epoch alone", float(np.median(epoch)))
        report.row(f"J={J}: seconds of the peer, inverse Gramians", float(np.median(of_pack)))
        report.row(f"J={J}: seconds of the peer, an epoch alone", float(np.median(of_epoch)))
        report.row(f"J={J}: times faster, an epoch alone", float(np.median(of_epoch / np.array(epoch))), least=15)
        report.row(f"J={J}: largest |k(our atom, its atom) - n| after one epoch", difference, ".1e", most=1e-6)
    report.note("both sides solve the Lasso by the same batched coordinate descent; the peer's pairs are a Python loop")


def _per_pair(naive: ModuleType, items: list[Any], J: int) -> list[Any]:
    """Return the atoms after one epoch, every pair and every gradient by its own Sylvester solves."""
    atoms = [(np.clip(lam, -0.99, 0.99), V, U) for lam, V, U, _ in items[:J]]
    atoms = [(lam, V, U, naive.gram_inverse(lam, V)) for lam, V, U in atoms]
    gram = np.array([[naive.kernel(a, b) for b in atoms] for a in atoms])
    cross = np.array([[naive.kernel(a, x) for x in items] for a in atoms])
    Z = sparse_codes((gram + gram.T) / 2, cross, ALPHA)
    overlap = Z @ Z.T / len(items)
    for r in range(J):
        terms = [(-z / len(items), x) for z, x in zip(Z[r], items, strict=True) if z != 0]
        terms += [(overlap[r, j], atoms[j]) for j in range(J) if j != r and overlap[r, j] != 0]
        atoms[r] = _step(naive, atoms[r], terms)
    return [atom[:3] for atom in atoms]


def _step(naive: ModuleType, atom: Any, terms: list[Any]) -> Any:
    """One step of Algorithm 1 on ``sum beta k(S, S_i)``."""
    lam, V, U, inv = atom
    A = lam[:, None] * V
    G11 = naive.stein(A, A, np.eye(len(lam)))
    gA, gU = np.zeros_like(A), np.zeros_like(U)
    for beta, (li, Vi, Ui, inv_i) in terms:
        Ai = li[:, None] * Vi
        G = naive.stein(A, Ai, U.T @ Ui)
        R0 = naive.stein(A.T, A.T, -inv @ G @ inv_i @ G.T @ inv)
        R = naive.stein(A.T, Ai.T, inv @ G @ inv_i)
        gA += 2 * beta * (G11 @ A @ R0 + G @ Ai @ R.T)
        gU += 2 * beta * (U @ R0 + Ui @ R.T)
    lam = np.clip(lam - RATES[0] * np.sum(gA * V, axis=1), -0.99, 0.99)
    new_V = naive.cayley(V, atom[0][:, None] * gA, RATES[1])
    new_U = naive.cayley(U, gU, RATES[2])
    return lam, new_V, new_U, naive.gram_inverse(lam, new_V)
