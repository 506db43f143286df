"""Pickling by name of functions, and of objects that replace functions by decoration."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pickle import PicklingError, UnpicklingError
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

_decorated: WeakValueDictionary[tuple[str, str], FunctionType] = WeakValueDictionary()
"""The functions of decorators and factories by module and name, which are filled when modules are imported."""

_BY_VALUE = ("cloudpickle", "dill")
"""Packages whose picklers write a function that cannot be imported with its code."""


def remember(*functions: Any) -> None:
    """Register functions at the top level of a module, to find them although their names refer to other objects."""
    for function in functions:
        if isinstance(function, partial):
            remember(function.func, *function.args, *function.keywords.values())
        elif isinstance(function, FunctionType):
            _decorated[function.__module__, function.__qualname__] = function


def portable(value: Any, what: str) -> Any:
    """Return a value for pickling in which functions, also inside a `partial`, are pickled by name.

    `what` names the owner of the functions in the error message.
    """
    if isinstance(value, FunctionType):
        return _Named(value, what)
    if type(value) is partial:
        args = (portable(one, what) for one in value.args)
        keywords = {name: portable(one, what) for name, one in value.keywords.items()}
        return partial(portable(value.func, what), *args, **keywords)
    return value


def attribute_of_module(value: Any, function: Any) -> tuple[Callable[..., Any], tuple[str, str]] | None:
    """Return the pickling of an object that is an attribute of the module of its function, or None."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or not _found_elsewhere(module):
        return None
    for path in (getattr(function, "__qualname__", ""), *(name for name, one in vars(module).items() if one is value)):
        with suppress(AttributeError):
            if _attribute(module, path) is value:
                return _imported, (module.__name__, path)
    return None


class _Named:
    """A function that is pickled by name, also if another object has the name now; copies return the function."""

    def __init__(self, function: FunctionType, what: str) -> None:
        self.function, self.what = function, what

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.function(*args, **keywords)

    def __deepcopy__(self, memo: dict[int, Any]) -> FunctionType:
        return self.function

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        function = self.function
        module, name = sys.modules.get(function.__module__), function.__qualname__
        if module is not None and _found_elsewhere(module):
            with suppress(AttributeError):
                if _attribute(module, name) is function:
                    return _same, (function,)
            if _decorated.get((module.__name__, name)) is function and "<" not in name:
                return _function, (module.__name__, name)
        if _pickled_by_value():
            return _same, (function,)
        raise PicklingError(
            f"{self.what} cannot be pickled: its function {name!r} {_why(function)}. Write the function at the top "
            "level of a module (a file NAME.py), and import it from there"
        )


def _why(function: FunctionType) -> str:
    if function.__name__ == "<lambda>":
        return "is a lambda, which other processes cannot import"
    if "<locals>" in function.__qualname__:
        return "is defined inside another function, which other processes cannot import"
    module = sys.modules.get(function.__module__)
    if module is None or not _found_elsewhere(module):
        return (
            f"is defined in {function.__module__!r}, a notebook or an interpreter, which other processes cannot import"
        )
    return f"is not the function of this name in the module {function.__module__!r} any more: import the module again"


def _found_elsewhere(module: ModuleType) -> bool:
    """Return whether another process finds a module; a script is found by processes that run the same script."""
    name = module.__name__
    if name not in ("__main__", "__mp_main__"):
        return name not in _travelling() or not _pickled_by_value()
    return hasattr(module, "__file__") and not _pickled_by_value()  # a notebook has no file


def _travelling() -> Collection[str]:
    """Return the names of modules that were given to ``cloudpickle.register_pickle_by_value``."""
    cloudpickle = sys.modules.get("cloudpickle")
    return () if cloudpickle is None else cloudpickle.list_registry_pickle_by_value()


def _pickled_by_value() -> bool:
    """Return whether a pickler that stores the code of functions is active, including joblib's copy."""
    return any(name in _BY_VALUE for caller in _callers() for name in caller.split("."))


def _callers() -> Iterator[str]:
    frame = sys._getframe(1)
    while frame is not None:
        yield str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back


def _attribute(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part)
    return owner


def _same(function: Any) -> Any:
    return function


def _imported(module: str, path: str) -> Any:
    """Return an attribute of a module during unpickling."""
    found = import_module(module)
    try:
        return _attribute(found, path)
    except AttributeError as error:
        raise UnpicklingError(_gone(module, path)) from error


def _function(module: str, name: str) -> Any:
    """Return a function that was passed to a decorator of a module, during unpickling."""
    found = _decorated.get((import_module(module).__name__, name))  # of a script, that of the process here
    if found is None:
        raise UnpicklingError(_gone(module, name))
    return found


def _gone(module: str, name: str) -> str:
    cure = (
        "define it in a module that is imported"
        if module == "__main__"
        else "use the version of the module that defines it, because it may have been renamed"
    )
    return f"{name!r} was pickled as a name of the module {module!r}, but this module does not define {name!r}: {cure}"
