"""Features of images from the units of a model, and the MNIST digits."""
