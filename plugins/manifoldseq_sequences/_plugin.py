"""Registration of the records of this package; targets are strings, so that listing imports no model code.

Files by package. A package imports only from its own row and from the rows below it:

* `_kmeans` (`SequenceKMeans`), `_classifier` (`SequenceClassifier`), `_neighbors` (`SequenceNeighbors`)
* `_supervised`: the choice of a kernel, or sum of kernels, by cross-validation on labels
* `_estimator`: parameters, checks and coordinates that all estimators share
* `_weights`: the rule of ``kernel="auto"`` without labels, with all its constants
* `_fusion`: the embedding by the fused graph of several kernels, in which `SequenceKMeans` clusters
* `_components`: principal components of a fitted kernel
* `kernels/`: `_statistics`, `_spectrum`, `_autocovariance`, `_shape`, `_convolutions`, `_warping`; `_description`
  (their base classes), `_domain` (the domain `sequences`)
"""

from collections.abc import Iterator

import manifoldseq as ms
from manifoldseq import hooks

_AT = "manifoldseq_sequences.kernels."
_OFFSET = {"offsets of the channels": f"{_AT}_domain:with_offset"}
_REVERSED = {"direction of time": f"{_AT}_domain:reversed_in_time"}
_ORDER = {"order of the time steps": f"{_AT}_domain:shuffled_in_time"}


@ms.hookimpl
def manifoldseq_domains() -> Iterator[hooks.DomainSpec]:
    """Sequences as tuples of one array (T, d)."""
    yield hooks.DomainSpec(
        "sequences",
        manifold=f"{_AT}_domain:manifold",
        to_item=f"{_AT}_domain:to_item",
        example=f"{_AT}_domain:example",
        summary="Sequences: tuples of one array (T, d), time first, with equal numbers of channels",
    )


@ms.hookimpl
def manifoldseq_kernels() -> Iterator[hooks.KernelSpec]:
    """The kernels on sequences."""
    for name, target, invariances, summary in (
        ("statistics", "StatisticsKernel", _ORDER, "Means and standard deviations of the channels"),
        ("spectrum", "SpectrumKernel", _OFFSET, "Logarithms of Welch spectra, independent of the phase"),
        (
            "autocovariance",
            "AutocovarianceKernel",
            _OFFSET | _REVERSED,
            "Autocorrelations of the channels, and correlations of pairs of channels",
        ),
        ("shape", "ShapeKernel", _OFFSET, "Curves, resampled to equal length and standardized"),
        ("warping", "WarpingKernel", {}, "Dynamic time warping of resampled sequences within a band"),
        ("convolutions", "ConvolutionsKernel", {}, "Responses to random convolutions with many dilations"),
    ):
        yield hooks.KernelSpec(name, factory=f"{_AT}_{name}:{target}", invariances=invariances, summary=summary)


@ms.hookimpl
def manifoldseq_estimators() -> Iterator[hooks.EstimatorSpec]:
    """Clustering, classification and nearest neighbours of sequences."""
    at = "manifoldseq_sequences.{}".format
    yield hooks.EstimatorSpec(
        "sequence-kmeans",
        factory=at("_kmeans:SequenceKMeans"),
        auto=("n_clusters",),
        cost=at("_kmeans:cost_of_choice"),
        summary="k-means of sequences compared by several kernels, with weights learned without labels",
    )
    yield hooks.EstimatorSpec(
        "sequence-classifier",
        factory=at("_classifier:SequenceClassifier"),
        summary="Support vector machines on a kernel of sequences that cross-validation chooses",
    )
    yield hooks.EstimatorSpec(
        "sequence-neighbors",
        factory=at("_neighbors:SequenceNeighbors"),
        summary="Nearest neighbours of sequences under a kernel that cross-validation chooses, and outlier scores",
    )
