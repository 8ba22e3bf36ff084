"""Values of users among the arguments of a container. Pure."""


def literal(text: str) -> str:
    """The text, as the process has to get it. Kubernetes replaces `$(NAME)` in arguments by a variable of the container, and some of
    those are keys of Secrets: they would be shown wherever the argument is.
    """
    return text.replace("$", "$$")
