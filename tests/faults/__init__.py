"""The real operator behind a network that fails: a proxy before the API server and before Prometheus, and what it does.

`proxy.py` carries and logs every request, `actions.py` is what can happen to one.
"""
