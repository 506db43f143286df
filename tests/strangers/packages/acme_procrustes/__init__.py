"""A stranger's distribution: orthogonal Procrustes and a kernel on linear dynamical systems."""
