"""Tools that tests, demo and benchmarks stand on, and no user installs."""
