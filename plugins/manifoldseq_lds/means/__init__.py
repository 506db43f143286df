"""The common problem (11), (12) of means and atoms, and the rules for centres."""
