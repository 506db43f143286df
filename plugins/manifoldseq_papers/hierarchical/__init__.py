"""Le et al., Hierarchical encoding of sequential data: storage, recall and time, our own."""
