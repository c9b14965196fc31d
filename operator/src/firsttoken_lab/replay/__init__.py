"""Replay: recorded traffic against scaling policies, request by request, in simulated time.

The fleet is the discrete-event simulator of `firsttoken_sizing`, our policy is the operator's own `decide`. Nothing
here talks to a cluster.
"""
