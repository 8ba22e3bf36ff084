"""Monitors, alerts and dashboard of the chart: made where they can be, and naming only what exists."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import chart, declared_metrics
from support.promtool import promtool
from support.source_tree import ROOT
from support.yaml_text import read_yaml

MONITORING = chart.CHART / "monitoring"
RULES: list[dict[str, Any]] = read_yaml((MONITORING / "alerts.yaml").read_text())["groups"][0][
    "rules"
]
RUNBOOKS = ROOT / "docs/how-to/runbooks"
SECTIONS = (
    "What it means",
    "What is affected",
    "How to see more",
    "What to do",
    "When it ends",
)
KINDS = ("PodMonitor", "PrometheusRule")
HAS_KINDS = tuple(f"monitoring.coreos.com/v1/{kind}" for kind in KINDS)
_METRIC = re.compile(r"\b((?:metadata_quorum_|metadataquorum_operator_)\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
OF_A_SCRAPE = {"namespace", "pod", "quorum", "member"}
"""Labels that the PodMonitors give to every series."""


def rendered(helm: Path, *settings: str, kinds: bool = True) -> list[chart.Json]:
    """With the kinds of the Prometheus operator in the cluster, or without."""
    text = chart.rendered_text(helm, settings, kinds=HAS_KINDS if kinds else ())
    return list(chart.objects(text))


def dashboard_queries() -> list[str]:
    document = json.loads((MONITORING / "dashboard.json").read_text())
    panels = [each for each in document["panels"] if each["type"] != "row"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    queries += [
        each["definition"] for each in document["templating"]["list"] if "definition" in each
    ]
    return queries


QUERIES = [*(rule["expr"] for rule in RULES), *dashboard_queries()]


def unknown(query: str, declared: dict[str, set[str]]) -> list[str]:
    """Metrics, and labels of them, that no code declares."""
    found = []
    for name, selectors in _METRIC.findall(query):
        if name not in declared:
            found.append(name)
            continue
        found += [
            f"{name}{{{label}}}"
            for label in _LABEL.findall(selectors)
            if label not in declared[name] | OF_A_SCRAPE
        ]
    labels = set().union(*(declared.get(name, set()) for name, _ in _METRIC.findall(query)))
    for group in _GROUPED.findall(query):
        found += [each for each in re.findall(r"\w+", group) if each not in labels | OF_A_SCRAPE]
    return found


@pytest.fixture(scope="module")
def declared() -> dict[str, set[str]]:
    return declared_metrics.of_node() | declared_metrics.of_operator()


def test_monitoring_objects_without_crds_are_created_only_if_enabled(helm: Path) -> None:
    assert chart.of_kind(rendered(helm, kinds=False), *KINDS) == []
    for value in ("metrics.monitors.enabled=true", "metrics.rules.enabled=true"):
        with pytest.raises(ValueError, match="install the Prometheus operator first"):
            rendered(helm, value, kinds=False)


def test_monitoring_objects_with_crds_are_created_unless_disabled(helm: Path) -> None:
    names = [each["metadata"]["name"] for each in chart.of_kind(rendered(helm), *KINDS)]
    assert names == [chart.RELEASE, f"{chart.RELEASE}-members", chart.RELEASE]
    off = rendered(helm, "metrics.monitors.enabled=false", "metrics.rules.enabled=false")
    assert chart.of_kind(off, *KINDS) == []


def test_members_are_scraped_in_the_watched_namespaces(helm: Path) -> None:
    def selected(*settings: str) -> Any:
        return chart.of_kind(rendered(helm, *settings), "PodMonitor")[1]["spec"][
            "namespaceSelector"
        ]

    assert selected() == {"matchNames": [chart.NAMESPACE]}
    assert selected("watchNamespaces={a,b}") == {"matchNames": ["a", "b"]}
    assert selected("watchNamespaces={*}") == {"any": True}


def test_operator_metrics_keep_their_quorum_label(helm: Path) -> None:
    (operator, members) = chart.of_kind(rendered(helm), "PodMonitor")
    assert operator["spec"]["podMetricsEndpoints"][0]["honorLabels"] is True
    (endpoint,) = members["spec"]["podMetricsEndpoints"]
    assert {each["targetLabel"] for each in endpoint["relabelings"]} <= OF_A_SCRAPE


def test_rule_contains_the_alerts_with_links_and_labels(helm: Path) -> None:
    made = rendered(
        helm, "metrics.rules.runbooks=https://docs.example.org/", "metrics.rules.labels.release=p"
    )
    rule = chart.the(made, "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "p"
    (group,) = rule["spec"]["groups"]
    for found, kept in zip(group["rules"], RULES, strict=True):
        link = found["annotations"].pop("runbook_url")
        assert link == f"https://docs.example.org/{found['alert']}.md"
        assert found == {
            **kept,
            "annotations": {k: v for k, v in kept["annotations"].items() if k != "runbook_url"},
        }


def test_dashboard_is_included_unchanged(helm: Path) -> None:
    assert not [
        each
        for each in chart.of_kind(rendered(helm), "ConfigMap")
        if "dashboard" in each["metadata"]["name"]
    ]
    made = rendered(helm, "metrics.dashboard.enabled=true")
    (found,) = [
        each
        for each in chart.of_kind(made, "ConfigMap")
        if each["metadata"]["labels"].get("grafana_dashboard") == "1"
    ]
    (text,) = found["data"].values()
    assert json.loads(text) == json.loads((MONITORING / "dashboard.json").read_text())


@pytest.mark.parametrize("query", QUERIES)
def test_queries_use_declared_metrics_only(query: str, declared: dict[str, set[str]]) -> None:
    assert _METRIC.search(query)
    assert unknown(query, declared) == []


@pytest.mark.parametrize(
    "query",
    [
        "metadata_quorum_leader",
        'metadata_quorum_leader_id{partitions="0"}',
        "sum by (reason) (metadata_quorum_leader_id)",
        "rate(metadata_quorum_flush_latency_seconds[5m])",
        "metadataquorum_operator_repairs",
    ],
)
def test_undeclared_metric_name_is_detected(query: str, declared: dict[str, set[str]]) -> None:
    assert unknown(query, declared)


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))
    pages = {path.stem: path.read_text() for path in RUNBOOKS.glob("*.md")}
    index = pages.pop("README")
    assert pages.keys() == set(names)
    for rule in RULES:
        name, page = rule["alert"], pages[rule["alert"]]
        assert rule["annotations"]["runbook_url"] == f"RUNBOOKS/{name}.md"
        assert f"| [{name}]({name}.md) | {rule['labels']['severity']} | {rule['for']} |" in index
        assert f"Fires after {rule['for']}, severity {rule['labels']['severity']}" in page
        assert f"```promql\n{rule['expr']}\n```" in page
        assert tuple(re.findall(r"^## (.+)$", page, re.MULTILINE)) == SECTIONS


def test_every_operator_metric_is_in_the_reference_table() -> None:
    text = (ROOT / "docs/how-to/monitoring.md").read_text()
    row = r"^\| `(metadataquorum_operator_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$"
    rows = {
        name: (kind, set(filter(None, labels.split(", "))), meaning)
        for name, kind, labels, meaning in re.findall(row, text, re.MULTILINE)
    }
    metrics = declared_metrics.busy()
    families = {}
    for family in metrics.registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {label for each in family.samples for label in each.labels} - {"le"}
        families[name] = (family.type, labels, family.documentation)
    assert rows == families
    served = re.findall(r"^# TYPE (\w+) (\w+)$", metrics.render().decode(), re.MULTILINE)
    assert sorted(served) == sorted((name, kind) for name, (kind, *_) in rows.items())


# Alert → what causes it (series and their values, one each minute), and its labels beside name and severity.
_OF_Q = 'namespace="blue",name="q"'
_POD = 'namespace="blue",quorum="q",pod="q-1-1-0"'
CAUSES: dict[str, tuple[dict[str, str], str]] = {
    **{
        alert: (
            {
                f'metadataquorum_operator_quorum_condition{{{_OF_Q},condition="{condition}"}}': "0x5 1x60"
            },
            f'{_OF_Q},condition="{condition}"',
        )
        for alert, condition in (
            ("MetadataQuorumLost", "QuorumLost"),
            ("MetadataQuorumMemberFailed", "Degraded"),
            ("MetadataQuorumMembersUnreachable", "MembersUnreachable"),
            ("MetadataQuorumDiskFull", "DiskFull"),
            ("MetadataQuorumPlanStuck", "Progressing"),
            ("MetadataQuorumRefused", "Refused"),
            ("MetadataQuorumNeedsDecision", "ClaimsInDoubt"),
            ("MetadataQuorumTlsBlocked", "TlsBlocked"),
        )
    },
    "MetadataQuorumWithoutLeader": (
        {f'metadata_quorum_leader_id{{{_POD},partition="0"}}': "1x5 -1x60"},
        'namespace="blue",quorum="q"',
    ),
    "MetadataQuorumWithoutTolerance": (
        {
            f"metadataquorum_operator_quorum_failure_tolerance{{{_OF_Q}}}": "1x5 0x60",
            f"metadataquorum_operator_quorum_voters{{{_OF_Q}}}": "3x65",
            'metadataquorum_operator_quorum_failure_tolerance{namespace="blue",name="one"}': "0x65",
            'metadataquorum_operator_quorum_voters{namespace="blue",name="one"}': "1x65",
        },
        _OF_Q,
    ),
    "MetadataQuorumDiskFilling": (
        {f"metadata_quorum_disk_free_bytes{{{_POD}}}": "1000x5 990-10x60"},
        _POD,
    ),
    "MetadataQuorumVoterLags": (
        {f"metadataquorum_operator_quorum_voter_lag_records{{{_OF_Q}}}": "0x5 20000x60"},
        _OF_Q,
    ),
    "MetadataQuorumApplyLag": (
        {f'metadata_quorum_metadata_lag{{{_POD},partition="0"}}': "0x5 20000x60"},
        f'{_POD},partition="0"',
    ),
    "MetadataQuorumElections": (
        {f'metadata_quorum_elections_won_total{{{_POD},partition="0"}}': "0x5 1+1x60"},
        'namespace="blue",quorum="q"',
    ),
    "MetadataQuorumPaused": (
        {f'metadataquorum_operator_quorum_phase{{{_OF_Q},phase="Paused"}}': "0x5 1x1500"},
        f'{_OF_Q},phase="Paused"',
    ),
    "MetadataQuorumCertificatesNotRenewed": (
        {
            f"metadataquorum_operator_quorum_certificate_renewal_time_seconds{{{_OF_Q}}}": "3600x5 -21600x60"
        },
        _OF_Q,
    ),
    "MetadataQuorumBackupNotCurrent": (
        {f"metadataquorum_operator_quorum_backup_current{{{_OF_Q}}}": "1x5 0x60"},
        _OF_Q,
    ),
    "MetadataQuorumUpdateFailed": (
        {f"metadataquorum_operator_quorum_update_failed{{{_OF_Q}}}": "0x5 1x60"},
        _OF_Q,
    ),
    "MetadataQuorumOperatorDown": ({'metadataquorum_operator_leading{pod="o"}': "1x5 0x60"}, ""),
    "MetadataQuorumOperatorStuck": (
        {'metadataquorum_operator_reconcile_in_progress_start_time_seconds{pod="o"}': "0x5 300x60"},
        'pod="o"',
    ),
    "MetadataQuorumReconcileFailing": (
        {'metadataquorum_operator_reconcile_failures_total{error="Unavailable"}': "0x5 1+2x60"},
        'error="Unavailable"',
    ),
}


# Further causes of the same alerts: each condition of a pattern, each arm of an `or`.
FURTHER_CAUSES: list[tuple[str, dict[str, str], str]] = [
    *(
        (
            "MetadataQuorumNeedsDecision",
            {
                f'metadataquorum_operator_quorum_condition{{{_OF_Q},condition="{condition}"}}': "0x5 1x60"
            },
            f'{_OF_Q},condition="{condition}"',
        )
        for condition in ("IdentityMissing", "SpecInvalid", "ForeignObjects", "AlterationPending")
    ),
    ("MetadataQuorumDiskFilling", {f"metadata_quorum_disk_low{{{_POD}}}": "0x5 1x60"}, _POD),
]


def evaluated_every(rule: dict[str, Any]) -> str:
    """An alert that fires after a day is evaluated a thousand times a minute apart, and all other rules with it."""
    return "10m" if rule["for"].endswith("h") else "1m"


def rule_tests(rule: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One for each cause of the alert."""
    name = rule["alert"]
    yield rule_test(rule, *CAUSES[name])
    for alert, series, labels in FURTHER_CAUSES:
        if alert == name:
            yield rule_test(rule, series, labels)


def rule_test(rule: dict[str, Any], series: dict[str, str], labels: str) -> dict[str, Any]:
    """It fires in the end, for what it should and nothing else, and not while all is well."""
    name = rule["alert"]
    own = f",{labels}" if labels else ""
    severity = rule["labels"]["severity"]
    firing = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
    sample = f'ALERTS{{alertname="{name}",alertstate="firing",severity="{severity}"{own}}}'
    end = "24h20m" if rule["for"] == "24h" else "60m"
    return {
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "promql_expr_test": [
            {"expr": firing, "eval_time": "4m", "exp_samples": []},
            {"expr": firing, "eval_time": end, "exp_samples": [{"labels": sample, "value": 1}]},
        ],
    }


def test_each_alert_has_a_trigger_in_the_test() -> None:
    assert CAUSES.keys() == {rule["alert"] for rule in RULES}


def test_each_condition_and_each_arm_of_an_alert_has_a_trigger() -> None:
    causes = [(alert, *cause) for alert, cause in CAUSES.items()] + FURTHER_CAUSES
    for rule in RULES:
        triggers = [
            found for alert, series, _ in causes if alert == rule["alert"] for found in series
        ]
        for condition in re.findall(r'condition=~?"([^"]+)"', rule["expr"]):
            for each in condition.split("|"):
                assert any(f'condition="{each}"' in one for one in triggers), (rule["alert"], each)
        for name, _ in _METRIC.findall(rule["expr"]):
            assert any(one.startswith(name) for one in triggers), (rule["alert"], name)


@pytest.mark.requirement("OP-11")
def test_promtool_accepts_the_rules_and_each_alert_fires_when_triggered(tmp_path: Path) -> None:
    program = promtool()
    rules = MONITORING / "alerts.yaml"
    checked = subprocess.run(
        [program, "check", "rules", rules], capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    paths = []
    for interval in sorted({evaluated_every(rule) for rule in RULES}):
        tests = [
            each for rule in RULES if evaluated_every(rule) == interval for each in rule_tests(rule)
        ]
        document = {
            "rule_files": [str(rules)],
            "evaluation_interval": interval,
            "tests": tests,
        }
        paths.append(tmp_path / f"alerts_{interval}_test.yaml")
        paths[-1].write_text(yaml.safe_dump(document, sort_keys=False))
    tested = subprocess.run(
        [program, "test", "rules", *paths],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
