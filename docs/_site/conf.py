"""Settings of the documentation site: Sphinx, MyST for Markdown, the theme Furo.

Nothing here may load an asset from another host: the site works on a disk without network. `build.py` checks it.
"""

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
_project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["project"]

project = "MetadataQuorum"
author = "The MetadataQuorum authors"
project_copyright = "Apache License 2.0"
version = release = _project["version"]

extensions = ["myst_parser", "flow_charts"]
exclude_patterns = ["_site/**"]
nitpicky = True

# Anchors as GitHub makes them, so that a link works in both places.
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

html_theme = "furo"
html_title = f"MetadataQuorum {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"
