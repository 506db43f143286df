"""Videos: files, generated textures, blocks, local binary patterns, pooling."""
