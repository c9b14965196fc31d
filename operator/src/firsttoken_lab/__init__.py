"""The laboratory: recorded traffic against policies (`replay`), engines and fleets without GPUs (`emulate`).

It calls the operator's own `decide` and `observe`. The running operator never imports it.
"""
