"""Emulated inference engines: real metrics and real HTTP, timing from the step model instead of GPUs.

Everything that needs an engine without having one stands on this package: the fleet behind the demo and the cluster
tests, and the OpenAI-compatible server that a real load generator can be pointed at. It decides nothing and writes
nothing to the cluster.
"""
