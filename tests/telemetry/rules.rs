//! Each expression of the alert rules and of the dashboard is valid and uses existing metrics.

use std::collections::BTreeSet;
use std::fs;

use promql_parser::parser::{self, Expr};
use promql_parser::util::{ExprVisitor, walk_expr};
use serde_json::Value;

fn read(file: &str) -> String {
    let path = format!("{}/../../docs/{file}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The Prometheus names of all metrics, from the table in the docs. A test of the library compares
/// that table with the code.
fn metrics() -> BTreeSet<String> {
    let mut metrics = BTreeSet::new();
    for line in read("telemetry.md").lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, name, shape, ..] = cells[..] else {
            continue;
        };
        if !name.starts_with("`leasehold.") || !["counter", "gauge", "histogram"].contains(&shape) {
            continue;
        }
        let name = name.trim_matches('`').replace('.', "_");
        if shape == "histogram" {
            metrics.extend(["bucket", "count", "sum"].map(|part| format!("{name}_{part}")));
        } else {
            metrics.insert(name);
        }
    }
    assert!(metrics.len() > 20, "the table is read: {metrics:?}");
    metrics
}

struct Names(BTreeSet<String>);

impl ExprVisitor for Names {
    type Error = String;

    fn pre_visit(&mut self, expression: &Expr) -> Result<bool, String> {
        let name = match expression {
            Expr::VectorSelector(selector) => selector.name.clone(),
            Expr::MatrixSelector(selector) => selector.vs.name.clone(),
            _ => None,
        };
        self.0.extend(name);
        Ok(true)
    }
}

fn check(expression: &str, metrics: &BTreeSet<String>) {
    // Grafana inserts a time span there.
    let text = expression.replace("$__rate_interval", "5m");
    let parsed = parser::parse(&text).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let mut names = Names(BTreeSet::new());
    walk_expr(&mut names, &parsed).unwrap();
    assert!(!names.0.is_empty(), "{expression}: of no metric");
    let unknown: Vec<_> = names.0.difference(metrics).collect();
    assert!(unknown.is_empty(), "{expression}: there is no {unknown:?}");
}

#[test]
fn each_rule_uses_existing_metrics() {
    let metrics = metrics();
    let rules: serde_yaml_ng::Value =
        serde_yaml_ng::from_str(&read("telemetry/rules.yml")).unwrap();
    let rules = rules["groups"][0]["rules"].as_sequence().unwrap();
    for rule in rules {
        check(rule["expr"].as_str().unwrap(), &metrics);
        for text in ["summary", "action"] {
            assert!(
                rule["annotations"][text]
                    .as_str()
                    .is_some_and(|text| !text.is_empty())
            );
        }
        assert!(["page", "warn"].contains(&rule["labels"]["severity"].as_str().unwrap()));
    }
    assert!(rules.len() >= 5);
}

#[test]
fn each_panel_uses_existing_metrics() {
    let metrics = metrics();
    let dashboard: Value = serde_json::from_str(&read("telemetry/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()));
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty());
        for target in targets {
            check(target["expr"].as_str().unwrap(), &metrics);
        }
    }
    assert!(panels.len() >= 8);
}

#[test]
#[should_panic(expected = "there is no")]
fn a_missing_metric_is_found() {
    check("sum(rate(leasehold_no_such_thing[5m]))", &metrics());
}
