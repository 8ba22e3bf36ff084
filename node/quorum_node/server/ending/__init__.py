"""How the process ends: in bounded time, with an exit code and its last words."""
