"""Sizing of LLM inference: how many GPUs, which parallelism and precision, what latency, what cost, and why.

Pure: knows no Kubernetes, no network and no clock. Usable alone in a notebook.
"""
