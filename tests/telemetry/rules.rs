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
        if !name.starts_with("`leasehold_") || !["counter", "gauge", "histogram"].contains(&shape) {
            continue;
        }
        let name = name.trim_matches('`').to_owned();
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

/// The page is a module of the documentation, and its headings are the anchors there.
#[test]
fn each_rule_leads_to_its_section() {
    let rules: serde_yaml_ng::Value =
        serde_yaml_ng::from_str(&read("telemetry/rules.yml")).unwrap();
    let rules = rules["groups"][0]["rules"].as_sequence().unwrap();
    let names: BTreeSet<_> = rules.iter().map(|r| r["alert"].as_str().unwrap()).collect();
    let page = read("alerts.md");
    let sections: BTreeSet<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    assert_eq!(names, sections);
    for rule in rules {
        let anchor = rule["alert"].as_str().unwrap().to_lowercase();
        assert_eq!(
            rule["annotations"]["runbook_url"].as_str().unwrap(),
            format!("https://docs.rs/leasehold/latest/leasehold/guide/alerts/index.html#{anchor}")
        );
    }
}

#[test]
fn each_expression_of_the_page_uses_existing_metrics() {
    let metrics = metrics();
    let page = read("telemetry.md");
    let rows = page.lines().filter(|line| line.starts_with("| which "));
    let rows: Vec<_> = rows.collect();
    assert!(rows.len() >= 2);
    for row in rows {
        let expression = row.split('`').nth(1).unwrap();
        check(expression, &metrics);
    }
}

/// The exporter of the page is the one of the example, which is run by tests.
#[test]
fn the_page_has_the_buckets_of_the_example() {
    let example = read("../examples/services/src/bin/exporting.rs");
    let page = read("telemetry.md");
    for buckets in ["const DURATIONS", "const CALLS"] {
        let of = |text: &str| {
            let (_, rest) = text.split_once(buckets).unwrap();
            let (all, _) = rest.split_once(';').unwrap();
            let (_, numbers) = rest[all.len()..].split_once('=').unwrap();
            let (numbers, _) = numbers.split_once(']').unwrap();
            numbers.split_whitespace().collect::<String>()
        };
        assert_eq!(of(&page), of(&example), "{buckets}");
    }
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
