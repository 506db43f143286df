"""Le et al., Hierarchical encoding of sequential data: our own comparison of storage, recall and time."""
