"""What the plugin registers."""

import numpy as np
import pytest

import manifoldseq as ms
import manifoldseq_lds
from manifoldseq_lds import LDSIdentifier, LDSKMeans, Systems

RECORDS = [record for plugin in ms.hooks.plugins() if plugin.name == "lds" for record in plugin.records]


def test_the_names():
    assert {(record.kind, record.name) for record in RECORDS} == {
        ("domains", "lds"),
        ("kernels", "projection"),
        ("kernels", "martin"),
        ("kernels", "martin-rbf"),
        ("kernels", "binet-cauchy"),
        ("kernels", "grassmann"),
        ("kernels", "symmetric-projection"),
        ("kernels", "dynamics"),
        ("kernels", "chi2"),
        ("domains", "histograms"),
        ("models", "lds.mean"),
        ("models", "lds.dictionary"),
        ("models", "lds.mean-stable"),
        ("estimators", "lds-identifier"),
        ("estimators", "lds-kmeans"),
        ("estimators", "lds-kernel-matrix"),
        ("estimators", "lds-spectral"),
        ("estimators", "lds-neighbors"),
        ("estimators", "lds-sparse-coder"),
        ("estimators", "lds-dictionary"),
        ("estimators", "lds-classifier"),
        ("estimators", "bag-of-systems"),
        ("estimators", "pyramid-pooling"),
        ("rules", "exact"),
        ("rules", "canonical"),
        ("rules", "medoid"),
        ("plots", "lds-kernel-matrix"),
        ("plots", "lds-spectra"),
        ("plots", "lds-reconstruction"),
        ("plots", "lds-worst-reconstruction"),
        ("datasets", "japanese-vowels"),
        ("datasets", "basic-motions"),
        ("datasets", "dynamic-textures"),
        ("datasets", "damaged-structure"),
        ("datasets", "noisy-textures"),
        ("datasets", "echoes"),
        ("datasets", "two-tones"),
    }


def test_found_by_name():
    assert ms.get_estimator("lds-kmeans") is LDSKMeans
    assert ms.get_estimator("lds-identifier") is LDSIdentifier
    example = ms.hooks.get_domain("lds").example(np.random.default_rng(0))
    assert isinstance(example, Systems)
    assert ms.get_kernel("projection").cross(*[ms.get_kernel("projection").pack(example)] * 2).shape == (5, 5)


def test_public_names():
    assert set(manifoldseq_lds.__all__) <= set(dir(manifoldseq_lds))
    for name in manifoldseq_lds.__all__:
        made = getattr(manifoldseq_lds, name)
        assert made.__name__ == name and made.__module__.startswith("manifoldseq_lds.")
    with pytest.raises(AttributeError, match="has no attribute 'LDSKmeans'"):
        manifoldseq_lds.LDSKmeans  # noqa: B018
