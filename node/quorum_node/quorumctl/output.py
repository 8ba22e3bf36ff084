"""Output of commands that print while they run, and documents in JSON. Other results are printed by
`command_line.print_result`.
"""

import json
import sys

from pydantic import BaseModel

from quorum_node.command_line import discard_output, write_text
from quorum_node.quorumctl.client import CommandFailed


def in_json(document: BaseModel) -> str:
    """The document in JSON. If stdout may lack a character, all others than ASCII are escaped as in JSON."""
    text = document.model_dump_json(by_alias=True, indent=2)
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("_", "-")
    return text if encoding in ("utf-8", "utf8") else json.dumps(json.loads(text), indent=2)


def show(text: str, before: str = "") -> None:
    """Print lines at once, as `print_result` does: a terminal gets no control characters except `before`.

    Raises BrokenPipeError if the reader has stopped, and CommandFailed if the output can't be written.
    """
    try:
        write_text(text, before)
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise CommandFailed(f"the output can't be written: {error.strerror or error}") from error
