"""Attributes that are computed once, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """``functools.cached_property`` of Python 3.12, without the lock of earlier versions.

    All instances of a class share the earlier lock. If a process is forked while another thread computes the attribute,
    the child would wait forever. Without the lock, two threads may both compute the value.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> class Square:
    ...     @ms.execution.cached_property
    ...     def side(self):
    ...         return 2.0
    >>> Square().side
    2.0
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value
