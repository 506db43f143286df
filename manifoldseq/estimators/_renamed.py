"""Old names of parameters, which are taken for one release."""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def renamed_parameters(**names: str) -> Callable[[F], F]:
    """Return a decorator of a function, or of ``__init__``, that takes parameters under their old names too.

    The signature shows the new names only, so that scikit-learn's ``get_params`` and ``clone`` know no others. For
    models that are stored under the old names there is `manifoldseq.storage.renamed`.

    Parameters
    ----------
    **names : str
        The new name of each old one.

    Returns
    -------
    callable
        The decorated function warns of an old name (DeprecationWarning), and raises TypeError if it is called with the
        old and the new name of a parameter.

    Examples
    --------
    >>> import warnings
    >>> @renamed_parameters(start="init")
    ... def fit(X, *, init="random"):
    ...     return init
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fit([[1.0]], start="pca")
    'pca'
    >>> print(caught[0].message)
    fit: the parameter start is called init now
    """

    def decorate(function: F) -> F:
        owner = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def taking(*args: Any, **given: Any) -> Any:
            for old, new in names.items():
                if old in given:
                    if new in given:
                        raise TypeError(f"{owner}: {old} is the old name of {new}: pass {new} alone")
                    warnings.warn(f"{owner}: the parameter {old} is called {new} now", DeprecationWarning, stacklevel=2)
                    given[new] = given.pop(old)
            return function(*args, **given)

        return cast(F, taking)

    return decorate
