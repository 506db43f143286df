"""What this package registers; targets are strings, so that listing imports no model code."""

from collections.abc import Iterator

import manifoldseq as ms
from manifoldseq import hooks

_PAPER = "Zhang, Jiang, Hybrid Orthogonal Projection and Estimation (HOPE)"


@ms.hookimpl
def manifoldseq_models() -> Iterator[hooks.Model]:
    """The likeliest projection and mixture."""
    yield hooks.Model(
        "hope.movmf",
        build="manifoldseq_hope._model:build_movmf",
        example="manifoldseq_hope._model:example",
        summary="Orthonormal projection and von Mises-Fisher mixture: minus the log-likelihood (11), (29)",
        reference=_PAPER,
    )
    yield hooks.Model(
        "hope.gmm",
        build="manifoldseq_hope._model:build_gmm",
        example="manifoldseq_hope._model:example",
        summary="Orthonormal projection and Gaussian mixture: minus the log-likelihood (11), (24)",
        reference=_PAPER,
    )
