"""The stages of fits to sequences or systems, which a checkpoint stores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import manifoldseq as ms
from manifoldseq.estimators import marked
from manifoldseq.models import Stages

from ..systems._record import Systems


def stages_of(
    estimator: Any,
    identifier: Any,
    X: Any,
    *data: Any,
    observers: Sequence[Any] = (),
    checkpoint: ms.storage.Checkpoint | str | Path | None = None,
    resume: bool = False,
) -> Stages:
    """Return the stages of a fit. Their checkpoint belongs to the parameters of the estimator, X and `data`.

    It also belongs to the identifier's `max_iter`, which the fingerprint of an estimator does not contain but which
    changes the systems.
    """
    store = marked(checkpoint, lambda: (estimator, X if isinstance(X, Systems) else identifier._check(X), *data))
    return Stages(int(identifier.max_iter), observers=observers, checkpoint=store, resume=resume)
