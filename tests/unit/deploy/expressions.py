"""What alerts and dashboard ask of Prometheus."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import promql_parser
import yaml

ROOT = Path(__file__).resolve().parents[3]


def alerts() -> Iterator[tuple[str, str]]:
    """Yield name and expression of every alert."""
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def panels() -> Iterator[tuple[str, str, str]]:
    """Yield title, expression and legend of everything that the dashboard draws."""
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "frontrow.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            # The one variable of Grafana's own that stands for a length of time.
            expression = target["expr"].replace("$__rate_interval", "5m")
            yield panel["title"], expression, target["legendFormat"]


def selectors(expression: str) -> Iterator[promql_parser.VectorSelector]:
    """Yield what an expression reads. Raises ValueError when Prometheus couldn't read it."""
    waiting = [promql_parser.parse(expression)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, promql_parser.VectorSelector):
            yield part
        elif isinstance(part, promql_parser.MatrixSelector):
            yield part.vector_selector
        elif isinstance(part, promql_parser.BinaryExpr):
            waiting += [part.lhs, part.rhs]
        elif isinstance(part, promql_parser.Call):
            waiting += part.args
        elif isinstance(part, (promql_parser.AggregateExpr, promql_parser.ParenExpr)):
            waiting.append(part.expr)
        else:
            assert isinstance(part, (promql_parser.NumberLiteral, promql_parser.StringLiteral)), part


def grouped_by(expression: str) -> set[str]:
    """Return the labels that an expression leaves by name."""
    return {name for names in re.findall(r"\bby \(([^)]*)\)", expression) for name in names.split(", ")}
