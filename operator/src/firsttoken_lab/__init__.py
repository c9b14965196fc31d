"""The laboratory: policies on recorded traffic (`replay`), pools over a week (`plan`), engines and fleets (`emulate`).

It calls the operator's own `decide` and `observe`. The running operator never imports it.
"""
