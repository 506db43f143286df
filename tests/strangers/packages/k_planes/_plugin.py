"""What the distribution registers."""

import manifoldseq as ms


@ms.hookimpl
def manifoldseq_estimators():
    yield ms.hooks.EstimatorSpec(
        "k-planes", "k_planes.estimator:KPlanes", input="samples", summary="Clusters of rows around affine subspaces"
    )
