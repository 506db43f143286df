"""A family of atoms in one file: systems are compared by the subspaces of their outputs alone."""

from dataclasses import dataclass

import numpy as np

import manifoldseq as ms
from manifoldseq_lds import AtomFamily, Systems


@dataclass(frozen=True)
class OutputAtoms(AtomFamily):
    def pack(self, systems):
        return systems.C

    def chosen(self, systems):
        return (systems.C,)

    def systems(self, atoms):
        return Systems(np.zeros_like(atoms[0][:, : atoms[0].shape[2]]), atoms[0])

    def cross(self, P, Q):
        return np.square(np.einsum("jmk,nml->jnkl", P, Q)).sum(axis=(2, 3))

    def diag(self, P):
        return np.full(len(P), float(P.shape[2]))

    def updated(self, atom, problem, scale):  # the eigenvectors of least eigenvalue are the minimizer
        pairs = (problem.beta, problem.packed), (problem.gamma, problem.others)
        S = sum(np.einsum("i,imk,ilk->ml", weights, C, C) for weights, C in pairs)
        return (np.linalg.eigh(S)[1][:, : atom[0].shape[1]],), 1.0


@ms.hookimpl
def manifoldseq_rules():
    yield ms.hooks.RuleSpec("outputs", OutputAtoms, estimator="lds-dictionary", parameter="method")
