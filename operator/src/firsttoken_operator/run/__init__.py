"""The operator as a process: the only package that knows all the others.

`process` puts it together, `loop` drives a tick, `kopf_wiring` and `sync` keep the store true, `health` and `metrics`
tell how it goes.
"""
