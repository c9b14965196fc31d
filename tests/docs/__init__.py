"""The documentation as tests read it: Markdown files, their fenced blocks, and the commands that they show."""
