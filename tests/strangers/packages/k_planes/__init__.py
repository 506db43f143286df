"""An estimator of sixty lines, written from docs/develop/write-an-estimator.md."""
