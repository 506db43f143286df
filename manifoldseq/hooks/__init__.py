"""Hooks: how models, kernels, solvers and the rest are registered and found by name."""

from collections.abc import Callable
from typing import Any

from .._moved import moved
from ._bundled import BUNDLED
from ._hookspecs import hookimpl
from ._lookup import (
    get_dataset,
    get_domain,
    get_estimator,
    get_kernel,
    get_manifold,
    get_model,
    get_plot,
    get_reader,
    get_record,
    get_reproduction,
    get_rule,
    get_solver,
    plugins,
    record_of,
    records,
    register,
    source_of,
    with_all_parts,
)
from ._models import Source, sources
from ._plugin import Plugin
from ._records import (
    DatasetSpec,
    DomainSpec,
    EstimatorSpec,
    InitializerSpec,
    KernelSpec,
    ManifoldSpec,
    ModelSpec,
    PlotSpec,
    ReaderSpec,
    Record,
    ReproductionSpec,
    RuleSpec,
    SolverSpec,
    UpdateSpec,
)
from ._registry import AmbiguousName, UnknownName

__all__ = [
    "BUNDLED",
    "AmbiguousName",
    "DatasetSpec",
    "DomainSpec",
    "EstimatorSpec",
    "InitializerSpec",
    "KernelSpec",
    "ManifoldSpec",
    "ModelSpec",
    "PlotSpec",
    "Plugin",
    "ReaderSpec",
    "Record",
    "ReproductionSpec",
    "RuleSpec",
    "SolverSpec",
    "Source",
    "UnknownName",
    "UpdateSpec",
    "get_dataset",
    "get_domain",
    "get_estimator",
    "get_kernel",
    "get_manifold",
    "get_model",
    "get_plot",
    "get_reader",
    "get_record",
    "get_reproduction",
    "get_rule",
    "get_solver",
    "hookimpl",
    "plugins",
    "record_of",
    "records",
    "register",
    "source_of",
    "sources",
    "with_all_parts",
]

_RECORDS = "Dataset Domain Estimator Kernel Manifold Model Plot Reader Reproduction Solver".split()
__getattr__: Callable[[str], Any] = moved(
    __name__,
    {
        __name__: {name: f"{name}Spec" for name in _RECORDS},
        f"{__name__}._plugin": ("Fault",),
        f"{__name__}._records": ("KINDS", "Target", "resolve"),
        f"{__name__}._registry": ("Registry",),
    },
)
