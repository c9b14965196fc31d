"""Plan: a folder of deployments against pools, over one week, before anything is bought or started.

Each deployment is sized as the operator sizes it, and the operator's own `decide` shares the pools; no simulation, and
no cluster.
"""
