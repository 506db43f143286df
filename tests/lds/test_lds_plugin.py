"""What the plugin registers, and that listing it imports no model code."""

import subprocess
import sys

import numpy as np
import pytest

import manifoldseq as ms
import manifoldseq_lds
import manifoldseq_lds._plugin as plugin
from manifoldseq_lds import LDSIdentifier, LDSKMeans, Systems

RECORDS = [
    record
    for hook in ("domains", "kernels", "models", "estimators", "datasets")
    for record in getattr(plugin, f"manifoldseq_{hook}")()
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record.kind}:{record.name}")
def test_every_target_is_there(record):
    assert record.summary
    record.resolved()


def test_the_names():
    assert {(record.kind, record.name) for record in RECORDS} == {
        ("domains", "lds"),
        ("kernels", "projection"),
        ("kernels", "martin"),
        ("kernels", "martin-rbf"),
        ("kernels", "binet-cauchy"),
        ("kernels", "grassmann"),
        ("kernels", "symmetric-projection"),
        ("kernels", "chi2"),
        ("domains", "histograms"),
        ("models", "lds.mean"),
        ("models", "lds.atom"),
        ("models", "lds.mean-raw"),
        ("estimators", "lds-identifier"),
        ("estimators", "lds-kmeans"),
        ("estimators", "lds-kernel-matrix"),
        ("estimators", "lds-spectral"),
        ("estimators", "lds-neighbors"),
        ("datasets", "japanese-vowels"),
        ("datasets", "basic-motions"),
        ("datasets", "dynamic-textures"),
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


def test_listing_imports_no_model_code():
    code = """
import sys
import manifoldseq_lds._plugin as plugin
for name in dir(plugin):
    if name.startswith("manifoldseq_"):
        list(getattr(plugin, name)())
loaded = [m for m in sys.modules if m.startswith("manifoldseq_lds.") and m != "manifoldseq_lds._plugin"]
assert not loaded, loaded
assert "sklearn" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
