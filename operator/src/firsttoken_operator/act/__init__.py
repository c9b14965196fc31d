"""Everything that is written to the cluster: replicas, rendered objects, statuses, Events. It decides nothing.

The way of a decision: `scale` (preconditions, `/scale`) -> `status` and `changes` (what is worth telling) -> `publish`.
`kubernetes` is the only module that talks to the API server; a test replaces it by a dictionary.
"""
