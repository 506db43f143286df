"""A centre rule in one file: the medoid of the members that are nearest to the medoid of all."""

from dataclasses import dataclass

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import CentreRule


@dataclass(frozen=True)
class TrimmedMedoid(CentreRule):
    share: float = 0.8

    def __call__(self, task, centre, rows, inner):
        squared = task.squared_to([task.medoid(rows)], rows)[0]
        near = rows[np.argsort(squared)[: max(1, round(self.share * len(rows)))]]
        return task.point(task.medoid(near)), 0.0


@ms.hookimpl
def manifoldseq_rules():
    yield ms.hooks.RuleSpec("trimmed-medoid", TrimmedMedoid, estimator="lds-kmeans", parameter="mean")
