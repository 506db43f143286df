"""Registration of the records of this package; targets are strings, so that listing imports no model code.

Files by package. A package imports only from its own row and from the rows below it:

* `_plots`: filters, concentrations, correlations
* `networks/`: `_network` (the classifier), `_stack` (layers learned one after another), `_training` (an epoch),
  `_layer` and `_convolution_layer` (of torch), `_schedule` (learning rates, momentum), `_initial_weights` (41),
  `_windows` (rows from consecutive frames), `_labels` (checks), `_torch` (loads torch)
* `features/`: `_convolution` (`ConvolutionalFeatures`), `_vector` (`VectorFeatures`), `_responses` (of units to
  patches), `_patches` (windows of images), `_mnist` (the digits)
* `mixtures/`: the estimators `_hope`, `_without_hope` (`VonMisesFisherMixture`, `PCAMovMF`) and `_spherical_kmeans`,
  their common code in `_projected`, `_sizes` (K and M); the models `_cosines` and `_likelihood`, and its
  `_projection_factors` (appendix A); the E-step in `_expectation`, `_noise` (L2), `_radius` (distribution of |z|),
  `_threshold` (39), `_seeding`; `_penalty` on correlated rows; `_parameters` (of a model), `_dense` (a layer as arrays)
* `families/`: `_von_mises_fisher`, `_gaussian`, `_bessel`, `_laws` (`check_family`), `_family` (the record `Family`),
  `_rows` (checks of rows, unit length)
"""

from collections.abc import Iterator
from typing import Any

import manifoldseq as ms
from manifoldseq import hooks

_PAPER = "Zhang, Jiang, Hybrid Orthogonal Projection and Estimation (HOPE)"


@ms.hookimpl
def manifoldseq_models() -> Iterator[hooks.ModelSpec]:
    """Maximum-likelihood projections with mixtures, and mixtures without a projection."""
    at = "manifoldseq_hope.mixtures._likelihood:{}".format
    parts: dict[str, Any] = {
        part: at(part) for part in ("manifold", "statistics", "value_and_gradient", "batch", "carry")
    }
    parts["value"] = at("minus_log_likelihood")
    yield hooks.ModelSpec(
        "hope.movmf",
        prepare=at("movmf"),
        **parts,
        constraints=at("constraints"),
        initializers={name: at(name) for name in ("pca", "random")},
        updates={"polar": at("polar"), "em": at("em")},
        update_factors=at("update_factors"),
        equivalences={"permuted": at("permuted")},
        example=at("example"),
        input="samples",
        summary="Orthonormal projection and von Mises-Fisher mixture, by maximum likelihood",
        reference=_PAPER,
    )
    yield hooks.ModelSpec(
        "hope.gmm",
        base="hope:hope.movmf",
        prepare=at("gmm"),
        summary="Orthonormal projection and Gaussian mixture, by maximum likelihood",
        reference=_PAPER,
    )
    yield hooks.ModelSpec(
        "hope.family",
        base="hope:hope.movmf",
        prepare=at("of_family"),
        summary="Orthonormal projection and mixture of a user-defined family",
        reference=_PAPER,
    )
    yield hooks.ModelSpec(
        "hope.vmf",
        prepare=at("vmf"),
        **parts,
        initializers={"seeds": at("seeds")},
        updates={"em": at("em")},
        equivalences={"permuted": at("permuted")},
        solver="em",
        example=at("example"),
        input="samples",
        summary="Mixture of von Mises-Fisher distributions for rows of unit length, without projection",
        reference="Banerjee, Dhillon, Ghosh, Sra, JMLR 6 (2005)",
    )
    at = "manifoldseq_hope.mixtures._cosines:{}".format
    yield hooks.ModelSpec(
        "hope.cosine",
        prepare=at("prepare"),
        manifold=at("manifold"),
        statistics=at("statistics"),
        value_and_gradient=at("value_and_gradient"),
        initializers={"seeds": at("seeds")},
        updates={"means": at("means")},
        equivalences={"permuted": at("permuted")},
        solver="em",
        example="manifoldseq_hope.mixtures._likelihood:example",
        input="samples",
        summary="Clusters of directions: the mean of 1 - cosine between rows and the nearest of K unit centres",
        reference="Dhillon, Modha, Machine Learning 42 (2001)",
    )


@ms.hookimpl
def manifoldseq_estimators() -> Iterator[hooks.EstimatorSpec]:
    """Projections with mixtures, and their baselines."""
    yield hooks.EstimatorSpec(
        "hope",
        factory="manifoldseq_hope.mixtures._hope:HOPE",
        input="samples",
        models=("hope.movmf", "hope.gmm", "hope.family"),
        plots=("hope-filters", "hope-concentrations"),
        summary="Features without labels: orthonormal projection and mixture, learned together by maximum likelihood",
    )
    yield hooks.EstimatorSpec(
        "vmf-mixture",
        factory="manifoldseq_hope.mixtures._without_hope:VonMisesFisherMixture",
        input="samples",
        models=("hope.vmf",),
        plots=("hope-filters", "hope-concentrations"),
        summary="Mixture of von Mises-Fisher distributions of the directions of rows, by EM",
    )
    yield hooks.EstimatorSpec(
        "spherical-kmeans",
        factory="manifoldseq_hope.mixtures._spherical_kmeans:SphericalKMeans",
        input="samples",
        models=("hope.cosine",),
        plots=("hope-filters",),
        summary="k-means of directions by the cosine",
    )
    yield hooks.EstimatorSpec(
        "pca-movmf",
        factory="manifoldseq_hope.mixtures._without_hope:PCAMovMF",
        input="samples",
        models=("hope.movmf",),
        plots=("hope-filters", "hope-concentrations"),
        summary="Principal axes, then a mixture of von Mises-Fisher distributions",
    )
    yield hooks.EstimatorSpec(
        "convolutional-features",
        factory="manifoldseq_hope.features._convolution:ConvolutionalFeatures",
        input="samples",
        summary="Pooled responses of units that are learned from patches of images",
    )
    yield hooks.EstimatorSpec(
        "vector-features",
        factory="manifoldseq_hope.features._vector:VectorFeatures",
        input="samples",
        summary="Features of rows for a linear classifier: chord lengths to the directions of a mixture",
    )
    yield hooks.EstimatorSpec(
        "hope-stack",
        factory="manifoldseq_hope.networks._stack:HOPEStack",
        input="samples",
        plots=("hope-filters",),
        summary="HOPE layers learned one after another without labels, with a softmax or support vector head on top",
    )
    yield hooks.EstimatorSpec(
        "hope-network",
        factory="manifoldseq_hope.networks._network:HOPENetworkClassifier",
        input="samples",
        plots=("hope-filters", "hope-correlations"),
        summary="Network of rectified layers behind orthonormal projections, trained with labels (needs torch)",
    )


@ms.hookimpl
def manifoldseq_plots() -> Iterator[hooks.PlotSpec]:
    """Figures of the reports of the estimators above."""
    for name, summary in (
        ("filters", "Weights of components or units as square images, each on its own grey scale"),
        (
            "concentrations",
            "Histogram of the concentrations of components; many equal values at one end indicate a bound",
        ),
        ("correlations", "Sum of the absolute cosines between the rows of each projection, by epoch"),
    ):
        yield hooks.PlotSpec(
            f"hope-{name}",
            accepts=f"manifoldseq_hope._plots:accepts_{name}",
            draw=f"manifoldseq_hope._plots:draw_{name}",
            summary=summary,
        )


@ms.hookimpl
def manifoldseq_datasets() -> Iterator[hooks.DatasetSpec]:
    """The digits of the experiments, which are downloaded on first use."""
    for name, loader, what in (("mnist", "mnist", "60000 training"), ("mnist-test", "mnist_test", "10000 test")):
        yield hooks.DatasetSpec(
            name,
            loader=f"manifoldseq_hope.features._mnist:{loader}",
            licence="CC BY-SA 3.0 (LeCun, Cortes, Burges)",
            summary=f"The {what} images of MNIST, 28 × 28 pixels from 0 to 1, and their digits",
        )
