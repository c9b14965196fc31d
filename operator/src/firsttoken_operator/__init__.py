"""firsttoken operator: observes, decides, acts."""
