"""`python -m bench`: runs the comparison and writes docs/evidence/benchmarks.md; the options are those of run.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import interpreter

interpreter.ensure()

from run import main  # noqa: E402

main()
