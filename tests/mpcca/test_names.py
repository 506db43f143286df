"""Names of columns: from data frames or ``feature_names``, kept in models, told in messages, asked for again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mpcca.problems import drawn, mixture

import manifoldseq as ms
from manifoldseq_mpcca import FisherVector, MixturePCCA, MultiViewSuperVector

NAMES = [["a", "b", "c", "d", "e"], ["u", "v", "w", "y"]]


class Frame:
    """As much of a data frame as estimators ask for."""

    def __init__(self, values: np.ndarray, columns: list[Any]) -> None:
        self.values, self.columns = values, columns

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.values, dtype=dtype)


def views() -> list[np.ndarray]:
    found, _ = drawn(mixture(), 150)
    assert [view.shape[1] for view in found] == [5, 4]
    return found


@pytest.mark.slow
def test_frames_give_names_and_are_asked_for_the_same(tmp_path):
    X, Y = views()
    frames = [Frame(view, names) for view, names in zip((X, Y), NAMES, strict=True)]
    model = MixturePCCA(2, 1, max_iter=5, random_state=0).fit(*frames)
    assert [names.tolist() for names in model.feature_names_in_] == NAMES
    same = MixturePCCA(2, 1, max_iter=5, random_state=0).fit(X, Y, feature_names=NAMES)
    assert [names.tolist() for names in same.feature_names_in_] == NAMES
    assert np.array_equal(model.predict_proba(*frames), same.predict_proba(X, Y))
    ms.storage.save_model(model, tmp_path)
    assert [names.tolist() for names in ms.load(tmp_path).feature_names_in_] == NAMES
    turned = Frame(X[:, ::-1], NAMES[0][::-1])
    with pytest.raises(ValueError, match="view 0 has its columns in another order than"):
        model.predict(turned, frames[1])
    with pytest.raises(ValueError, match=r"view 1 has the column 'x', which is missing in .*: pass u, v, w, y"):
        model.transform(frames[0], Frame(Y, ["u", "v", "x", "y"]))
    assert len(model.predict(frames[0], None)) == 150
    assert not hasattr(model.fit(X, Y), "feature_names_in_")
    assert not hasattr(model.fit(Frame(X, [0, 1, 2, 3, 4]), frames[1]), "feature_names_in_")


def test_messages_name_the_column():
    X, Y = views()
    flat, holes = Y.copy(), X.copy()
    flat[:, 1] = 3.0
    holes[7, 4] = np.nan
    for fit, sentence in (
        (lambda: MixturePCCA(2, 1).fit(holes, Y, feature_names=NAMES), "view 0 has NaN at row 7, column 'e': remove"),
        (lambda: MixturePCCA(2, 1).fit(holes, Y), "view 0 has NaN at row 7, column 4: remove"),
        (lambda: MixturePCCA().fit(X, Y, feature_names=NAMES[:1]), "feature_names has 1 lists for 2 views"),
        (lambda: MixturePCCA().fit(X, Y, feature_names=NAMES[::-1]), r"feature_names\[0\] has 4 names for 5 columns"),
        (lambda: MixturePCCA().fit(X, Y, feature_names=["abcde", "uvwy"]), r"feature_names\[0\] is 'abcde': pass"),
        (lambda: FisherVector(2).fit([X], [flat], feature_names=NAMES), "column 'v' of view 1 is constant"),
    ):
        with pytest.raises(ValueError, match=sentence):
            fit()


@pytest.mark.parametrize(
    "encoder", [FisherVector(2, random_state=0), MultiViewSuperVector(2, n_latent=1, random_state=0)]
)
def test_encoders_keep_names(encoder):
    X, Y = (np.split(view, 10) for view in views())
    encoder.fit(X, Y, feature_names=NAMES)
    assert [names.tolist() for names in encoder.feature_names_in_] == NAMES
    assert not hasattr(encoder.fit(X, Y), "feature_names_in_")


def test_an_unknown_word_for_missing_values_raises():
    with pytest.raises(ValueError, match="missing='no' is not known: choose 'error' or 'em'"):
        MixturePCCA(missing="no").fit(*views())
