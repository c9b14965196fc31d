"""Parts of the judgment of scaling policies: what is played, the contenders, and what they are held against."""
