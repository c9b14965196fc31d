"""The custom resources: models, their schema, reading them from YAML, and turning them into domain values.

Pydantic stays in this package: sizing and decide get the frozen values that `convert` makes.
"""
