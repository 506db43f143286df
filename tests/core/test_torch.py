"""Orthonormal parameters in torch: shapes, optimizers, files, autocast, copies; against scipy and torch's own."""

import copy
import importlib.util
import io
import itertools
import pickle
import shutil
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from helpers import parametrize

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

import manifoldseq as ms
from manifoldseq.torch import (
    OrthonormalParameter,
    RiemannianAdam,
    RiemannianSGD,
    keep_orthonormal,
    orthonormality,
    orthonormalize,
    polar_rows,
    qr_rows,
)

SHAPES = [(3, 7), (7, 3), (4, 4), (8, 3, 2, 2), (20, 2, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_parameter_is_the_nearest_orthonormal_tensor(shape: tuple[int, ...]) -> None:
    data = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    W = OrthonormalParameter(data)
    expected = scipy.linalg.polar(data.numpy().reshape(shape[0], -1))[0]
    np.testing.assert_allclose(W.detach().numpy().reshape(shape[0], -1), expected, atol=1e-12)
    for again in (copy.deepcopy(W), pickle.loads(pickle.dumps(W)), OrthonormalParameter(W.data)):
        assert isinstance(again, OrthonormalParameter) and torch.equal(again, W)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(12, 40), (20, 20), (1, 5)])
def test_polar_rows_are_those_of_scipy_near_and_far(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    """Every number of terms of the series is taken, and the eigendecomposition, which squares condition numbers."""
    rng = np.random.default_rng(3)
    U = scipy.linalg.polar(rng.standard_normal(shape))[0]
    rounding = torch.finfo(dtype).eps
    for size in np.logspace(-8, 0.5, 35):
        Y = torch.tensor(U + size * rng.standard_normal(shape) / shape[1] ** 0.5, dtype=dtype)
        found = polar_rows(Y)
        smallest = np.linalg.svd(Y.double().numpy(), compute_uv=False)[-1]
        tolerance = 20 * rounding if dtype == torch.float32 else 20 * rounding / min(smallest, 1.0) ** 2
        assert orthonormality(found) < tolerance
        expected = scipy.linalg.polar(Y.double().numpy())[0]
        np.testing.assert_allclose(found.double().numpy(), expected, atol=tolerance)


@parametrize("shape", SHAPES, fast=2)
@pytest.mark.parametrize("make", [RiemannianSGD, RiemannianAdam])
def test_optimizers_find_the_nearest_point_and_stay_orthonormal(shape: tuple[int, ...], make: Any) -> None:
    """Minus the inner product with a tensor is least at its polar factor, whatever the shape."""
    torch.manual_seed(1)
    A, W = torch.randn(shape), OrthonormalParameter(torch.randn(shape))
    if shape == (4, 4):  # a rotation and a reflection are not connected
        W = OrthonormalParameter(A + 0.5 * torch.randn(shape))
    free = torch.nn.Parameter(torch.zeros(3))
    options: dict[str, Any] = {"lr": 0.1, "momentum": 0.5} if make is RiemannianSGD else {"lr": 0.05}
    optimizer = make([W, free], **options)
    for k in range(400):
        for group in optimizer.param_groups:
            group["lr"] = options["lr"] * 0.98**k if make is RiemannianAdam else options["lr"]
        optimizer.zero_grad()
        (-(A * W).sum() + (free - 2).square().sum()).backward()
        optimizer.step()
        assert orthonormality(W) < 1e-5
    expected = scipy.linalg.polar(A.double().numpy().reshape(shape[0], -1))[0]
    np.testing.assert_allclose(W.detach().numpy().reshape(shape[0], -1), expected, atol=5e-3)
    if make is RiemannianSGD:
        np.testing.assert_allclose(free.detach(), 2, atol=1e-4)


@pytest.mark.parametrize(("ours", "torchs"), [(RiemannianSGD, torch.optim.SGD), (RiemannianAdam, torch.optim.Adam)])
def test_other_parameters_take_the_steps_of_torch(ours: Any, torchs: Any) -> None:
    torch.manual_seed(2)
    a = torch.nn.Parameter(torch.randn(4, 3))
    b = torch.nn.Parameter(a.detach().clone())
    options: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.1} | ({"momentum": 0.9} if ours is RiemannianSGD else {})
    first, second = ours([a], **options), torchs([b], **options)
    for _ in range(5):
        a.grad = torch.randn(4, 3)
        b.grad = a.grad.clone()
        first.step()
        second.step()
    torch.testing.assert_close(a, b)


def network() -> Any:
    torch.manual_seed(3)
    convolution = orthonormalize(torch.nn.Conv2d(1, 8, 3))
    tall = orthonormalize(torch.nn.Linear(5, 10))
    return torch.nn.Sequential(convolution, torch.nn.Flatten(), torch.nn.Linear(8 * 16, 5), tall)


@pytest.mark.parametrize("make", [RiemannianSGD, RiemannianAdam])
def test_training_goes_on_from_a_file(make: Any) -> None:
    X = torch.randn(16, 1, 6, 6, generator=torch.Generator().manual_seed(4))

    def train(net: Any, optimizer: Any, steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            net(X).square().mean().backward()
            optimizer.step()

    whole = network()
    train(whole, make(whole.parameters(), lr=0.05), 8)
    half = network()
    optimizer = make(half.parameters(), lr=0.05)
    train(half, optimizer, 4)
    file = io.BytesIO()
    torch.save({"net": half.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    stored = torch.load(file)
    assert set(stored["net"]) == set(network().state_dict()) and "0.weight" in stored["net"]
    again = torch.nn.Sequential(*network())
    again.load_state_dict(stored["net"])
    resumed = make(again.parameters(), lr=0.05)
    resumed.load_state_dict(stored["optimizer"])
    train(again, resumed, 4)
    assert isinstance(again[0].weight, OrthonormalParameter)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


@pytest.mark.parametrize("ours", [RiemannianSGD, RiemannianAdam])
@pytest.mark.parametrize("theirs", [torch.optim.SGD, torch.optim.Adam])
def test_training_goes_on_from_an_optimizer_of_torch(theirs: Any, ours: Any) -> None:
    def train(net: Any, optimizer: Any, steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (net(torch.ones(1, 1, 6, 6)) - 1).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        return losses

    net = network()
    before = theirs(net.parameters(), lr=0.01)
    train(net, before, 2)
    net = network()
    optimizer = ours(net.parameters(), lr=0.5)
    optimizer.load_state_dict(before.state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.01 and optimizer.param_groups[0]["retraction"] == "polar"
    losses = train(net, optimizer, 20)
    assert losses[-1] < losses[0] and orthonormality(net[0].weight) < 2e-6


@pytest.mark.parametrize("assign", [False, True])
def test_files_of_free_networks_are_brought_to_the_manifold(assign: bool) -> None:
    """Also in copies of the network, and where torch takes the tensors of the file themselves."""
    first, free = (
        network(),
        torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 16, 5), torch.nn.Linear(5, 10)
        ),
    )
    file = {name: value.clone() for name, value in free.state_dict().items()}
    stored = io.BytesIO()
    torch.save(first, stored)
    stored.seek(0)
    for net in (first, copy.deepcopy(first), torch.load(stored, weights_only=False)):
        with pytest.warns(UserWarning, match="loaded as '[03].weight' is not orthonormal .error") as caught:
            net.load_state_dict(file, assign=assign)
        assert len(caught) == 2
        for place in (0, 3):
            weight, given = net[place].weight, file[f"{place}.weight"]
            assert isinstance(weight, OrthonormalParameter) and weight.requires_grad
            nearest = scipy.linalg.polar(given.numpy().reshape(len(given), -1))[0]
            np.testing.assert_allclose(weight.detach().numpy().reshape(len(given), -1), nearest, atol=1e-6)
        assert torch.equal(net[2].weight, file["2.weight"])
    assert all(torch.equal(value, file[name]) for name, value in free.state_dict().items())
    half = {name: value.half() for name, value in first.state_dict().items()}
    first.load_state_dict(half, assign=assign)  # rounding: no warning
    assert first[0].weight.dtype == torch.float32 and orthonormality(first[0].weight) < 1e-6
    first[0].weight = torch.nn.Parameter(first[0].weight.detach())  # free from now on
    first[0].load_state_dict({"weight": file["0.weight"], "bias": file["0.bias"]})
    assert torch.equal(first[0].weight, file["0.weight"])


@pytest.mark.parametrize("assign", [False, True])
def test_loading_nan_keeps_the_weight_and_says_so(assign):
    layer = orthonormalize(torch.nn.Linear(6, 4))
    before = layer.weight.detach().clone()
    with pytest.raises(ValueError, match="the tensor loaded as 'weight' has NaN or infinity"):
        layer.load_state_dict({key: value * float("nan") for key, value in layer.state_dict().items()}, assign=assign)
    assert torch.equal(layer.weight, before)


@pytest.mark.parametrize("make", [RiemannianSGD, RiemannianAdam])
def test_optimizers_notice_what_others_changed(make: Any) -> None:
    W = OrthonormalParameter(torch.eye(3, 6))
    optimizer = make([W], lr=1e-6)  # so short that nothing is retracted
    for change, warns in ((1.0, True), (1e-5, False), (0.0, False)):
        with torch.no_grad():
            W.add_(change * torch.arange(18.0).reshape(3, 6))
        W.grad = torch.ones(3, 6)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optimizer.step()
        assert [("was changed and is not orthonormal" in str(w.message)) for w in caught] == [True] * warns
        assert {w.filename for w in caught} <= {__file__}
        assert orthonormality(W) < 2e-6
    W.data = W.data.half()
    W.grad = torch.ones(3, 6).half()
    with pytest.raises(
        ValueError, match=r"torch.float16 cannot be orthonormal to 1e-6: keep it in float32 \(net.float"
    ):
        optimizer.step()


@pytest.mark.parametrize("make", [RiemannianSGD, RiemannianAdam])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_layer_made_orthonormal_later_stays_the_one_that_is_trained(make: Any, shape: tuple[int, ...]) -> None:
    torch.manual_seed(6)
    layer = torch.nn.ParameterDict({"weight": torch.nn.Parameter(torch.randn(shape))})
    options: dict[str, Any] = {"momentum": 0.5} if make is RiemannianSGD else {}
    optimizer = make(layer.parameters(), lr=0.1, **options)

    def train() -> None:
        optimizer.zero_grad()
        (layer["weight"] * torch.randn(shape)).sum().backward()
        optimizer.step()

    train()
    orthonormalize(layer)
    before = layer["weight"].detach().clone()
    for _ in range(3):  # with the momentum of free steps
        train()
    assert isinstance(layer["weight"], OrthonormalParameter) and orthonormality(layer["weight"]) < 1e-6
    assert not torch.allclose(layer["weight"], before, atol=1e-3)
    assert optimizer.state[layer["weight"]]["exp_avg" if make is RiemannianAdam else "momentum_buffer"].shape == shape


def test_autocast_casts_products_and_no_parameter() -> None:
    net = network()
    optimizer = RiemannianSGD(net.parameters(), lr=0.1, momentum=0.9)
    X = torch.randn(16, 1, 6, 6, generator=torch.Generator().manual_seed(5))
    for _ in range(5):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(X)
            assert out.dtype == torch.bfloat16
            out.float().square().mean().backward()
            optimizer.step()  # inside too
        assert net[0].weight.dtype == torch.float32 and orthonormality(net[0].weight) < 2e-6
    net.double()
    assert isinstance(net[0].weight, OrthonormalParameter) and net[0].weight.dtype == torch.float64


def test_optimizers_of_torch_keep_orthonormal_what_is_marked() -> None:
    net = network()
    free = net[2].weight.detach().clone()
    optimizer = keep_orthonormal(torch.optim.AdamW(net.parameters(), lr=0.1))
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.ones(2, 1, 6, 6)).square().mean().backward()
        optimizer.step()
        assert max(orthonormality(net[0].weight), orthonormality(net[3].weight)) < 2e-6
    assert not torch.equal(net[2].weight, free)


@pytest.mark.parametrize("make", [RiemannianSGD, RiemannianAdam])
def test_groups_have_settings_of_their_own(make: Any) -> None:
    """A rate may be a tensor, as for torch's optimizers; a group that is not valid is not added."""
    W, V = OrthonormalParameter(torch.eye(2, 3)), OrthonormalParameter(torch.eye(2, 3))
    optimizer = make([W], lr=torch.tensor(0.1))
    with pytest.raises(ValueError, match="lr=-1"):
        optimizer.add_param_group({"params": [V], "lr": -1.0})
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": [V], "lr": 0.0})
    W.grad = V.grad = torch.arange(6.0).reshape(2, 3)
    optimizer.step()
    assert torch.equal(V, torch.eye(2, 3)) and not torch.allclose(W, V, atol=1e-3) and orthonormality(W) < 1e-6


OPTIMIZERS = {
    "sgd": lambda groups: RiemannianSGD(groups, momentum=0.9, weight_decay=1e-2),
    "sgd-qr": lambda groups: RiemannianSGD(groups, retraction="qr"),
    "adam": lambda groups: RiemannianAdam(groups, weight_decay=1e-2),
    "adam-qr": lambda groups: RiemannianAdam(groups, retraction="qr"),
    "torch-sgd": lambda groups: keep_orthonormal(torch.optim.SGD(groups, momentum=0.9)),
    "torch-foreach": lambda groups: keep_orthonormal(torch.optim.SGD(groups, foreach=True), retraction="qr"),
    "torch-adamw": lambda groups: keep_orthonormal(torch.optim.AdamW(groups, foreach=False)),
}
BACKENDS = ["eager", "aot_eager", *(["inductor"] if shutil.which("g++") else [])]
FAST = [("adam", "eager", "step")]
COMPILED = [
    pytest.param(*one, marks=() if one in FAST else pytest.mark.slow)
    for one in itertools.product(OPTIMIZERS, BACKENDS, ("step", "closure", "whole"))
    if one[1] != "inductor" or one[2] == "step"  # the others take minutes
]


def trained(make: Any, backend: str | None, compiled: str) -> list[torch.Tensor]:
    """Return the parameters of a network, some orthonormal, after five long steps, of which something is compiled."""
    torch._dynamo.reset()
    net = network()
    orthonormal, free = net[0], [*net[2].parameters(), *net[3].parameters()]
    optimizer = make([{"params": list(orthonormal.parameters()), "lr": 0.3}, {"params": free, "lr": 0.05}])
    x = torch.linspace(-1, 1, 72).reshape(2, 1, 6, 6)

    def loss() -> Any:
        optimizer.zero_grad()
        value = (net(x) - 1).square().mean()
        value.backward()
        return value

    def whole() -> None:
        loss()
        optimizer.step()

    step = torch.compile(whole if compiled == "whole" else optimizer.step, backend=backend) if backend else whole
    for _ in range(5):
        if backend and compiled == "step":
            loss()
        step(loss) if backend and compiled == "closure" else step()
    assert max(orthonormality(net[0].weight), orthonormality(net[3].weight)) < 2e-6
    return [p.detach() for p in net.parameters()]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.filterwarnings("ignore::UserWarning:torch")
@pytest.mark.parametrize(("name", "backend", "compiled"), COMPILED)
def test_compiled_steps_are_those_of_eager_ones(name: str, backend: str, compiled: str) -> None:
    """In a compiled step parameters are no longer of their class; torch's own compiled Adam rounds otherwise."""
    expected = trained(OPTIMIZERS[name], None, "")
    for found, wanted in zip(trained(OPTIMIZERS[name], backend, compiled), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [RiemannianSGD, RiemannianAdam])
def test_copies_of_an_optimizer_take_their_own_steps(make: Any) -> None:
    optimizer = make([OrthonormalParameter(torch.eye(2, 3))], lr=0.1)
    for again in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (theirs,), (ours,) = again.param_groups[0]["params"], optimizer.param_groups[0]["params"]
        theirs.grad = torch.arange(6.0).reshape(2, 3)
        again.step()
        assert orthonormality(theirs) < 1e-6 and not torch.allclose(theirs, ours)
        assert torch.equal(ours, torch.eye(2, 3))


def sparse_step(make: Any) -> None:
    embedding = orthonormalize(torch.nn.Embedding(9, 4, sparse=True))
    optimizer = make(embedding.parameters())
    embedding(torch.tensor([1, 2])).sum().backward()
    optimizer.step()


def group(make: Any = RiemannianSGD, **settings: Any) -> Any:
    """Return an optimizer of one group with these settings."""
    return make([{"params": [OrthonormalParameter(torch.eye(2))]} | settings])


@parametrize(
    ("make", "words"),
    [
        (lambda: OrthonormalParameter(torch.ones(3, 3).half()), "a parameter of torch.float16 cannot be orthonormal"),
        (lambda: OrthonormalParameter(torch.ones(3)), r"a parameter of shape \(3,\) is not a matrix"),
        (lambda: OrthonormalParameter(torch.full((2, 3), torch.nan)), "has NaN or infinity"),
        (lambda: orthonormalize(torch.nn.Linear(2, 3), "kernel"), r"no parameter 'kernel' of its own \(it has: weight"),
        (lambda: keep_orthonormal(None, "cayley"), "retraction='cayley' is not known: choose 'polar' or 'qr'"),
        (
            lambda: RiemannianSGD([{"params": [torch.nn.Parameter(torch.ones(2, 3))], "orthonormal": True}]),
            "create the parameter with",
        ),
        (lambda: RiemannianAdam([OrthonormalParameter(torch.eye(2))], lr=-1), "lr=-1"),
        (lambda: OrthonormalParameter(np.eye(3)), "of type ndarray is not a tensor: pass torch.as_tensor"),
        (lambda: orthonormality(np.eye(3)), "W is of type ndarray: pass a tensor"),
        (lambda: orthonormality(torch.ones(3)), r"W of shape \(3,\), torch.float32, is not a real matrix"),
        (
            lambda: polar_rows(torch.ones(9, 3)),
            r"Y of shape \(9, 3\) cannot have orthonormal rows: pass .* such as Y.T",
        ),
        (lambda: qr_rows(torch.ones(9, 3)), r"Y of shape \(9, 3\) cannot have orthonormal rows"),
        (lambda: qr_rows(np.eye(3)), "Y is of type ndarray"),
        (lambda: orthonormalize(torch.nn.LazyLinear(3)), "has no shape yet: call the network once on data"),
        (lambda: orthonormalize(torch.nn.Linear(4, 3, device="meta")), "'meta' has no values: call to_empty"),
        (
            lambda: orthonormalize(torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(4, 3))),
            r"call torch.nn.utils.parametrize.remove_parametrizations\(layer, 'weight'\) first",
        ),
        (lambda: sparse_step(RiemannianSGD), r"shape \(9, 4\) has a sparse gradient: create the embedding"),
        (lambda: sparse_step(RiemannianAdam), "has a sparse gradient"),
        (lambda: group(lr=-1.0), "lr=-1.0 is not valid"),
        (lambda: group(lr=torch.tensor(torch.nan)), "lr=nan is not valid"),
        (lambda: group(momentum=1.0), "momentum=1.0 is not valid: pass a decay rate below 1"),
        (lambda: group(RiemannianAdam, betas=(0.9, 1)), "betas=1 is not valid: pass a decay rate below 1"),
        (lambda: group(RiemannianAdam, betas=0.9), "betas=0.9 is not valid: pass two numbers"),
        (lambda: group(RiemannianAdam, eps=0.0), "eps=0.0 is not valid"),
        (lambda: group(weight_decay="1"), "weight_decay='1' is not valid"),
        (lambda: group(retraction="cayley"), "retraction='cayley' is not known: choose 'polar' or 'qr'"),
        (lambda: group(orthonormal="yes"), "orthonormal='yes' is not known: choose None, True or False"),
        (lambda: group(params=[torch.nn.Parameter(torch.ones(2, 3))], orthonormal=True), "is not orthonormal"),
        (lambda: RiemannianSGD(orthonormalize(torch.nn.Linear(6, 3)).half().parameters()), "float16 cannot be orthon"),
        (lambda: RiemannianSGD(orthonormalize(torch.nn.Linear(6, 3)).bfloat16().parameters()), r"net\.float"),
    ],
    fast=8,
)
def test_bad_input_raises_an_error(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_cost_in_two_precisions_says_so() -> None:
    A = torch.eye(4)  # float32, the point is float64
    cost = ms.objective(lambda x: (A @ x).square().sum(), backend="torch")
    with pytest.raises(ValueError, match=r"several dtypes, while the point has torch\.float64: convert the tensors"):
        ms.minimize(ms.Problem(ms.manifolds.Stiefel(4, 2), cost), seed=0)
