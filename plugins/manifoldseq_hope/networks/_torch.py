"""Lazy import of torch, which only networks need."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from manifoldseq.estimators import quoted


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Set the number of torch threads inside the block: -1 for one per core, None for no change."""
    torch = load_torch()
    before = torch.get_num_threads()
    if n_jobs is not None:
        torch.set_num_threads(os.cpu_count() or 1 if n_jobs == -1 else n_jobs)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def load_torch() -> Any:
    """Return the module torch.

    Raises
    ------
    ImportError
        If it is not installed; the message says how to install it.
    """
    try:
        return import_module("torch")
    except ImportError as error:
        how = (
            "run `pip install torch` (without a GPU: `pip install torch --index-url "
            "https://download.pytorch.org/whl/cpu`)"
        )
        raise ImportError(f"networks are trained by torch, which is not installed: {how}") from error


def torch_device(name: str) -> Any:
    """Return the torch device of a name; raise ValueError unless it can be used."""
    torch = load_torch()
    if not isinstance(name, str):
        raise ValueError(f"device={quoted(name)} is not valid: pass the name of a torch device, such as 'cuda'")
    try:
        device = torch.device(name)
        torch.zeros((), dtype=torch.float64, device=device).item()
    except (RuntimeError, AssertionError, TypeError) as error:  # what torch raises depends on how it was built
        reason = str(error).partition("\n")[0].partition(" (")[0].removesuffix(".")[:250]
        raise ValueError(f"torch cannot use device={quoted(name)} ({reason}): pass 'cpu' or another device") from None
    return device


def check_input(name: str, x: Any, parameter: Any) -> None:
    """Raise ValueError unless x is a tensor with the dtype of the layer's parameter or autocast is enabled."""
    torch = load_torch()
    if not isinstance(x, torch.Tensor):
        raise ValueError(f"the {name} are of type {type(x).__name__}: pass a tensor, torch.as_tensor({name})")
    if x.dtype != parameter.dtype and not (x.is_floating_point() and torch.is_autocast_enabled(x.device.type)):
        raise ValueError(
            f"the {name} are {x.dtype}, but the layer is {parameter.dtype}: call {name}.to({parameter.dtype}), or "
            f"layer.to({x.dtype})"
        )


def module_base() -> Any:
    """Return the base class `torch.nn.Module`, or `object` if torch is missing; the class then raises an error."""
    return load_torch().nn.Module if find_spec("torch") else object
