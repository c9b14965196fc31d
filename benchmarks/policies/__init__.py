"""Parts of the judgment of scaling policies: what is played, by whom, and what it is held against."""
