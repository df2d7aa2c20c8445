use super::{Axis, Measured, Picture, Row, Study};
use crate::report::Report;

const STUDY: Study = Study {
    name: "held",
    arguments: "--scenario S11",
    sizes: "names held",
    rows: &[
        Row {
            what: "CPU, ms/s",
            figure: "cpu_us",
            times: 1e-3,
        },
        Row {
            what: "bytes a name",
            figure: "bytes",
            times: 1.0,
        },
    ],
    picture: Picture {
        title: "CPU",
        upwards: "ms/s",
        axis: Axis::Logarithmic,
        curves: &[(
            Row {
                what: "CPU",
                figure: "cpu_us",
                times: 1e-3,
            },
            "#c22",
        )],
    },
};

fn measured() -> Vec<Measured> {
    let round = |cpu_us: f64, bytes: Option<f64>| {
        let mut report = Report::default();
        report.put("cpu_us", cpu_us);
        report.put("peer", "ours");
        if let Some(bytes) = bytes {
            report.put("bytes", bytes);
        }
        report
    };
    vec![
        Measured::of(1, &[round(500.0, None), round(700.0, None)]),
        Measured::of(1_000, &[round(2_000.0, Some(1_234.0))]),
    ]
}

#[test]
fn the_table_has_medians_and_a_dash_where_nothing_was_measured() {
    assert_eq!(
        STUDY.table(&measured()),
        "| names held | 1 | 1,000 |\n| --- | --- | --- |\n\
         | CPU, ms/s | 0.600 | 2.00 |\n| bytes a name | – | 1,230 |\n"
    );
}

#[test]
fn the_picture_has_a_point_for_each_size() {
    let svg = STUDY.svg(&measured());
    assert_eq!(svg.matches("<circle").count(), 2 + 1, "and the legend's");
    assert!(svg.contains(">1,000</text>"));
}

#[test]
fn the_output_has_the_spread_of_each_figure() {
    let text = STUDY.report(&measured()).to_string();
    assert!(
        text.contains(r#""held_1":{"cpu_us":{"greatest":700.0,"least":500.0,"median":600.0}}"#),
        "{text}"
    );
}
