"""Runs of k-means: watched, stopped, resumed, interrupted; checkpoints of other data and settings raise errors."""

import numpy as np
import pytest
from lds.clusterings import generated, linear_kernel

import manifoldseq as ms
from manifoldseq_lds import LDSKMeans


@pytest.fixture(scope="module")
def data():
    return generated()


def test_a_wrong_type_is_told_rather_than_a_number_of_sequences() -> None:
    with pytest.raises(ValueError, match=r"X is of type dict: pass a list of \(T, d\) arrays"):
        LDSKMeans(2).fit({"a": np.ones((30, 2))})


def test_too_few_sequences_are_told_before_the_choice_of_settings() -> None:
    X = list(np.random.default_rng(0).standard_normal((12, 30, 3)))
    with pytest.raises(ValueError, match="X has 12 sequences for n_clusters=100: pass more sequences or lower"):
        LDSKMeans(100, random_state=0).fit(X)  # without the warnings of the choice, which are errors here


def test_a_run_is_watched_stopped_and_resumed(data, tmp_path):
    whole = LDSKMeans(4, n_init=2, random_state=0, tol=0, max_iter=6).fit(data)
    seen = []
    part = LDSKMeans(4, n_init=2, random_state=0, tol=0, max_iter=3)
    part.fit(data, checkpoint=tmp_path, observers=[lambda event: seen.append((event.state["start"], event.nit))])
    assert seen == [(start, nit) for start in (0, 1) for nit in range(4)]
    resumed = LDSKMeans(4, n_init=2, random_state=0, tol=0, max_iter=6).fit(data, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.systems_.A, whole.systems_.A)
    np.testing.assert_array_equal(resumed.systems_.C, whole.systems_.C)
    np.testing.assert_array_equal(resumed.history_["fun"], whole.history_["fun"])


def test_a_checkpoint_of_other_data_raises_an_error(data, tmp_path):
    LDSKMeans(4, n_init=1, random_state=0, max_iter=2).fit(data, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="belongs to other data"):
        LDSKMeans(4, n_init=1, random_state=0, max_iter=2).fit(generated(seed=5), checkpoint=tmp_path, resume=True)


SETTINGS = {
    "n_clusters": 3,
    "kernel": ms.kernel(linear_kernel),
    "mean": "medoid",
    "solver": "pgd",
    "inner_iter": 2,
    "init": "medoid",
    "relocate": False,
    "random_state": 1,
    "bound": 0.9,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_checkpoint_of_other_settings_raises_an_error(name, tmp_path):
    data, params = generated(N=8, m=4, n=2), {"n_clusters": 2, "n_init": 1, "random_state": 0, "max_iter": 1}
    LDSKMeans(**params).fit(data, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="belongs to other"):
        LDSKMeans(**{**params, name: SETTINGS[name]}).fit(data, checkpoint=tmp_path, resume=True)


def test_checkpoints_tell_kernel_objects_apart_by_their_values(tmp_path):
    data, params = generated(N=8, m=4, n=2), {"n_init": 1, "random_state": 0, "max_iter": 1}
    first, same, other = (ms.kernel(lambda a, b, c=c: c * linear_kernel(a, b), name="k") for c in (1, 1, 2))
    LDSKMeans(2, kernel=first, **params).fit(data, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="belongs to other"):
        LDSKMeans(2, kernel=other, **params).fit(data, checkpoint=tmp_path, resume=True)
    LDSKMeans(2, kernel=same, **params).fit(data, checkpoint=tmp_path, resume=True)


def test_inner_iterations_double_while_the_assignment_rests(data):
    seen = []
    LDSKMeans(3, n_init=1, tol=0, inner_iter=3, max_iter=7, random_state=0).fit(
        data, observers=[lambda event: seen.append((event.state["inner"], event.measures.extra["moved"]))]
    )
    expected = 3
    for inner, moved in seen:
        expected = min(2 * expected, 8) if moved <= 0.01 * len(data) else expected
        assert inner == expected
    assert seen[-1][0] == 8


@pytest.mark.parametrize("at", [(0, 2), (1, 1)])
def test_an_interrupt_leaves_a_usable_estimator(data, at):
    def interrupt(event):
        if (event.state["start"], event.nit) == at and event.status is None:
            raise KeyboardInterrupt

    estimator = LDSKMeans(4, n_init=3, random_state=0, tol=0, max_iter=5).fit(data, observers=[interrupt])
    np.testing.assert_array_equal(estimator.predict(data), estimator.labels_)
    assert estimator.status_ is ms.Status.INTERRUPTED  # whichever start is the best


class Interrupted:
    """The projection kernel, interrupted whenever something is compared, if it is so `now`."""

    def __init__(self, now=False):
        self.now, self.inner = now, ms.get_kernel("projection")

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def cross(self, *packed):
        if self.now:
            raise KeyboardInterrupt
        return self.inner.cross(*packed)


def test_an_interrupt_between_two_starts_is_told(data):
    kernel = Interrupted()

    def ended(event):
        kernel.now = event.status is not None and event.state["start"] == 0

    fitted = LDSKMeans(3, kernel=kernel, n_init=2, random_state=0).fit(data, observers=[ended])
    assert fitted.status_ is ms.Status.INTERRUPTED and kernel.now
    np.testing.assert_array_equal(fitted.labels_, LDSKMeans(3, n_init=1, random_state=0).fit(data).labels_)


@pytest.mark.parametrize("mean", ["exact", "canonical"])
def test_an_interrupt_inside_the_mean_ends_the_run(data, mean):
    class Kernel:
        """The projection kernel, interrupted during the twentieth gradient."""

        def __init__(self):
            self.calls, self.inner = 0, ms.get_kernel("projection")

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def weighted(self, *args):
            self.calls += 1
            if self.calls == 20:
                raise KeyboardInterrupt
            return self.inner.weighted(*args)

        def weighted_groups(self, points, *args):
            for _ in points:
                self.calls += 1
                if self.calls == 20:
                    raise KeyboardInterrupt
            return self.inner.weighted_groups(points, *args)

    kernel = Kernel()
    estimator = LDSKMeans(3, kernel=kernel, mean=mean, n_init=2, random_state=0).fit(data)
    assert estimator.status_ is ms.Status.INTERRUPTED and kernel.calls == 20


def test_an_interrupt_before_anything_is_known_is_raised(data):
    with pytest.raises(KeyboardInterrupt):
        LDSKMeans(3, kernel=Interrupted(now=True)).fit(data)
