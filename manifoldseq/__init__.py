"""A plugin-based manifold-optimization engine for sequences and multi-view data.

``minimize`` solves a problem over a manifold. ``get_model``, ``get_estimator``, ``get_kernel`` and ``get_solver``
return registered objects by name. Other public names are in the packages ``linalg``, ``manifolds``, ``objectives``,
``kernels``, ``solvers``, ``batch``, ``interop``, ``estimators``, ``models``, ``evaluation``, ``hooks``, ``testing``,
``execution``, ``storage``, ``report``, ``reproduction``, ``losses`` and ``poses``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (
        batch,
        estimators,
        evaluation,
        execution,
        hooks,
        interop,
        kernels,
        linalg,
        losses,
        manifolds,
        models,
        objectives,
        poses,
        report,
        reproduction,
        solvers,
        storage,
        testing,
    )
    from ._implicit import implicit_gradient
    from ._iterate import iterate
    from ._mean import frechet_mean
    from ._minimize import minimize
    from ._observers import Event, Progress, Recorder, map_observed
    from ._problem import Problem
    from ._result import BatchResult, Evaluations, Measures, NotConverged, Result, Run, Status, Steps
    from ._stopping import (
        AllOf,
        AnyOf,
        CostChange,
        GradientNorm,
        MaxEvaluations,
        MaxIterations,
        MaxTime,
        PredictedDecrease,
        RunSoFar,
        StepSize,
        StoppingRule,
    )
    from .batch import minimize_batch
    from .hooks import get_estimator, get_kernel, get_model, get_solver, hookimpl, register
    from .interop import from_pymanopt, to_pymanopt
    from .kernels import kernel
    from .models import Prepared
    from .objectives import (
        Constraint,
        Objective,
        Residuals,
        constraint,
        finite_sum,
        least_squares,
        objective,
        residuals,
        sharded,
    )
    from .storage import load

__version__ = "0.1.0"

_PACKAGES = (
    "batch",
    "estimators",
    "evaluation",
    "execution",
    "hooks",
    "interop",
    "kernels",
    "linalg",
    "losses",
    "manifolds",
    "models",
    "objectives",
    "poses",
    "report",
    "reproduction",
    "solvers",
    "storage",
    "testing",
)
_NAMES = {
    "Event": "_observers",
    "Progress": "_observers",
    "Recorder": "_observers",
    "map_observed": "_observers",
    "Prepared": "models",
    "Problem": "_problem",
    "Evaluations": "_result",
    "Measures": "_result",
    "NotConverged": "_result",
    "Result": "_result",
    "Run": "_result",
    "Status": "_result",
    "Steps": "_result",
    "AllOf": "_stopping",
    "AnyOf": "_stopping",
    "CostChange": "_stopping",
    "GradientNorm": "_stopping",
    "PredictedDecrease": "_stopping",
    "RunSoFar": "_stopping",
    "MaxEvaluations": "_stopping",
    "MaxIterations": "_stopping",
    "MaxTime": "_stopping",
    "StepSize": "_stopping",
    "StoppingRule": "_stopping",
    "get_estimator": "hooks",
    "get_kernel": "hooks",
    "get_model": "hooks",
    "get_solver": "hooks",
    "hookimpl": "hooks",
    "register": "hooks",
    "implicit_gradient": "_implicit",
    "iterate": "_iterate",
    "frechet_mean": "_mean",
    "minimize": "_minimize",
    "BatchResult": "_result",
    "minimize_batch": "batch",
    "Constraint": "objectives",
    "Objective": "objectives",
    "Residuals": "objectives",
    "constraint": "objectives",
    "least_squares": "objectives",
    "residuals": "objectives",
    "finite_sum": "objectives",
    "kernel": "kernels",
    "objective": "objectives",
    "sharded": "objectives",
    "from_pymanopt": "interop",
    "to_pymanopt": "interop",
    "load": "storage",
}

__all__ = [
    "AllOf",
    "AnyOf",
    "BatchResult",
    "Constraint",
    "CostChange",
    "Evaluations",
    "Event",
    "GradientNorm",
    "MaxEvaluations",
    "MaxIterations",
    "MaxTime",
    "Measures",
    "NotConverged",
    "Objective",
    "PredictedDecrease",
    "Prepared",
    "Problem",
    "Progress",
    "Recorder",
    "Residuals",
    "Result",
    "Run",
    "RunSoFar",
    "Status",
    "StepSize",
    "Steps",
    "StoppingRule",
    "__version__",
    "batch",
    "constraint",
    "estimators",
    "evaluation",
    "execution",
    "finite_sum",
    "frechet_mean",
    "from_pymanopt",
    "get_estimator",
    "get_kernel",
    "get_model",
    "get_solver",
    "hookimpl",
    "hooks",
    "implicit_gradient",
    "interop",
    "iterate",
    "kernel",
    "kernels",
    "least_squares",
    "linalg",
    "load",
    "losses",
    "manifolds",
    "map_observed",
    "minimize",
    "minimize_batch",
    "models",
    "objective",
    "objectives",
    "poses",
    "register",
    "report",
    "reproduction",
    "residuals",
    "sharded",
    "solvers",
    "storage",
    "testing",
    "to_pymanopt",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name in _NAMES:
        value = getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


import_module(f"{__name__}.catalogue")  # hands the core's own records to the hooks
