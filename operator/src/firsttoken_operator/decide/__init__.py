"""To be described by its first module."""
