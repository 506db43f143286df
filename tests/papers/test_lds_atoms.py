"""Families of atoms that the paper compares systems with: subspaces (Grass-L) and symmetric systems (LDSST)."""

import numpy as np
import pytest
from lds.sparse_problems import atom_problem, clustered
from scipy.linalg import subspace_angles
from sklearn.exceptions import NotFittedError

import manifoldseq as ms
from manifoldseq_lds import LDSDictionaryLearning, Systems
from manifoldseq_papers import GrassmannAtoms, SymmetricAtoms

FAMILIES = {"papers:grassmann": GrassmannAtoms(), "papers:symmetric": SymmetricAtoms()}


@pytest.fixture(scope="module")
def data():
    return clustered()


def learner(**params):
    return LDSDictionaryLearning(**{"n_atoms": 3, "n_states": 2, "tol": 0.0, "max_iter": 4, "random_state": 0} | params)


@pytest.mark.parametrize("method", FAMILIES)
def test_the_objective_falls(data, method):
    model = learner(method=method).fit(data)
    fun = model.history_["fun"]
    assert fun[-1] < fun[0]
    assert model.objective_ == fun[-1] == pytest.approx(-model.score(data), rel=1e-9)
    given = learner(method=FAMILIES[method]).fit(data)
    np.testing.assert_array_equal(given.history_["fun"], fun)


@pytest.mark.parametrize("method", FAMILIES)
def test_resume_is_bit_identical_and_files_keep_the_atoms(data, method, tmp_path):
    straight = learner(method=method).fit(data)
    learner(method=method, max_iter=2).fit(data, checkpoint=tmp_path / "run")
    resumed = learner(method=method).fit(data, checkpoint=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(straight.systems_.A, resumed.systems_.A)
    np.testing.assert_array_equal(straight.history_["fun"], resumed.history_["fun"])
    object_given = learner(method=FAMILIES[method]).fit(data)
    ms.storage.save_model(object_given, tmp_path / "model")
    again = ms.storage.load_model(tmp_path / "model")
    assert again.method == FAMILIES[method]
    np.testing.assert_array_equal(again.transform(data), straight.transform(data))


@pytest.mark.parametrize("method", FAMILIES)
def test_conventions(method):
    ms.testing.check_sequence_estimator(learner(method=method)).raise_for_failure()


def test_atoms_that_are_data_are_these_systems(data):
    """The system of the observability subspace of a stable system is the system."""
    kernel = ms.get_kernel("projection")
    few = Systems(0.9 * data.A[:3], data.C[:3])
    for family in FAMILIES.values():
        symmetric = Systems((few.A + few.A.swapaxes(1, 2)) / 2, few.C)
        expected = symmetric if isinstance(family, SymmetricAtoms) else few
        found = family.systems(family.chosen(few))
        values = kernel.cross(kernel.pack(found), kernel.pack(expected)).diagonal()
        np.testing.assert_allclose(values, 2, atol=1e-8)


def test_another_method_needs_another_fit(data):
    with pytest.raises(NotFittedError):
        learner().fit(data).set_params(method="papers:grassmann").transform(data)
    for make in (lambda: GrassmannAtoms(0), lambda: SymmetricAtoms(0.0)):
        with pytest.raises(ValueError, match="is not valid"):
            make()


def test_partial_fit_continues_a_fit(data):
    model = learner(method="papers:grassmann").fit(data)
    before = model.score(data)
    model.partial_fit(data)
    assert model.score(data) >= before - 1e-9


def test_grassmann_kernel_is_that_of_principal_angles():
    systems, family = clustered(4), GrassmannAtoms(3)
    packed = family.pack(systems)
    stacked = [np.vstack([C, C @ A, C @ A @ A]) for A, C in systems]
    expected = [[np.sum(np.cos(subspace_angles(a, b)) ** 2) for b in stacked] for a in stacked]
    np.testing.assert_allclose(family.cross(packed, packed), expected, atol=1e-10)


def test_grassmann_atom_is_the_minimizer():
    """The smallest eigenvalues: no other subspace has a smaller objective."""
    systems, family = clustered(12), GrassmannAtoms(2)
    made, atoms, _ = atom_problem(family, systems)
    new, _ = family.updated((atoms[0][1],), made, 1.0)

    def value(basis):
        return (
            family.cross(basis[None], made.packed) @ made.beta + family.cross(basis[None], made.others) @ made.gamma
        )[0]

    rng = np.random.default_rng(0)
    others = [np.linalg.qr(rng.standard_normal((12, 2)))[0].T for _ in range(200)]
    near = [np.linalg.qr((new[0] + 1e-3 * rng.standard_normal(new[0].shape)).T)[0].T for _ in range(50)]
    np.testing.assert_allclose(new[0] @ new[0].T, np.eye(2), atol=1e-12)
    assert value(new[0]) <= min(value(basis) for basis in [*others, *near, atoms[0][1]])


def test_symmetric_kernel_is_the_projection_kernel_of_symmetric_systems():
    systems, family = clustered(5), SymmetricAtoms()
    packed = family.pack(systems)
    symmetric = Systems((systems.A + systems.A.swapaxes(1, 2)) / 2, systems.C)
    kernel = ms.get_kernel("projection")
    P = kernel.pack(symmetric)
    np.testing.assert_allclose(family.cross(packed, packed), kernel.cross(P, P), atol=1e-10)


def test_symmetric_atom_improves_and_keeps_orthonormal_columns():
    systems, family = clustered(20), SymmetricAtoms()
    made, atoms, _ = atom_problem(family, systems)
    old = tuple(leaf[1] for leaf in atoms)
    (a, Ct), _ = family.updated(old, made, 1.0)

    def value(a, Ct):
        P = family.pack_atoms((a[None], Ct[None]))
        return (family.cross(P, made.packed) @ made.beta + family.cross(P, made.others) @ made.gamma)[0]

    np.testing.assert_allclose(Ct @ Ct.T, np.eye(2), atol=1e-12)
    assert np.abs(a).max() < 1
    assert value(a, Ct) < value(*old)


def test_symmetric_eigenvalue_steps_down_the_sum_over_data():
    """One state: the eigenvalue tanh(1.25 s) after a step in s down the slope of the objective times N."""
    systems, family = clustered(20, n=1), SymmetricAtoms(rate=0.01)
    made, atoms, _ = atom_problem(family, systems)
    (a, Ct), _ = family.updated(tuple(leaf[1] for leaf in atoms), made, 1.0)

    def total(s):
        P = family.pack_atoms((np.tanh([[1.25 * s]]), Ct[None]))
        return 20 * (family.cross(P, made.packed) @ made.beta + family.cross(P, made.others) @ made.gamma)[0]

    s = np.arctanh(atoms[0][1, 0]) / 1.25
    expected = s - 0.01 * (total(s + 1e-6) - total(s - 1e-6)) / 2e-6
    assert abs(expected - s) > 1e-3
    assert np.arctanh(a[0]) / 1.25 == pytest.approx(expected, abs=1e-8)
