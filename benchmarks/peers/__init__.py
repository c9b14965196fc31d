"""Other people's tools that the tables compare with, each run in an environment of its own."""
