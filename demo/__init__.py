"""The demo: a burst of traffic on a real Kubernetes API, answered by the operator, judged by per-request truth.

`make demo` runs it (`python -m demo`). It is no part of the product; the end-to-end tests share its stage.
"""
