"""A killed and resumed run ends with the files of one that was never interrupted; `make faults` repeats it."""

from pathlib import Path

import numpy as np
import pytest
from faults.kill import killed_round


@pytest.mark.slow
@pytest.mark.parametrize("fit", ["lds-kmeans", "lds-classifier"])
def test_killed_and_resumed_run_ends_bit_equal(fit: str, tmp_path: Path) -> None:
    kills, different = killed_round(fit, tmp_path, np.random.default_rng(0))
    assert kills and not different
    assert not list(tmp_path.rglob("checkpoint"))
