"""Registration of the records of this package; targets are strings, so that listing imports no model code.

Files by paper. The packages of two papers do not import each other:

* `lds/`: `_figure1`, `_figure2`, `_table1`, and their data, `_data`; methods for comparison: `_centre_baselines`
  (Algorithm 1 at fixed step sizes, MDS, Align, Grass), `_atom_baselines` (Grass-L, LDSST), `_observability` (subspaces
  of a few steps), `_raw_mean` (the model ``lds.mean-raw``)
* `hope/`: `_table1`, `_tables2_to_4` (and Figures 4 and 5), `_correlation_figures`, `_table5`, `_table6`; `_digits`
  (MNIST as bytes), `_linear_svm`; `_penalty_sgd` (Algorithm 1); for speech `_phone_decoder`, `_filter_bank`,
  `_phone_corpus` (generated), `_phones`, `_timit`, `_audio` (NIST SPHERE, RIFF)
* `mpcca/`: `_fusion_tables`, `_fusion` (methods of fusion), `_digit_descriptors`
* `hierarchical/`: `_storage_table`, `_peers` (faiss, principal components), `_generated_paths`, `_runs` (recorded)
"""

from collections.abc import Iterator

import manifoldseq as ms
from manifoldseq import hooks

_LDS = "Huang et al., Efficient optimization for linear dynamical systems, NIPS 2017"
_HOPE = "Zhang, Jiang, Hybrid Orthogonal Projection and Estimation (HOPE)"
_MPCCA = "Supplementary material of paper 2012 (multi-view super vector), 2013"

_QUICK: dict[str, dict[str, object]] = {
    "lds-fig1": {"clusters": (4, 8), "n_starts": 2, "n_videos": 24, "size": 8, "folder": "runs/quick/lds-fig1"},
    "lds-fig2": {
        "n_atoms": (4,),
        "max_iter": 6,
        "n_seeds": 1,
        "n_videos": 24,
        "complexity": False,
        "figure": "runs/quick/lds-fig2/figure.png",
        "folder": "runs/quick/lds-fig2",
    },
    "lds-table1": {
        "n_words": 8,
        "n_videos": 24,
        "max_blocks": 4,
        "max_iter": 3,
        "n_seeds": 1,
        "n_folds": 2,
        "folder": "runs/quick/lds-table1",
    },
    "hope-table1": {"K": 40, "seeds": 1, "models": ("kmeans", "hope"), "folder": "runs/quick/hope-table1"},
    "hope-table2": {"K": 100, "M": 50, "seeds": 1, "epochs": 1, "folder": "runs/quick/hope-table2"},
    "hope-fig4-5": {
        "K": 100,
        "M": 50,
        "epochs": 2,
        "figure": "runs/quick/hope-fig4-5/figure.png",
        "folder": "runs/quick/hope-fig4-5",
    },
    "hope-table3": {"K": 100, "M": 50, "epochs": 2, "folder": "runs/quick/hope-table3"},
    "hope-table4": {"columns": ("without",), "epochs": 1, "n_train": 6000, "folder": "runs/quick/hope-table4"},
    "hope-table5": {
        "labels": 1000,
        "subsets": 1,
        "K": 120,
        "n_patches": 4000,
        "epochs": 2,
        "folder": "runs/quick/hope-table5",
    },
    "hope-table6": {
        "K": 64,
        "M": 32,
        "width": 64,
        "deep_M": 32,
        "epochs": 2,
        "realignments": 0,
        "train_speakers": 6,
        "sentences": 2,
        "folder": "runs/quick/hope-table6",
    },
    "mpcca-fusion": {
        "task": "digits",
        "n_splits": 2,
        "n_latent": (2,),
        "n_components": (2,),
        "C": (1.0,),
        "max_iter": 5,
    },
    "mpcca-videos": {"n_components": (4,), "n_latent": (4,), "C": (1.0,), "max_iter": 5, "max_descriptors": 4000},
    "hierarchical-storage": {
        "sizes": (10000,),
        "n_seeds": 1,
        "n_queries": 100,
        "figure": "runs/quick/hierarchical-storage/figure.png",
    },
}
"""Settings of runs of one or two minutes. Results are in separate folders and do not overwrite those of full runs."""


@ms.hookimpl
def manifoldseq_models() -> Iterator[hooks.ModelSpec]:
    """Mean of linear dynamical systems in raw coordinates."""
    yield hooks.ModelSpec(
        "lds.mean-raw",
        build="manifoldseq_papers.lds._raw_mean:build",
        example="manifoldseq_papers.lds._raw_mean:example",
        summary="Kernel mean in coordinates (A, C) without a canonical form, for comparison with lds.mean",
        reference=_LDS,
    )


@ms.hookimpl
def manifoldseq_rules() -> Iterator[hooks.RuleSpec]:
    """Baselines of the paper on dynamical systems: rules for cluster centres, and families of dictionary atoms."""
    for name, factory, summary in (
        ("printed", "FixedSteps", "Five steps of Algorithm 1 with the printed step sizes, 0.1 (Lambda, V) and 1 (U)"),
        (
            "toolbox",
            "toolbox_steps",
            "Five steps of Algorithm 1 as in the authors' toolbox, with half the printed gradient",
        ),
        ("align", "AlignMean", "The average of the members in aligned state bases (Afsari et al., 2012)"),
        ("mds", "MDSMean", "The member nearest to the mean of an embedding (Ravichandran et al., 2013)"),
        ("grass", "GrassMean", "The system of the mean observability subspace (Turaga et al., 2011)"),
    ):
        yield hooks.RuleSpec(
            name,
            f"manifoldseq_papers.lds._centre_baselines:{factory}",
            estimator="lds-kmeans",
            parameter="mean",
            summary=summary,
        )
    for name, factory, summary in (
        ("grassmann", "GrassmannAtoms", "Observability subspaces of the first steps, Grass-L (Harandi et al., 2015)"),
        ("symmetric", "SymmetricAtoms", "Systems with symmetric transition matrices, LDSST (Huang et al., 2016)"),
    ):
        yield hooks.RuleSpec(
            name,
            f"manifoldseq_papers.lds._atom_baselines:{factory}",
            estimator="lds-dictionary",
            parameter="method",
            summary=summary,
        )


@ms.hookimpl
def manifoldseq_solvers() -> Iterator[hooks.SolverSpec]:
    """Algorithm 1 of HOPE."""
    yield hooks.SolverSpec(
        "penalty-sgd",
        factory="manifoldseq_papers.hope._penalty_sgd:PenaltySGD",
        needs=("value_and_gradient", "terms"),
        summary="Algorithm 1 of the HOPE paper, as printed or repaired: mini-batch gradients and renormalization",
    )


@ms.hookimpl
def manifoldseq_readers() -> Iterator[hooks.ReaderSpec]:
    """Recorded speech."""
    yield hooks.ReaderSpec(
        "speech",
        ("*.wav", "*.sph", "*.nist"),
        "manifoldseq_papers.hope._audio:read_recording",
        example="manifoldseq_papers.hope._audio:example",
        summary="Sound files with 16-bit samples: RIFF and NIST SPHERE",
    )


@ms.hookimpl
def manifoldseq_reproductions() -> Iterator[hooks.ReproductionSpec]:
    """Tables and figures of the papers, and our own comparisons for the papers without tables or figures."""
    for name, run, paper, summary in (
        (
            "lds-fig1",
            "lds._figure1:figure1",
            f"{_LDS}, Figure 1",
            "Clustering with PGD, MDS, Align and our mean: purity and time per epoch against the number of clusters",
        ),
        (
            "lds-fig2",
            "lds._figure2:figure2",
            f"{_LDS}, Figure 2",
            "Test errors of dictionaries against time, for PGD, mini-batches, LDSST, Grass-3 and our method",
        ),
        (
            "lds-table1",
            "lds._table1:table1",
            f"{_LDS}, Table 1",
            "Accuracies of bags of systems and pyramid pooling; --data selects a folder of videos",
        ),
        (
            "hope-table1",
            "hope._table1:table1",
            _HOPE,
            "MNIST error of a linear support vector machine on features learned without labels",
        ),
        (
            "hope-table2",
            "hope._tables2_to_4:table2",
            _HOPE,
            "MNIST error of shallow networks with HOPE layers, with linear bottlenecks, and with neither (needs torch)",
        ),
        (
            "hope-fig4-5",
            "hope._tables2_to_4:figures4_5",
            _HOPE,
            "Correlations between rows of projections during training, as sums and as images (needs torch)",
        ),
        (
            "hope-table3",
            "hope._tables2_to_4:table3",
            _HOPE,
            "MNIST error of shallow networks with dropout (needs torch)",
        ),
        (
            "hope-table4",
            "hope._tables2_to_4:table4",
            _HOPE,
            "MNIST error of networks of two hidden layers, with and without dropout (needs torch)",
        ),
        (
            "hope-table5",
            "hope._table5:table5",
            _HOPE,
            "MNIST error with few labels, for pixels and for features learned without labels (needs torch)",
        ),
        (
            "hope-table6",
            "hope._table6:table6",
            _HOPE,
            "Phone error of networks with and without HOPE on TIMIT or on a generated corpus (needs torch)",
        ),
        (
            "mpcca-fusion",
            "mpcca._fusion_tables:fusion",
            f"{_MPCCA}: our own comparison, because the paper has no experiments",
            "Fusion of two descriptors of numerals by M-PCCA, concatenation, kernels and scores (takes ten minutes)",
        ),
        (
            "mpcca-videos",
            "mpcca._fusion_tables:videos",
            f"{_MPCCA}: the figures of the main paper were not available",
            "Fusion of two descriptors of videos from precomputed HOG, HOF and MBH files of HMDB51 or UCF101 (--data)",
        ),
        (
            "hierarchical-storage",
            "hierarchical._storage_table:hierarchical_storage",
            "",
            "Bytes per frame, recall and query time of the sequence encoder and of faiss; --data selects recorded runs",
        ),
    ):
        yield hooks.ReproductionSpec(
            name, run=f"manifoldseq_papers.{run}", paper=paper, quick=_QUICK[name], summary=summary
        )
