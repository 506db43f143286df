"""Layers of networks: decomposed and merged weights, parameter counts, the penalty and steps on the manifold."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from helpers import parametrize

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from manifoldseq.torch import OrthonormalParameter, RiemannianSGD
from manifoldseq_hope import Dense, HOPELayer, penalty_gradient

MODES = ("polar", "qr")


def gap(U: torch.Tensor) -> float:
    """Return the largest entry of |U U' - I| in float64."""
    U64 = U.detach().double().numpy()
    return float(np.abs(U64 @ U64.T - np.eye(len(U64))).max())


def test_layer_of_a_linear_layer_is_the_same_at_full_rank() -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(30, 12)
    x = torch.randn(50, 30)
    expected = torch.relu(linear(x))
    for layer in (HOPELayer.from_linear(linear), HOPELayer.from_linear(linear, n_latent=20)):
        assert len(layer.U) == 12  # the rank
        assert layer.orthonormality() < 2e-6
        torch.testing.assert_close(layer(x), expected, atol=1e-5, rtol=1e-5)


def test_layer_of_a_linear_layer_is_the_nearest_of_lower_rank() -> None:
    rng = np.random.default_rng(1)
    W, b = rng.standard_normal((9, 7)), rng.standard_normal(9)
    layer = HOPELayer.from_linear(W, b, 3)
    merged = layer.merged()
    assert merged.weight.dtype == torch.float64
    s = scipy.linalg.svdvals(W)
    error = np.linalg.norm(merged.weight.detach().numpy() - W)
    assert error == pytest.approx(np.sqrt(np.sum(s[3:] ** 2)), rel=1e-10)  # Eckart and Young
    np.testing.assert_array_equal(layer.bias.detach().numpy(), b)


def test_merged_layer_is_the_same_and_has_the_paper_s_weights() -> None:
    torch.manual_seed(2)
    layer = HOPELayer(40, 6, 25)
    torch.nn.init.normal_(layer.bias)
    merged, x = layer.merged(), torch.randn(100, 40)
    torch.testing.assert_close(torch.relu(merged(x)), layer(x), atol=1e-5, rtol=1e-5)
    for k in range(25):  # w_k = U' mu_k
        np.testing.assert_allclose(
            merged.weight[k].detach().numpy(), layer.U.T.detach().numpy() @ layer.mu[k].detach().numpy(), atol=1e-6
        )


@pytest.mark.parametrize(("D", "M", "K"), [(784, 100, 1000), (36, 20, 400), (5, 5, 3)])
def test_parameters_are_counted_as_torch_counts_them(D: int, M: int, K: int) -> None:
    layer = HOPELayer(D, M, K)
    assert layer.n_parameters() == sum(p.numel() for p in layer.parameters()) == M * (D + K) + K
    assert layer.n_parameters(merged=True) == sum(p.numel() for p in layer.merged().parameters())


def test_initial_weights_are_those_of_41() -> None:
    torch.manual_seed(3)
    layer = HOPELayer(300, 80, 500, gamma=0.5, orthonormal=False)
    for part in (layer.U, layer.mu):
        most = 0.5 * np.sqrt(6 / sum(part.shape))
        values = part.detach().numpy()
        assert 0.99 * most < np.abs(values).max() <= most
        assert values.var() == pytest.approx(most**2 / 3, rel=0.02)  # of a uniform distribution
    assert HOPELayer(300, 80, 5).orthonormality() < 2e-6


def test_penalty_and_its_derivative_are_15_and_18() -> None:
    torch.manual_seed(4)
    layer = HOPELayer(12, 5, 3, orthonormal=False).double()
    value = layer.penalty()
    value.backward()
    U = layer.U.detach().numpy()
    loop = sum(
        abs(U[i] @ U[j]) / (np.linalg.norm(U[i]) * np.linalg.norm(U[j])) for i in range(5) for j in range(i + 1, 5)
    )
    assert float(value.detach()) == pytest.approx(loop, rel=1e-12)
    np.testing.assert_allclose(layer.U.grad.numpy(), penalty_gradient(U), atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
@parametrize("rate", [1e-3, 0.3, 30.0], fast=1)
def test_steps_keep_float32_rows_orthonormal(mode: str, rate: float) -> None:
    torch.manual_seed(5)
    U = OrthonormalParameter(torch.linalg.qr(torch.randn(784, 100))[0].T.contiguous())
    optimizer = RiemannianSGD([U], lr=rate, momentum=0.9, retraction=mode)
    A = torch.randn(784, 784) / 28
    for _ in range(30):
        optimizer.zero_grad()
        torch.trace(U @ A @ U.T).backward()
        optimizer.step()
        assert gap(U) <= 2e-6
    V = optimizer.state[U]["momentum_buffer"]
    assert torch.isfinite(V).all()


@pytest.mark.parametrize("mode", MODES)
def test_a_step_follows_the_formulas_by_scipy(mode: str) -> None:
    rng = np.random.default_rng(6)
    U0 = np.linalg.qr(rng.standard_normal((9, 4)))[0].T
    U = OrthonormalParameter(torch.tensor(U0))
    optimizer = RiemannianSGD([U], lr=0.1, momentum=0.7, retraction=mode)
    V = np.zeros_like(U0)
    for _ in range(3):
        G = rng.standard_normal(U0.shape)
        U.grad = torch.tensor(G)
        optimizer.step()
        V = 0.7 * V + G
        V -= 0.5 * (V @ U0.T + U0 @ V.T) @ U0  # tangent: V U' is skew
        np.testing.assert_allclose(V @ U0.T, -(V @ U0.T).T, atol=1e-12)
        Y = U0 - 0.1 * V
        if mode == "polar":
            U0 = scipy.linalg.polar(Y)[0]
        else:
            Q, R = scipy.linalg.qr(Y.T, mode="economic")
            U0 = (Q * np.sign(np.diagonal(R))).T
        np.testing.assert_allclose(U.detach().numpy(), U0, atol=1e-7)


def test_steps_find_the_leading_subspace() -> None:
    rng = np.random.default_rng(7)
    Q = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    S = (Q * np.arange(1.0, 21.0)) @ Q.T
    U = OrthonormalParameter(torch.tensor(np.linalg.qr(rng.standard_normal((20, 3)))[0].T))
    optimizer = RiemannianSGD([U], lr=0.01, momentum=0.9)
    for _ in range(600):
        loss = -torch.trace(U @ torch.tensor(S) @ U.T)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) == pytest.approx(-(20 + 19 + 18), abs=1e-6)


def test_a_closure_is_asked_for_the_loss() -> None:
    U = OrthonormalParameter(torch.eye(2, 5))
    optimizer = RiemannianSGD([U], lr=0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (U - 1).square().sum()
        loss.backward()
        return loss

    first = float(optimizer.step(closure).detach())
    assert float(optimizer.step(closure).detach()) < first


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: HOPELayer(5, 6, 2), "n_latent=6 exceeds n_features=5"),
        (lambda: HOPELayer(5, 0, 2), "n_latent=0"),
        (lambda: HOPELayer(5, 2, 2.5), "n_units=2.5"),
        (lambda: HOPELayer.from_linear(np.ones((3, 4)), np.ones(4)), "one bias per row"),
        (lambda: HOPELayer.from_linear(np.ones((3, 4)), None, 5), "exceeds the 4 columns"),
        (lambda: HOPELayer.from_linear(torch.nn.Linear(4, 3), 2), "by name, n_latent=2"),
        (lambda: HOPELayer.from_linear(np.full((3, 4), np.nan)), "NaN"),
        (lambda: HOPELayer.from_linear(np.ones(3)), "(3,)"),
        (lambda: HOPELayer.from_dense(Dense(None, np.ones((2, 3)), np.zeros(2))), "from_linear"),
        (lambda: HOPELayer(5, 2, 3)(torch.ones(1, 5).double()), "the rows are torch.float64, but the layer is"),
        (lambda: HOPELayer(5, 2, 3)(np.ones((1, 5))), "the rows are of type ndarray: pass a tensor"),
    ],
)
def test_bad_input_raises_an_error(make: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.slow
def test_without_torch_the_package_loads_and_a_layer_says_what_is_missing() -> None:
    code = """
import importlib.util, sys
class NoTorch:
    def find_spec(self, name, *rest):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoTorch())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else found(name, *rest)
import manifoldseq_hope as hope
for make in (lambda: hope.HOPELayer(3, 2, 4),
             lambda: hope.HOPENetworkClassifier().fit([[0.0], [1.0]], [0, 1])):
    try:
        make()
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all("pip install torch" in line for line in lines), done.stdout + done.stderr


@pytest.mark.slow
def test_the_classifier_is_imported_without_torch() -> None:
    code = "import manifoldseq_hope as hope, sys; hope.HOPENetworkClassifier(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
