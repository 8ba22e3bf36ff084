"""The end of the process: in bounded time, with an exit code and a termination message."""
