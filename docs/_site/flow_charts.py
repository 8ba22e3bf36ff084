"""Mermaid flow charts as lists of their paths.

GitHub draws these charts with a script of 3 MB that it loads. The site loads nothing and shows the same as text: one line
for each line of the chart. Only what our pages use is understood: `A["label"] --> B -->|"why"| C`.
"""

import re

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

_NODE = re.compile(r'\s*(\w+)(?:\["([^"]*)"\])?')
_EDGE = re.compile(r'\s*(-->|-\.->)(?:\|"([^"]*)"\|)?')


class FlowChart(Directive):
    """The directive `mermaid`. An unknown line is an error, so that no chart is lost unnoticed."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        labels: dict[str, str] = {}
        shown = nodes.bullet_list(classes=["flow-chart"])
        for line in list(self.content)[1:]:
            if not line.strip():
                continue
            paragraph = nodes.paragraph()
            at = 0
            while at < len(line.rstrip()):
                at = self._node(line, at, labels, paragraph)
                if at < len(line.rstrip()):
                    at = self._edge(line, at, paragraph)
            shown += nodes.list_item("", paragraph)
        return [shown]

    def _node(self, line: str, at: int, labels: dict[str, str], paragraph: nodes.paragraph) -> int:
        found = _NODE.match(line, at)
        if found is None:
            raise self.error(f"not understood in a flow chart: {line}")
        name, label = found.groups()
        labels.setdefault(name, label or name)
        paragraph += nodes.literal(text=labels[name])
        return found.end()

    def _edge(self, line: str, at: int, paragraph: nodes.paragraph) -> int:
        found = _EDGE.match(line, at)
        if found is None:
            raise self.error(f"not understood in a flow chart: {line}")
        words = f" ({found[2]})" if found[2] else ""
        paragraph += nodes.Text(f" →{words} ")
        return found.end()


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("mermaid", FlowChart)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
