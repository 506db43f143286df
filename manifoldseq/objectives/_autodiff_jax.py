"""Derivatives by jax: compiled once per cost, in the precision of the point, without changing jax's flag.

Equal costs with different data share compiled functions, because the data are arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from .._result import Tree
from ._cost import Differentiated, like


class ByJax(Differentiated):
    """Derivatives of a cost written with ``jax.numpy``."""

    library = "jax"
    advice = (
        "jax ({cause}): write it with jax.numpy, without float(), .item(), numpy functions or in-place assignment, or "
        "pass its gradient"
    )

    def value(self, rest: tuple[Any, ...], x: Tree) -> float:
        return float(self._run(_compiled(self, "value"), x, *rest))

    def value_and_gradient(self, rest: tuple[Any, ...], x: Tree) -> tuple[float, Tree]:
        value, gradient = self._run(_compiled(self, "pair"), x, *rest)
        return float(value), like(gradient, x)

    def hessian_product(self, rest: tuple[Any, ...], x: Tree, u: Tree) -> Tree:
        return like(self._run(_compiled(self, "product"), like(u, x), x, *rest), x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByJax) and self.cost == other.cost

    def __hash__(self) -> int:
        try:
            return hash(self.cost)
        except TypeError:  # an object that compares, but has no hash
            return id(self.cost)

    @property
    def traced(self) -> Callable[..., Any]:
        return self

    def __call__(self, x: Any, *rest: Any) -> Any:
        """Return the cost or raise an error; the method runs only while jax traces it."""
        value, jnp = self.cost(x, *rest), _jax().numpy
        self.check_library(value)
        if value is None or isinstance(value, tuple | list | dict | str):
            raise self.returned(type(value).__name__)
        array = jnp.asarray(value)
        if jnp.iscomplexobj(array):
            raise self.returned("a complex number")
        if array.size != 1:
            raise self.returned(f"an array of shape {array.shape}", array.shape)
        return array.reshape(()).astype(jnp.result_type(array, jnp.float32))

    def _run(self, function: Any, *args: Any) -> Any:
        jax = _jax()
        try:
            with jax.enable_x64(True):
                return jax.block_until_ready(function(*args))
        except (TypeError, ValueError, AttributeError, RuntimeError) as error:
            if library := self.other_library(error):
                raise self.written_with(library) from error
            kinds = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)
            if isinstance(error, kinds) or (isinstance(error, TypeError) and "item assignment" in str(error)):
                raise self.explained(error) from error
            raise


@lru_cache(maxsize=256)
def _compiled(by: ByJax, what: str) -> Any:
    """Return the compiled value, pair of value and gradient, or product with the Hessian, of all equal costs."""
    jax = _jax()
    if what == "value":
        return jax.jit(by)
    if what == "pair":
        return jax.jit(jax.value_and_grad(by))

    def product(u: Tree, x: Tree, *rest: Any) -> Tree:
        return jax.jvp(jax.grad(lambda y: by(y, *rest)), (x,), (u,))[1]

    return jax.jit(product)


def _jax() -> Any:
    return import_module("jax")
