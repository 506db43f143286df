"""Methods that exist only with some settings or after some fits, with error messages that give the reason."""

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, cast


class _Available:
    """A method of an estimator behind a check; see `available_where`."""

    def __init__(self, check: Callable[[Any], None], method: Callable[..., Any]) -> None:
        self.check, self.method = check, method
        update_wrapper(cast(Any, self), method)

    def __get__(self, estimator: Any, owner: type) -> Any:
        if estimator is None:
            return self.method  # of the class: what documents it
        self.check(estimator)
        return MethodType(self.method, estimator)


def available_where(check: Callable[[Any], None]) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a method that exists only if ``check(estimator)`` raises no AttributeError.

    Users see the message of this error, unlike with scikit-learn's `available_if`.

    Examples
    --------
    >>> def check(model):
    ...     raise AttributeError("pass classes to fit")
    >>> class Model:
    ...     @available_where(check)
    ...     def predict(self): ...
    >>> hasattr(Model(), "predict")
    False
    >>> Model().predict()
    Traceback (most recent call last):
    ...
    AttributeError: pass classes to fit
    """
    return lambda method: _Available(check, method)
