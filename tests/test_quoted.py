"""Messages quote no more than the start of a long value, in parameters and in the cells of files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manifoldseq as ms
from manifoldseq.estimators import check_choice, check_number, check_switch, check_whole, quoted

LONG = "x" * 10_000
VALUES = [LONG, list(range(5_000)), {"k" * 5_000: 1}]
LEAST = 600
"""More characters than any message has whose values are shortened."""


def test_short_values_are_whole_and_long_ones_end_in_an_ellipsis() -> None:
    for value in ("it's", 3.5, None, [1, 2], b"a"):
        assert quoted(value) == repr(value)
    assert quoted(np.arange(4).reshape(2, 2)) == "array([[0, 1], [2, 3]])"  # in one line
    for value in VALUES:
        assert quoted(value) == repr(value)[:120] + "…"
        assert len(quoted(value, 40)) == 41


@pytest.mark.parametrize("value", VALUES, ids=["text", "list", "dict"])
def test_checks_of_parameters_shorten(value: Any) -> None:
    for check, more in ((check_whole, ()), (check_number, ()), (check_switch, ()), (check_choice, (("a", "b"),))):
        with pytest.raises(ValueError) as caught:
            check("name", value, *more)
        assert len(str(caught.value)) < 250 and str(caught.value).startswith(f"name={repr(value)[:100]}")


ROWS = np.random.default_rng(0).standard_normal((40, 4))
SEQUENCES = [np.cos(w * np.arange(30)[:, None] + np.arange(2)) for w in [0.3, 0.9] * 4]
DATA: dict[str, tuple[Any, ...]] = {
    "samples": (ROWS, np.arange(40) % 2),
    "sequences": (SEQUENCES, np.arange(8) % 2),
    "views": ([ROWS[:, :2], ROWS[:, 2:]],),
    "bags": ([[row.reshape(2, 2) for row in ROWS]],),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(record.name for _, record in ms.hooks.records("estimators")))
def test_every_parameter_of_every_estimator_is_shortened(name: str) -> None:
    kind = ms.get_estimator(name)
    (record,) = [record for _, record in ms.hooks.records("estimators") if record.name == name]
    for parameter in kind().get_params(deep=False):
        for value in VALUES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    kind().set_params(**{parameter: value}).fit(*DATA[record.input])
                except Exception as error:
                    assert len(str(error)) < LEAST, (parameter, str(error)[:200])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cells.csv", f"a,b\n1,2\n3,{LONG}\n"),
        ("labels.ts", f"@classLabel true a b\n@data\n1,2:{LONG}\n"),
        ("values.ts", f"@data\n1,{LONG}\n"),
        ("target.ts", f"@targetLabel true\n@data\n1,2:{LONG}\n"),
        ("flag.ts", f"@univariate {LONG}\n@data\n1,2\n"),
        ("classes.ts", f"@classLabel true {LONG}\n@data\n1,2:b\n"),
    ],
)
def test_cells_are_shortened(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ms.storage.ReadError) as caught:
            ms.storage.read(path)
    assert len(str(caught.value)) < LEAST


def test_settings_of_a_run_are_shortened() -> None:
    problem = ms.Problem(ms.manifolds.Euclidean(2), lambda x: x @ x)
    calls: list[Any] = [
        lambda: ms.minimize(problem, solver=LONG),
        lambda: ms.minimize(problem, max_iter=LONG),  # type: ignore[arg-type]
        lambda: ms.minimize(problem, n_starts=LONG),  # type: ignore[arg-type]
        lambda: ms.minimize(problem, LONG),
        lambda: ms.solvers.LBFGS(memory=LONG),  # type: ignore[arg-type]
        lambda: ms.get_kernel(LONG),
    ]
    for call in calls:
        with pytest.raises((ValueError, TypeError, LookupError)) as caught:
            call()
        assert len(str(caught.value)) < LEAST
