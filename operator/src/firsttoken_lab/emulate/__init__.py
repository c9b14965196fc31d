"""Emulated inference engines: real metrics and real HTTP, timing from the step model instead of GPUs.

The fleet behind the demo and the cluster tests, and an OpenAI-compatible server for real load generators. It decides
nothing and writes nothing to the cluster.
"""
