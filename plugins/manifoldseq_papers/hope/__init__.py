"""Zhang and Jiang, Hybrid orthogonal projection and estimation: Tables 1 to 6, Figures 4 and 5."""
