"""Multi-view super vectors, supplementary material: comparisons of fusions, our own."""
