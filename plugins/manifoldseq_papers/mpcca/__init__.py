"""Multi-view super vectors, supplementary material: our own comparisons of fusion methods."""
