"""One epoch of training a network in torch, from arrays to arrays, so that the one loop can save and resume it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

from ._dense import Dense
from ._family import Array
from ._layer import HOPELayer
from ._schedule import Training
from ._stiefel_sgd import StiefelSGD
from ._torch import load_torch

State = dict[str, Any]

_ROWS = 4096


def module(layers: Sequence[Dense], head: Dense | None, dropout: tuple[float, float] = (0.0, 0.0)) -> Any:
    """Return the network as a `torch.nn.Sequential` in float32: rectified layers, then the head, if there is one."""
    torch = load_torch()
    visible, hidden = dropout
    parts: list[Any] = [torch.nn.Dropout(visible)] if visible else []
    for layer in layers:
        parts += [_linear(layer), torch.nn.ReLU()] if layer.U is None else [HOPELayer.from_dense(layer)]
        parts += [torch.nn.Dropout(hidden)] if hidden else []
    if head is not None:
        parts.append(_linear(head))
    return torch.nn.Sequential(*parts).float()


def _linear(layer: Dense) -> Any:
    torch = load_torch()
    made = torch.nn.utils.skip_init(torch.nn.Linear, layer.n_inputs, len(layer.bias))  # nothing is drawn
    made.weight = torch.nn.Parameter(torch.tensor(layer.weight))
    made.bias = torch.nn.Parameter(torch.tensor(layer.bias))
    return made


class Trainer:
    """Training of a network on rows and labels; `step` is one epoch.

    Parameters
    ----------
    X : ndarray of shape (N, D), float32
    y : ndarray of int of shape (N,)
        Numbers of classes.
    layers : sequence of Dense
        The network at the start: its rectified layers.
    head : Dense or None
        The affine layer above them; None for the criterion (40).
    training : Training
    seed : int
        Order of the rows and dropout: epoch t depends on this number and t only.
    """

    def __init__(
        self,
        X: Array,
        y: NDArray[np.int64],
        layers: Sequence[Dense],
        head: Dense | None,
        training: Training,
        seed: int,
    ) -> None:
        torch = load_torch()
        self.torch, self.training, self.seed = torch, training, seed
        self.X, self.y = torch.from_numpy(np.array(X, np.float32, order="C")), torch.from_numpy(np.array(y, np.int64))
        self.projected = [layer.U is not None for layer in layers]
        self.has_head = head is not None
        self.network = module(layers, head, training.dropout)
        self.parameters = list(self.network.parameters())
        self.layers = [part for part in self.network if isinstance(part, HOPELayer)]
        self.optimizers = self._optimizers()
        self._loss = self._criterion()

    def start(self) -> tuple[State, ms.Measures]:
        """Return the state of the network at the start, its loss and its error (%)."""
        loss, wrong = 0.0, 0
        self.network.eval()
        with self.torch.no_grad():
            for X, y in zip(self.X.split(_ROWS), self.y.split(_ROWS), strict=True):
                scores = self.network(X)
                loss += float(self._loss(scores, y)) * len(X)
                wrong += int((scores.argmax(1) != y).sum())
        N, arrays = len(self.X), self._arrays()
        momentum = tuple(np.zeros_like(part) for part in arrays)
        return {"x": arrays, "momentum": momentum, "epoch": 0}, self._measures(loss / N, 100 * wrong / N)

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state after one epoch, and the loss and the error (%) of its batches as they were seen."""
        torch, training, epoch = self.torch, self.training, state["epoch"]
        self._load(state)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"], group["momentum"] = training.rate.rate(epoch), training.momentum.rate(epoch)
        N, b = len(self.X), min(training.batch_size, len(self.X))
        loss_sum, wrong = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.int64)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.random.SeedSequence([self.seed, epoch]).generate_state(1)[0]))
            self.network.train()
            order = torch.randperm(N)
            for rows in order.split(b):
                labels = self.y[rows]
                scores = self.network(self.X[rows])
                loss = self._loss(scores, labels)
                self._move(loss)
                loss_sum += loss.detach() * len(rows)
                wrong += (scores.detach().argmax(1) != labels).sum()
        momentum = tuple(self._momentum(p) for p in self.parameters)
        measures = self._measures(float(loss_sum) / N, 100 * float(wrong) / N)
        return {"x": self._arrays(), "momentum": momentum, "epoch": epoch + 1}, measures

    def dense(self, parts: Sequence[Array]) -> tuple[tuple[Dense, ...], Dense | None]:
        """Return the layers and the head that the arrays of a state stand for."""
        rest = [np.array(part) for part in parts]
        layers = []
        for projected in self.projected:
            U = rest.pop(0) if projected else None
            layers.append(Dense(U, rest.pop(0), rest.pop(0)))
        return tuple(layers), Dense(None, *rest) if self.has_head else None

    def _optimizers(self) -> list[Any]:
        torch, training = self.torch, self.training
        projections = [layer.U for layer in self.layers]
        kept = set(map(id, projections)) if training.orthogonality is not None else set()
        decayed = [p for p in self.parameters if p.ndim == 2 and id(p) not in kept]
        free = [p for p in self.parameters if p.ndim == 1]
        if training.orthogonality == "penalty":
            free += projections
        groups = [{"params": decayed, "weight_decay": training.weight_decay}, {"params": free}]
        made: list[Any] = [torch.optim.SGD([group for group in groups if group["params"]], fused=True)]
        if training.on_stiefel and projections:
            made.append(StiefelSGD(projections, retraction=str(training.orthogonality)))
        return made

    def _criterion(self) -> Any:
        training = self.training
        given = training.criterion if callable(training.criterion) else self.torch.nn.functional.cross_entropy
        if training.orthogonality != "penalty" or not training.beta:
            return given
        return lambda scores, labels: (
            given(scores, labels) + training.beta * sum(layer.penalty() for layer in self.layers)
        )

    def _move(self, loss: Any) -> None:
        for p in self.parameters:
            p.grad = None
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()

    def _load(self, state: State) -> None:
        torch = self.torch
        with torch.no_grad():
            for p, part in zip(self.parameters, state["x"], strict=True):
                p.copy_(torch.tensor(part))
        buffers = {id(p): torch.tensor(part) for p, part in zip(self.parameters, state["momentum"], strict=True)}
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    optimizer.state[p]["momentum_buffer"] = buffers[id(p)]

    def _momentum(self, p: Any) -> Array:
        for optimizer in self.optimizers:
            if p in optimizer.state:
                return optimizer.state[p]["momentum_buffer"].numpy().copy()
        return np.zeros(tuple(p.shape), np.float32)

    def _arrays(self) -> tuple[Array, ...]:
        return tuple(p.detach().numpy().copy() for p in self.parameters)

    def _measures(self, loss: float, error: float) -> ms.Measures:
        extra: dict[str, float] = {"error": error}
        for number, layer in enumerate(self.layers):
            extra[f"correlations_{number}"] = 2 * float(layer.penalty().detach())
        gap = max((layer.orthonormality() for layer in self.layers), default=0.0)
        return ms.Measures(fun=loss, feasibility=gap, extra=extra)
