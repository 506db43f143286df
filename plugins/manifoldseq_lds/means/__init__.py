"""The common problem (11), (12), means, atoms, and the rules for centres."""
