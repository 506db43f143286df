"""A network as a torch module (layers, dropout) and one epoch of its training."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import manifoldseq as ms

from ..families._family import Array
from ..mixtures._dense import Dense
from ._layer import HOPELayer
from ._schedule import ReduceOnPlateau, Training
from ._torch import load_torch
from ._windows import Windows

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
    X : ndarray of shape (N, D), float32, or Windows
    y : ndarray of int of shape (N,)
        Numbers of classes; rows with -1 always count as errors.
    layers : sequence of Dense
        The network at the start: its rectified layers.
    head : Dense or None
        The affine layer after the rectified layers; None for the criterion (40).
    training : Training
    seed : int
        Seed of the order of the rows and of dropout. In epoch t, the order depends on the seed and t only; dropout also
        depends on the device.
    validation : tuple of X and y, optional
        Rows whose error (%) is measured after every epoch; a rate of `ReduceOnPlateau` follows it.
    device : torch.device, optional
        The device of the training; by default the CPU. States are arrays in host memory.
    """

    def __init__(
        self,
        X: Array | Windows,
        y: NDArray[np.int64],
        layers: Sequence[Dense],
        head: Dense | None,
        training: Training,
        seed: int,
        validation: tuple[Array | Windows, NDArray[np.int64]] | None = None,
        device: Any = None,
    ) -> None:
        torch = load_torch()
        self.torch, self.training, self.seed = torch, training, seed
        self.device = torch.device("cpu") if device is None else device
        self.rows = _Rows(X, y, self.device)
        self.held = None if validation is None else _Rows(*validation, self.device)
        self.projected = [layer.U is not None for layer in layers]
        self.has_head = head is not None
        self.network = module(layers, head, training.dropout).to(self.device)
        self.parameters = list(self.network.parameters())
        self.layers = [part for part in self.network if isinstance(part, HOPELayer)]
        self.optimizers = self._optimizers()
        self._loss = self._criterion()

    def start(self) -> tuple[State, ms.Measures]:
        """Return the state of the network at the start, its loss and its error (%)."""
        loss, error = self._applied(self.rows, self._loss)
        arrays = self._arrays()
        state: State = {"x": arrays, "momentum": tuple(np.zeros_like(part) for part in arrays), "epoch": 0}
        return self._measured(state, (), loss, error)

    def step(self, state: State) -> tuple[State, ms.Measures]:
        """Return the state after one epoch, and the loss and the error (%) of its batches before their updates."""
        torch, training, epoch = self.torch, self.training, state["epoch"]
        self._load(state)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = training.rate.rate(
                    state["errors"] if isinstance(training.rate, ReduceOnPlateau) else epoch
                )
                group["momentum"] = training.momentum.rate(epoch)
        N, b = len(self.rows), min(training.batch_size, len(self.rows))
        # a run that is resumed on the same device draws the same order and the same dropout
        device = self.device
        loss_sum, wrong = (torch.zeros((), dtype=kind, device=device) for kind in (torch.float64, torch.int64))
        with torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type):
            torch.manual_seed(int(np.random.SeedSequence([self.seed, epoch]).generate_state(1)[0]))
            self.network.train()
            order = torch.randperm(N).to(device)
            for rows in order.split(b):
                inputs, labels = self.rows[rows]
                scores = self.network(inputs)
                loss = self._loss(scores, labels)
                self._move(loss)
                loss_sum += loss.detach() * len(rows)
                wrong += (scores.detach().argmax(1) != labels).sum()
        momentum = tuple(self._momentum(p) for p in self.parameters)
        after: State = {"x": self._arrays(), "momentum": momentum, "epoch": epoch + 1}
        return self._measured(after, state.get("errors", ()), float(loss_sum) / N, 100 * float(wrong) / N)

    def dense(self, parts: Sequence[Array]) -> tuple[tuple[Dense, ...], Dense | None]:
        """Return the layers and the head from the arrays of a state."""
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
            from manifoldseq.torch import RiemannianSGD

            kind = {"params": projections, "orthonormal": True}
            made.append(RiemannianSGD([kind], retraction=str(training.orthogonality)))
        return made

    def _criterion(self) -> Any:
        training = self.training
        given = _checked(training.criterion) if callable(training.criterion) else self.torch.nn.functional.cross_entropy
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
        buffers = {
            id(p): torch.tensor(part, device=self.device)
            for p, part in zip(self.parameters, state["momentum"], strict=True)
        }
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    optimizer.state[p] = {"momentum_buffer": buffers[id(p)]}

    def _momentum(self, p: Any) -> Array:
        for optimizer in self.optimizers:
            if p in optimizer.state:
                return optimizer.state[p]["momentum_buffer"].cpu().numpy().copy()
        return np.zeros(tuple(p.shape), np.float32)

    def _arrays(self) -> tuple[Array, ...]:
        return tuple(p.detach().cpu().numpy().copy() for p in self.parameters)

    def _applied(self, rows: "_Rows", loss: Any = None) -> tuple[float, float]:
        """Return the mean loss (0 without a criterion) and the error (%) of the current network."""
        total, wrong = 0.0, 0
        self.network.eval()
        with self.torch.no_grad():
            for some in self.torch.arange(len(rows), device=self.device).split(_ROWS):
                inputs, labels = rows[some]
                scores = self.network(inputs)
                total += 0.0 if loss is None else float(loss(scores, labels)) * len(some)
                wrong += int((scores.argmax(1) != labels).sum())
        return total / len(rows), 100 * wrong / len(rows)

    def _measured(
        self, state: State, errors: tuple[float, ...], loss: float, error: float
    ) -> tuple[State, ms.Measures]:
        """Return a state with its measures, including the errors on validation rows up to this epoch."""
        if self.held is None:
            return state, self._measures(loss, {"error": error})
        errors = (*errors, self._applied(self.held)[1])
        rate = self.training.rate
        over = isinstance(rate, ReduceOnPlateau) and rate.ended(errors)
        measures = self._measures(loss, {"error": error, "validation_error": errors[-1]})
        status = ms.Status.COST_CHANGE if over else None
        return {**state, "errors": errors}, dataclasses.replace(measures, status=status)

    def _measures(self, loss: float, extra: dict[str, float]) -> ms.Measures:
        for number, layer in enumerate(self.layers):
            extra[f"correlations_{number}"] = 2 * float(layer.penalty().detach())
        gap = max((layer.orthonormality() for layer in self.layers), default=0.0)
        return ms.Measures(fun=loss, feasibility=gap, extra=extra)


def _checked(criterion: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a criterion that raises ValueError unless its value is a scalar that depends on the scores."""
    torch = load_torch()

    def loss(scores: Any, labels: Any) -> Any:
        found = criterion(scores, labels)
        if not (isinstance(found, torch.Tensor) and found.ndim == 0 and found.is_floating_point()):
            kind = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, torch.Tensor) else type(found).__name__
            raise ValueError(f"criterion returned {kind}: return one number as a tensor of floats, such as a mean")
        if scores.requires_grad and not found.requires_grad:
            raise ValueError("criterion returned a tensor without a gradient: compute it in torch from the scores")
        return found

    return loss


class _Rows:
    """Rows and labels as tensors; windows are gathered batch by batch."""

    def __init__(self, X: Array | Windows, y: NDArray[np.int64], device: Any) -> None:
        torch = load_torch()
        self.starts = None
        if isinstance(X, Windows):
            self.starts = torch.from_numpy(X.starts).to(device)
            self.X = torch.as_strided(torch.from_numpy(X.frames).to(device), X.view.shape, (X.frames.shape[1], 1))
        else:
            self.X = torch.from_numpy(np.array(X, np.float32, order="C")).to(device)
        self.y = torch.from_numpy(np.array(y, np.int64)).to(device)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Any) -> tuple[Any, Any]:
        return self.X[rows if self.starts is None else self.starts[rows]], self.y[rows]
