"""The image that users build, built here without a registry and without Docker."""
