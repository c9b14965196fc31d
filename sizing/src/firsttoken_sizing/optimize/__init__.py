"""The search: every configuration that the request allows, sized; the cheapest that meets the SLA wins."""

from firsttoken_sizing.optimize.size import size

__all__ = ["size"]
