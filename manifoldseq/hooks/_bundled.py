"""The distributions that come with this repository, and the names that each registers.

A plugin that is not installed cannot list its names. With this table, an error message names the distribution of a
missing name. A test compares the table with the records of the installed plugins.
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution

NAMES: Mapping[str, Mapping[str, str]] = {
    "manifoldseq-lds": {
        "models": "lds.mean lds.mean-stable lds.dictionary",
        "estimators": "lds-identifier lds-kmeans lds-kernel-matrix lds-spectral lds-neighbors lds-sparse-coder "
        "lds-dictionary lds-classifier bag-of-systems pyramid-pooling",
        "rules": "exact canonical medoid",
        "kernels": "projection martin martin-rbf binet-cauchy grassmann symmetric-projection dynamics chi2",
        "domains": "lds histograms",
        "datasets": "japanese-vowels basic-motions dynamic-textures damaged-structure noisy-textures echoes two-tones",
        "plots": "lds-kernel-matrix lds-spectra lds-reconstruction lds-worst-reconstruction",
    },
    "manifoldseq-hope": {
        "models": "hope.movmf hope.gmm hope.family hope.vmf hope.cosine",
        "estimators": "hope vmf-mixture spherical-kmeans pca-movmf convolutional-features vector-features hope-stack "
        "hope-network",
        "datasets": "mnist mnist-test",
        "plots": "hope-filters hope-concentrations hope-correlations",
    },
    "manifoldseq-mpcca": {
        "models": "mpcca mpcca.shrunk",
        "estimators": "mixture-pcca fisher-vector super-vector",
        "datasets": "uci-mfeat",
        "plots": "mpcca-shared mpcca-columns",
    },
    "manifoldseq-hierarchical": {
        "models": "hierarchical.subspace hierarchical.tied hierarchical.clusters",
        "estimators": "subspace-encoder subspace-kmeans hierarchical-encoder",
        "datasets": "nordland",
        "plots": "subspace-gain subspace-coordinates encoder-distances encoder-storage",
    },
    "manifoldseq-sequences": {
        "estimators": "sequence-kmeans sequence-classifier sequence-neighbors",
        "kernels": "statistics spectrum autocovariance shape warping convolutions",
        "domains": "sequences",
    },
    "manifoldseq-jax": {"solvers": "jax:lbfgs jax:bb jax:tr"},
    "manifoldseq-papers": {
        "models": "lds.mean-raw",
        "rules": "printed toolbox align mds grass grassmann symmetric",
        "solvers": "penalty-sgd",
        "readers": "speech",
        "reproductions": "lds-fig1 lds-fig2 lds-table1 hope-table1 hope-table2 hope-fig4-5 hope-table3 hope-table4 "
        "hope-table5 hope-table6 mpcca-fusion mpcca-videos hierarchical-storage",
    },
}
"""Names by distribution and kind of record, separated by spaces."""

BUNDLED: tuple[str, ...] = tuple(NAMES)
"""The distributions of the bundled plugins."""


def is_installed(bundled: str) -> bool:
    """Return whether a distribution is installed, even if its plugin is disabled or fails to load."""
    try:
        distribution(bundled)
    except PackageNotFoundError:
        return False
    return True


def how_to_install(bundled: str) -> str:
    """Return the commands that install a bundled distribution, from a release and from this repository.

    Examples
    --------
    >>> how_to_install("manifoldseq-lds")
    'run `pip install manifoldseq-lds`, or in a checkout of manifoldseq `pip install plugins/manifoldseq_lds`'
    """
    folder = bundled.replace("-", "_")
    return f"run `pip install {bundled}`, or in a checkout of manifoldseq `pip install plugins/{folder}`"


def missing_of_name(kind: str, name: str) -> str | None:
    """Return the bundled distribution that registers a name, or ``plugin:name``, if it is not installed."""
    plugin, colon, rest = str(name).rpartition(":")
    for bundled, kinds in NAMES.items():
        given = kinds.get(kind, "").split()
        mine = name in given or (rest in given and (not colon or bundled == f"manifoldseq-{plugin}"))
        if mine and not is_installed(bundled):
            return bundled
    return None


def missing_of_kind(kind: str) -> dict[str, str]:
    """Return the names of a kind, separated by spaces, by the bundled distributions that are not installed."""
    return {one: kinds[kind] for one, kinds in NAMES.items() if kind in kinds and not is_installed(one)}


def missing_of_import(error: BaseException | None) -> str | None:
    """Return the bundled distribution whose package could not be imported, from the causes of an error."""
    for one in _causes(error):
        if isinstance(one, ModuleNotFoundError) and one.name:
            bundled = one.name.partition(".")[0].replace("_", "-")
            if bundled in BUNDLED and not is_installed(bundled):
                return bundled
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
