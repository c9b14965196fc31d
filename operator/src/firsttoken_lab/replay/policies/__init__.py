"""Scaling policies that a replay compares: ours, the ones that people use today, and the references around them."""
