"""Options of the data sources: what was typed, checked, with an error that names what is allowed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.live.controllers import Controllers, controllers_of

NO_END = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Either a `path` or `controllers`. `end_offset` is exclusive; `max_rows` bounds one micro batch."""

    path: Path | None
    controllers: Controllers | None
    start_offset: int
    end_offset: int
    span_bytes: int
    max_rows: int
    keep_problems: bool


_KNOWN = {
    "path": "path",
    "bootstrap": "bootstrap",
    "tls": "tls",
    "commandconfig": "commandConfig",
    "startoffset": "startOffset",
    "endoffset": "endOffset",
    "spanbytes": "spanBytes",
    "maxrows": "maxRows",
    "onproblem": "onProblem",
}


def log_options(given: Mapping[str, str]) -> LogOptions:
    """From the options of a query, whose names know no case. Raises PipelineError."""
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(options.keys() - _KNOWN.keys())
    if unknown:
        raise PipelineError(
            f"unknown option {unknown[0]!r}; there are {', '.join(_KNOWN.values())}"
        )
    path, bootstrap = options.get("path"), options.get("bootstrap")
    if bool(path) == bool(bootstrap):
        raise PipelineError(
            "give either the path of a metadata log's directory, or bootstrap: host:port of controllers"
        )
    on_problem = options.get("onproblem", "fail").lower()
    if on_problem not in ("fail", "keep"):
        raise PipelineError(f"onProblem is {on_problem!r}; it is fail or keep")
    return LogOptions(
        path=Path(path.removeprefix("file://")) if path else None,
        controllers=controllers_in(options) if bootstrap else None,
        start_offset=_number(options, "startoffset", 0),
        end_offset=_number(options, "endoffset", NO_END),
        span_bytes=_number(options, "spanbytes", 8 << 20, least=1),
        max_rows=_number(options, "maxrows", 1_000_000, least=1),
        keep_problems=on_problem == "keep",
    )


def controllers_in(options: Mapping[str, str]) -> Controllers:
    """What `bootstrap`, `tls` and `commandconfig` say; names in lower case. Raises PipelineError."""
    return controllers_of(
        options["bootstrap"], options.get("tls", ""), options.get("commandconfig", "")
    )


def _number(options: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    text = options.get(name, str(default))
    if not text.isdigit() or int(text) < least:
        raise PipelineError(f"{name} is {text!r}; it is a whole number from {least} on")
    return int(text)
