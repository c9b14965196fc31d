"""Parts of the benchmark of shared pools: the deployments, and the pools that they play in."""
