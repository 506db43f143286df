"""Registration of the records of this package; targets are strings, so that listing imports no model code.

Files by subject. A file imports only from its own row and from the rows below it:

* figures: `_encoder_plots` of encoded sequences, `_subspace_plots` of subspaces and clusterings; `_recall` of frames
  that are not stored
* estimators: `_encoder` (`HierarchicalSequenceEncoder`, `StorageReport`), `_kmeans` (`SubspaceKMeans`), `_subspace`
  (`SubspaceEncoder`); `_nordland`, frames of a railway
* models: `_objective` (``hierarchical.subspace``), `_tied_mixture` (``hierarchical.tied``), `_clusters`
  (``hierarchical.clusters``)
* parts of the encoder: `_filtering` (consecutive queries), `_path` (points of a path, subspaces of its nodes, search),
  `_quantize` (coordinates in a few bits)
* other estimators: `_coordinates` (common code of estimators with a subspace), `_sigma` (Sigma as printed, d×d)
* the closed form: `_closed_form` (V, m and mu), over `_classes` (labels, segments, members), `_moments` (counts, sums
  and scatter of classes, block by block)
"""

from collections.abc import Iterator

import manifoldseq as ms
from manifoldseq import hooks

_PAPER = "Le et al., Hierarchical encoding of sequential data with compact and sub-linear storage cost (supplement)"


@ms.hookimpl
def manifoldseq_models() -> Iterator[hooks.ModelSpec]:
    """The subspace in which class means represent frames best."""
    at = "manifoldseq_hierarchical._objective:{}".format
    yield hooks.ModelSpec(
        "hierarchical.subspace",
        prepare=at("prepare"),
        manifold=at("manifold"),
        value_and_gradient=at("_Energy.value_and_gradient"),
        hessian_product=at("_Energy.hessian_product"),
        batch=at("batch"),
        initializers={"closed-form": at("closed_form"), "random": at("random")},
        updates={"mu": at("_Energy.with_best_mu"), "V": at("_Energy.with_best_V")},
        update_factors=at("update_factors"),
        exact=("closed-form",),
        example=at("example"),
        input="sequences",
        summary="Subspace that separates classes of frames, with the class means",
        reference=_PAPER,
    )
    for name, file, update, summary in (
        ("tied", "_tied_mixture", "em", "Gaussian mixture with one shrunk covariance and means in a subspace"),
        (
            "clusters",
            "_clusters",
            "alternation",
            "Clusters of frames and the subspace that separates them, with hard assignments",
        ),
    ):
        at = f"manifoldseq_hierarchical.{file}:{{}}".format
        yield hooks.ModelSpec(
            f"hierarchical.{name}",
            prepare=at("prepare"),
            manifold=at("manifold"),
            statistics=at("statistics"),
            value=at("value"),
            value_and_gradient=at("value_and_gradient"),
            initializers={"k-means++": at("k_means"), "random": at("random"), "segments": at("segments")},
            updates={update: at(update)},
            equivalences={"permuted": at("permuted")},
            solver="em",
            example="manifoldseq_hierarchical._tied_mixture:example",
            input="samples",
            summary=summary,
            reference=_PAPER,
        )


@ms.hookimpl
def manifoldseq_estimators() -> Iterator[hooks.EstimatorSpec]:
    """Encoding and clustering of frames."""
    plots = ("subspace-gain", "subspace-coordinates")
    yield hooks.EstimatorSpec(
        "subspace-encoder",
        factory="manifoldseq_hierarchical._subspace:SubspaceEncoder",
        models=("hierarchical.subspace",),
        input="samples",
        plots=plots,
        summary="Coordinates of frames in the subspace of their class means, in closed form",
    )
    yield hooks.EstimatorSpec(
        "subspace-kmeans",
        factory="manifoldseq_hierarchical._kmeans:SubspaceKMeans",
        models=("hierarchical.tied", "hierarchical.clusters"),
        input="samples",
        plots=plots,
        summary="Clusters in a within-class metric, with the subspace that separates the clusters best",
    )
    yield hooks.EstimatorSpec(
        "hierarchical-encoder",
        factory="manifoldseq_hierarchical._encoder:HierarchicalSequenceEncoder",
        models=("hierarchical.subspace",),
        input="samples",
        plots=("encoder-distances", "encoder-storage"),
        quality="manifoldseq_hierarchical._recall:recall",
        summary="Storage of a long sequence in about one byte per frame, and search for places in the sequence",
    )


@ms.hookimpl
def manifoldseq_plots() -> Iterator[hooks.PlotSpec]:
    """Figures of the reports of the estimators above."""
    yield hooks.PlotSpec(
        "subspace-gain",
        accepts="manifoldseq_hierarchical._subspace_plots:accepts",
        draw="manifoldseq_hierarchical._subspace_plots:draw_gain",
        summary="Residual energy F(m) against the number of coordinates m; constant beyond the rank of the centroids",
    )
    yield hooks.PlotSpec(
        "subspace-coordinates",
        accepts="manifoldseq_hierarchical._subspace_plots:accepts",
        draw="manifoldseq_hierarchical._subspace_plots:draw_coordinates",
        summary="Frames and class centroids in the two coordinates that separate the classes best",
    )
    yield hooks.PlotSpec(
        "encoder-distances",
        accepts="manifoldseq_hierarchical._encoder_plots:accepts",
        draw="manifoldseq_hierarchical._encoder_plots:draw_distances",
        summary="Distances from frames to the points of an encoded sequence; dark entries are matches",
    )
    yield hooks.PlotSpec(
        "encoder-storage",
        accepts="manifoldseq_hierarchical._encoder_plots:accepts",
        draw="manifoldseq_hierarchical._encoder_plots:draw_storage",
        summary="Bytes per frame of an encoded sequence, by part",
    )


@ms.hookimpl
def manifoldseq_datasets() -> Iterator[hooks.DatasetSpec]:
    """Two runs of frames along the same route."""
    yield hooks.DatasetSpec(
        "nordland",
        loader="manifoldseq_hierarchical._nordland:nordland_dataset",
        licence="as in tmadl/pySeqSLAM (GPL-3); frames of the film by NRK, CC BY-NC-SA 3.0",
        summary="The Nordland railway in spring and winter: 2 × 357 frames of 2048 pixels, aligned",
    )
