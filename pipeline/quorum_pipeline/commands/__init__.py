"""The commands: arguments in, lines for people out. What they do is in the other packages."""
