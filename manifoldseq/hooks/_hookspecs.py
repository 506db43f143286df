"""The specifications of all hooks; a plugin implements the hooks that it needs.

A plugin is a module (or object) named by an entry point of the group ``manifoldseq``. Every hook but
`manifoldseq_commands` is a generator of the frozen records of `manifoldseq.hooks`. Records hold strings
(``"package.module:attribute"``), so a plugin module need not import the code that it registers.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from . import _records as records

if TYPE_CHECKING:
    import click

PROJECT = "manifoldseq"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker(PROJECT)


@hookspec
def manifoldseq_models() -> Iterable[records.ModelSpec]:  # pyright: ignore[reportReturnType]
    """Register models: costs over manifolds, with closed-form starts and updates.

    Yields
    ------
    manifoldseq.hooks.ModelSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_models():
            yield ms.hooks.ModelSpec(
                name="procrustes",
                prepare="my_package.model:prepare",    # prepare(data, **params) -> model
                manifold="my_package.model:manifold",  # manifold(model) -> Manifold
                value_and_gradient="my_package.model:value_and_gradient",  # (model, point) -> (float, gradient)
                initializers={"polar": "my_package.model:polar"},          # (problem, rng) -> point
                exact=("polar",),                      # this start is the minimum
                example="my_package.model:example",    # example(rng) -> data
                summary="Orthogonal matrix that best maps one point set onto another",
                reference="Schönemann 1966",
            )
    """


@hookspec
def manifoldseq_initializers() -> Iterable[records.InitializerSpec]:  # pyright: ignore[reportReturnType]
    """Register initializers of models, also of models that another plugin registers.

    Yields
    ------
    manifoldseq.hooks.InitializerSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_initializers():
            yield ms.hooks.InitializerSpec(
                name="fourth-moments",
                target="my_package.starts:fourth_moments",  # fourth_moments(problem, rng) -> point
                model="hope.vmf",
                summary="Centres along the axes of the fourth moments",
            )
    """


@hookspec
def manifoldseq_updates() -> Iterable[records.UpdateSpec]:  # pyright: ignore[reportReturnType]
    """Register block updates of models, also of models that another plugin registers.

    Yields
    ------
    manifoldseq.hooks.UpdateSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_updates():
            yield ms.hooks.UpdateSpec(
                name="rotation",
                target="my_package.updates:rotation",  # rotation(model, point) -> point, never a higher value
                model="procrustes",
                factors=("rotation",),
                summary="The rotation in closed form, with the scale fixed",
            )
    """


@hookspec
def manifoldseq_estimators() -> Iterable[records.EstimatorSpec]:  # pyright: ignore[reportReturnType]
    """Register estimators: classes that follow scikit-learn's conventions.

    Yields
    ------
    manifoldseq.hooks.EstimatorSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_estimators():
            yield ms.hooks.EstimatorSpec(
                name="mean-classifier",
                factory="my_package.estimator:MeanClassifier",
                input="sequences",  # or "samples", "views", "bags"
                summary="Nearest mean of the channels",
            )
    """


@hookspec
def manifoldseq_rules() -> Iterable[records.RuleSpec]:  # pyright: ignore[reportReturnType]
    """Register rules that a parameter of an estimator accepts by name. The estimator may belong to another plugin.

    Yields
    ------
    manifoldseq.hooks.RuleSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_rules():
            yield ms.hooks.RuleSpec(
                name="first-member",
                factory="my_package.rules:FirstMember",  # FirstMember(**params) -> manifoldseq_lds.CentreRule
                estimator="lds-kmeans",
                parameter="mean",                        # LDSKMeans(mean="first-member")
                summary="The member of a cluster that comes first",
            )
    """


@hookspec
def manifoldseq_kernels() -> Iterable[records.KernelSpec]:  # pyright: ignore[reportReturnType]
    """Register kernels: similarities of the items of a domain.

    Yields
    ------
    manifoldseq.hooks.KernelSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_kernels():
            yield ms.hooks.KernelSpec(
                name="first-gain",
                factory="my_package.kernel:FirstGain",  # FirstGain(**params) -> ms.kernels.Kernel
                invariances={"state-basis": "my_package.kernel:rotate"},  # rotate(item) -> item
                summary="Inner product of the first two Markov parameters",
            )
    """


@hookspec
def manifoldseq_domains() -> Iterable[records.DomainSpec]:  # pyright: ignore[reportReturnType]
    """Register domains: types of the items of kernels.

    Yields
    ------
    manifoldseq.hooks.DomainSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_domains():
            yield ms.hooks.DomainSpec(
                name="subspaces",
                manifold="my_package.domain:manifold",  # manifold(m, n, bound) -> ms.manifolds.Manifold
                to_item="my_package.domain:to_item",    # to_item(point) -> item, a tuple of arrays
                example="my_package.domain:example",    # example(rng) -> items
                summary="Orthonormal bases up to rotation",
            )
    """


@hookspec
def manifoldseq_manifolds() -> Iterable[records.ManifoldSpec]:  # pyright: ignore[reportReturnType]
    """Register manifolds: sets of points with a metric, a projection and a retraction.

    Yields
    ------
    manifoldseq.hooks.ManifoldSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_manifolds():
            yield ms.hooks.ManifoldSpec(
                name="torus",
                factory="my_package.torus:Torus",
                example="my_package.torus:example",  # example(rng) -> a small Torus
                summary="Product of circles",
            )
    """


@hookspec
def manifoldseq_solvers() -> Iterable[records.SolverSpec]:  # pyright: ignore[reportReturnType]
    """Register solvers: subclasses of ``ms.solvers.Solver`` with ``init(problem, point)`` and ``step(problem, state)``.

    Yields
    ------
    manifoldseq.hooks.SolverSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_solvers():
            yield ms.hooks.SolverSpec(
                name="fixed-step",
                factory="my_package.solver:FixedStep",  # FixedStep(**options) -> solver
                needs=("value_and_gradient",),
                summary="Steepest descent with a fixed step size",
            )
    """


@hookspec
def manifoldseq_readers() -> Iterable[records.ReaderSpec]:  # pyright: ignore[reportReturnType]
    """Register readers of files with sequences.

    Yields
    ------
    manifoldseq.hooks.ReaderSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_readers():
            yield ms.hooks.ReaderSpec(
                name="edf",
                patterns=("*.edf", "*.edf.gz"),
                factory="my_package.edf:read",     # read(path) -> ms.storage.SequenceData
                example="my_package.edf:example",  # example(folder) -> path of a small file
                summary="European Data Format",
            )
    """


@hookspec
def manifoldseq_datasets() -> Iterable[records.DatasetSpec]:  # pyright: ignore[reportReturnType]
    """Register data sets that are loaded by name.

    Yields
    ------
    manifoldseq.hooks.DatasetSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_datasets():
            yield ms.hooks.DatasetSpec(
                name="noisy-sines",
                loader="my_package.data:noisy_sines",  # noisy_sines() -> ms.storage.SequenceData
                licence="CC0-1.0",
                summary="Noisy sine waves of two frequencies",
            )
    """


@hookspec
def manifoldseq_plots() -> Iterable[records.PlotSpec]:  # pyright: ignore[reportReturnType]
    """Register plots: figures of fitted estimators, which `fit` writes into the run directory.

    The report of a run contains the plots that the record of its estimator names in ``plots``. `result` is a
    `manifoldseq.report.Fitted`: the estimator and the data it was fitted on. The title of `ax` becomes the heading, and
    the summary of the record becomes the caption.

    Yields
    ------
    manifoldseq.hooks.PlotSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_plots():
            yield ms.hooks.PlotSpec(
                name="step-sizes",
                accepts="my_package.plot:accepts",  # accepts(result) -> bool
                draw="my_package.plot:draw",        # draw(ax, result) -> None
                summary="Step size against iteration",
            )
    """


@hookspec
def manifoldseq_reproductions() -> Iterable[records.ReproductionSpec]:  # pyright: ignore[reportReturnType]
    """Register reproductions: a table or figure of a paper.

    Yields
    ------
    manifoldseq.hooks.ReproductionSpec

    Examples
    --------
    .. code-block:: python

        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_reproductions():
            yield ms.hooks.ReproductionSpec(
                name="author2016-table2",
                run="my_package.reproduction:table2",  # table2(**settings) -> rows with the paper's figures
                paper="Author 2016, Table 2",
                quick={"n_seeds": 1},
                summary="Error rates on the two data sets of the paper",
            )
    """


@hookspec
def manifoldseq_commands(cli: "click.Group") -> None:
    """Add commands to ``manifoldseq`` on the command line.

    Parameters
    ----------
    cli : click.Group
        The group to add to. A command whose name the core or another plugin uses is not added, and is listed as a
        clash.

    Examples
    --------
    .. code-block:: python

        import click
        import manifoldseq as ms


        @ms.hookimpl
        def manifoldseq_commands(cli):
            @cli.command("greet")
            @click.argument("name")
            def greet(name):
                "Say hello to NAME."
                click.echo(f"Hello, {name}!")
    """
