"""Registration of the records of this package; targets are strings, so that listing imports no model code.

Files by package. A package imports only from its own row and from the rows below it:

* `_plots`: figures of fitted systems and clusterings; `_recordings`: sequences in the wheel of aeon; `_generated`:
  sequences whose classes differ in dynamics
* `videos/`: `_pooling` (bags of systems, pyramid pooling), `_lbp` (LBP-TOP), `_blocks` (blocks of videos, windows of
  sequences), `_texture_files` (folders of videos), `_generated_textures`
* `coding/`: `_dictionary` (`LDSDictionaryLearning`), `_sparse_coder`, `_classifier`; `_dictionary_model` (the model
  ``lds.dictionary``), `_learning` (one iteration), `_initial_atoms`, `_atom_families` (families of atoms), `_lasso`
  (the kernel lasso), `_labelled_settings` (settings chosen by labels)
* `clustering/`: `_kmeans` (`LDSKMeans`), `_epoch` (starts, assignment, repair, relocation, mini-batches), `_spectral`,
  `_neighbors`, `_kernel_matrix`, `_settings` (the rule of ``n_states="auto"``), `_selection` (number of clusters),
  `_sequence_kernel` (the kernel ``dynamics`` on sequences)
* `means/`: `_common_problem` (an objective for (11) and (12), and its solution), `_stable_systems` (all stable systems
  as points [A; C], descent on many at once), `_best_datum`, `_span_compression`; the model `_mean` (``lds.mean``);
  `_centre_rules` (exact and canonical mean, medoid)
* `kernels/`: `_projection`, `_martin`, `_binet_cauchy`, `_grassmann`, `_symmetric`, `_histograms` (chi-square),
  `_moments` (means and deviations of channels); `_output_normal` (product matrices (6) and their gradients), `_packed`
  (items as arrays), `_resolved` (the kernel of a parameter)
* `identification/`: `_sequence_input` (sequences of estimators with an identifier), `_identifier` (`LDSIdentifier`),
  `_forecast_error` (evaluation), `_parameter_error` (of forecasts), `_estimation` (batches of equal length),
  `_output_noise` (N4SID, EM), `_missing` (missing values), `_em` (an iteration of EM), `_recording` (a growing
  recording), `_inputs` (checks), `_order` (number of states), `_short_delay` (a delay too short for modes),
  `_stored_sequences` (sequences on disk), `_subspace_method` (SVD and least squares), `_stabilizers`, `_resumed` (what
  checkpoints of fits store)
* `systems/`: `_modes`, `_prediction` (simulation, forecasts), `_state_estimates` (results of filter and smoother),
  `_kalman`, `_canonical_form` (Theorem 1), `_record` (`Systems`)
"""

from collections.abc import Iterator
from typing import Any

import manifoldseq as ms
from manifoldseq import hooks

_EQUIVALENT = {
    "state basis (P-equivalence)": "manifoldseq_lds.systems._record:change_state_basis",
    "signs of the states": "manifoldseq_lds.systems._record:flip_state_signs",
    "order of the states": "manifoldseq_lds.systems._record:permute_states",
}
_PAPER = "Huang et al., Efficient optimization for linear dynamical systems, NIPS 2017"


@ms.hookimpl
def manifoldseq_domains() -> Iterator[hooks.DomainSpec]:
    """Linear dynamical systems as tuples (A, C), canonical points (lam, V, U); histograms."""
    yield hooks.DomainSpec(
        "lds",
        manifold="manifoldseq.manifolds:CanonicalLDS",
        to_item="manifoldseq_lds.systems._record:to_item",
        example="manifoldseq_lds.systems._record:example",
        summary="Linear dynamical systems (A, C), or manifoldseq_lds.System, with stable A and orthonormal C",
    )
    yield hooks.DomainSpec(
        "histograms",
        manifold="manifoldseq_lds.kernels._histograms:manifold",
        to_item="manifoldseq_lds.kernels._histograms:to_item",
        example="manifoldseq_lds.kernels._histograms:example",
        summary="Histograms: tuples of one array with entries of at least 0",
    )


@ms.hookimpl
def manifoldseq_kernels() -> Iterator[hooks.KernelSpec]:
    """The kernels on linear dynamical systems and on histograms."""
    kernels: tuple[tuple[str, str, dict[str, Any], str], ...] = (
        (
            "projection",
            "kernels._projection:ProjectionKernel",
            {},
            "Sum of squared cosines of the angles between extended observability subspaces",
        ),
        (
            "martin",
            "kernels._martin:MartinKernel",
            {},
            "Product of squared cosines of the angles between extended observability subspaces",
        ),
        (
            "martin-rbf",
            "kernels._martin:MartinRBFKernel",
            {},
            "exp(-d / scale), where Martin's distance d is minus the logarithm of the Martin kernel",
        ),
        (
            "binet-cauchy",
            "kernels._binet_cauchy:BinetCauchyKernel",
            {},
            "Discounted inner products of the outputs that start from the first states, as a determinant or a trace",
        ),
        (
            "grassmann",
            "kernels._grassmann:GrassmannKernel",
            {},
            "Projection kernel of observability subspaces over a finite number of steps",
        ),
        (
            "symmetric-projection",
            "kernels._symmetric:SymmetricProjectionKernel",
            {"example": "manifoldseq_lds.kernels._symmetric:bounded_example"},
            "Projection kernel of the symmetric or skew part of the transitions, in closed form",
        ),
    )
    for name, target, more, summary in kernels:
        yield hooks.KernelSpec(
            name,
            factory=f"manifoldseq_lds.{target}",
            invariances=_EQUIVALENT,
            summary=summary,
            **more,
        )
    yield hooks.KernelSpec(
        "dynamics",
        factory="manifoldseq_lds.clustering._sequence_kernel:DynamicsKernel",
        example="manifoldseq_lds.clustering._sequence_kernel:example",
        summary="Comparison of sequences by their linear dynamical systems",
    )
    yield hooks.KernelSpec(
        "chi2",
        factory="manifoldseq_lds.kernels._histograms:Chi2Kernel",
        summary="Gaussian kernel of the chi-square distance between histograms, or the additive chi-square kernel",
    )


@ms.hookimpl
def manifoldseq_models() -> Iterator[hooks.ModelSpec]:
    """The mean of systems under a kernel, or the common problem; dictionaries of systems."""
    yield hooks.ModelSpec(
        "lds.mean",
        build="manifoldseq_lds.means._mean:build",
        example="manifoldseq_lds.systems._record:example",
        summary="Kernel mean, or weighted sum, of linear dynamical systems in canonical form, with bounded A",
        reference=_PAPER,
    )
    at = "manifoldseq_lds.means._stable_systems:{}".format
    yield hooks.ModelSpec(
        "lds.mean-stable",
        prepare="manifoldseq_lds.means._mean:prepare_stable",
        manifold=at("manifold_of"),
        value_and_gradient=at("value_and_gradient"),
        batched=at("batched"),
        batch=at("batch"),
        initializers={"medoid": at("medoid"), "random": at("random")},
        example="manifoldseq_lds.systems._record:example",
        summary="Kernel mean over all stable linear dynamical systems: the default of LDSKMeans",
        reference=_PAPER,
    )
    at = "manifoldseq_lds.coding._dictionary_model:{}".format
    starts = "manifoldseq_lds.coding._initial_atoms:{}".format
    yield hooks.ModelSpec(
        "lds.dictionary",
        prepare="manifoldseq_lds.coding._dictionary:prepare",
        manifold=at("manifold"),
        value=at("value"),
        value_and_gradient=at("value_and_gradient"),
        initializers={name: starts(name.replace("-", "_")) for name in ("random", "medoid", "k-means")},
        updates={"codes": at("codes"), "atoms": at("atoms")},
        update_factors=at("update_factors"),
        solver="alternating",
        example="manifoldseq_lds.systems._record:example",
        summary="Dictionary and codes of linear dynamical systems that minimize squared distances plus a penalty",
        reference=_PAPER,
    )


@ms.hookimpl
def manifoldseq_estimators() -> Iterator[hooks.EstimatorSpec]:
    """Identification and clustering of sequences."""
    yield hooks.EstimatorSpec(
        "lds-identifier",
        factory="manifoldseq_lds.identification._identifier:LDSIdentifier",
        plots=("lds-spectra", "lds-reconstruction", "lds-worst-reconstruction"),
        quality="manifoldseq_lds.identification._forecast_error:forecast_error",
        summary="One linear dynamical system per sequence: SVD, least squares, stabilization",
    )
    yield hooks.EstimatorSpec(
        "lds-kmeans",
        factory="manifoldseq_lds.clustering._kmeans:LDSKMeans",
        models=("lds.mean-stable",),
        auto=("n_clusters",),
        cost="manifoldseq_lds.clustering._selection:cost_of_choice",
        plots=("lds-kernel-matrix", "lds-spectra", "lds-reconstruction", "lds-worst-reconstruction"),
        summary="k-means of the linear dynamical systems of sequences in the feature space of a kernel",
    )
    yield hooks.EstimatorSpec(
        "lds-kernel-matrix",
        factory="manifoldseq_lds.clustering._kernel_matrix:LDSKernelMatrix",
        summary="Kernel values between the given and the fitted sequences, for estimators with a precomputed kernel",
    )
    yield hooks.EstimatorSpec(
        "lds-spectral",
        factory="manifoldseq_lds.clustering._spectral:LDSSpectralClustering",
        summary="Spectral clustering of sequences on a kernel of their linear dynamical systems",
    )
    yield hooks.EstimatorSpec(
        "lds-neighbors",
        factory="manifoldseq_lds.clustering._neighbors:LDSNeighbors",
        summary="Nearest sequences by their linear dynamical systems, and outlier scores",
    )
    yield hooks.EstimatorSpec(
        "lds-sparse-coder",
        factory="manifoldseq_lds.coding._sparse_coder:LDSSparseCoder",
        summary="Sparse codes of sequences over a dictionary of systems that is given or selected from the data",
    )
    yield hooks.EstimatorSpec(
        "lds-dictionary",
        factory="manifoldseq_lds.coding._dictionary:LDSDictionaryLearning",
        models=("lds.dictionary", "lds.mean-stable"),
        summary="Learned dictionary of linear dynamical systems for sparse codes of sequences",
    )
    yield hooks.EstimatorSpec(
        "lds-classifier",
        factory="manifoldseq_lds.coding._classifier:LDSClassifier",
        summary="Classification of sequences by kernels or sparse codes of their linear dynamical systems",
    )
    yield hooks.EstimatorSpec(
        "bag-of-systems",
        factory="manifoldseq_lds.videos._pooling:BagOfSystems",
        summary="Histograms of the nearest codewords of the blocks of a sequence or video",
    )
    yield hooks.EstimatorSpec(
        "pyramid-pooling",
        factory="manifoldseq_lds.videos._pooling:PyramidPooling",
        models=("lds.dictionary", "lds.mean-stable"),
        summary="Maximum of the sparse codes in each cell of a pyramid, for the blocks of a sequence or video",
    )


@ms.hookimpl
def manifoldseq_rules() -> Iterator[hooks.RuleSpec]:
    """The centres that `LDSKMeans` accepts by name."""
    for name, factory, summary in (
        ("exact", "ExactMean", "The stable system with the smallest mean squared distance to the members"),
        (
            "canonical",
            "CanonicalMean",
            "The system with the smallest mean squared distance to the members, among systems with a bounded A",
        ),
        ("medoid", "Medoid", "The member with the smallest mean squared distance to the other members"),
    ):
        yield hooks.RuleSpec(
            name,
            f"manifoldseq_lds.means._centre_rules:{factory}",
            estimator="lds-kmeans",
            parameter="mean",
            summary=summary,
        )


@ms.hookimpl
def manifoldseq_plots() -> Iterator[hooks.PlotSpec]:
    """Figures of the reports of the estimators above."""
    yield hooks.PlotSpec(
        "lds-kernel-matrix",
        accepts="manifoldseq_lds._plots:accepts_clustering",
        draw="manifoldseq_lds._plots:draw_kernel_matrix",
        summary="Kernel values between systems, sorted by cluster; a good clustering has bright blocks",
    )
    yield hooks.PlotSpec(
        "lds-spectra",
        accepts="manifoldseq_lds._plots:accepts_systems",
        draw="manifoldseq_lds._plots:draw_spectra",
        summary="Eigenvalues of the estimated transition matrices before stabilization. The angle of an eigenvalue is "
        "the frequency of a mode, and the radius is its persistence. Centres of clusters are means of stabilized "
        "systems",
    )
    yield hooks.PlotSpec(
        "lds-reconstruction",
        accepts="manifoldseq_lds._plots:accepts_sequences",
        draw="manifoldseq_lds._plots:draw_median_reconstruction",
        summary=(
            "The sequence with the median forecast error, as recorded and as reconstructed by its system, in the "
            "three channels with the largest variance. A forecast by the mean has an error of 1"
        ),
    )
    yield hooks.PlotSpec(
        "lds-worst-reconstruction",
        accepts="manifoldseq_lds._plots:accepts_sequences",
        draw="manifoldseq_lds._plots:draw_worst_reconstruction",
        summary=(
            "The sequence with the largest forecast error, as recorded and as reconstructed by its system, in "
            "the three channels with the largest variance"
        ),
    )


@ms.hookimpl
def manifoldseq_datasets() -> Iterator[hooks.DatasetSpec]:
    """Recorded sequences from the wheel of aeon, generated ones, and generated videos."""
    yield hooks.DatasetSpec(
        "japanese-vowels",
        loader="manifoldseq_lds._recordings:japanese_vowels",
        licence="CC BY 4.0 (UCI Machine Learning Repository), as shipped with aeon",
        summary="640 utterances of nine speakers, 12 channels, 7 to 29 time steps",
    )
    yield hooks.DatasetSpec(
        "basic-motions",
        loader="manifoldseq_lds._recordings:basic_motions",
        licence="as shipped with aeon (BSD-3-Clause)",
        summary="80 smart-watch recordings of four motions, 6 channels, 100 time steps",
    )
    yield hooks.DatasetSpec(
        "dynamic-textures",
        loader="manifoldseq_lds.videos._generated_textures:dataset",
        licence="generated; nothing is read",
        summary="60 generated videos of six moving textures, 60 frames of 32 × 32 pixels",
    )
    for name, target, summary in (
        (
            "damaged-structure",
            "damaged_structure",
            "80 vibrations of six masses with intact springs or one of three weakened springs, 200 time steps",
        ),
        (
            "noisy-textures",
            "noisy_textures",
            "80 videos of waves in four directions with strong noise, 80 frames of 8 × 8 pixels",
        ),
        ("echoes", "echoes", "60 single channels of noise with an echo after 8, 10 or 12 steps, 200 time steps"),
        ("two-tones", "two_tones", "60 single channels of two close tones of equal amplitude in noise, 200 time steps"),
    ):
        yield hooks.DatasetSpec(
            name,
            loader=f"manifoldseq_lds._generated:{target}",
            licence="generated; nothing is read",
            summary=summary,
        )
