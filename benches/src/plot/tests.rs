use super::{Look, Plot, Scale, Series, mark_text};
use crate::spread::Spread;

fn plot() -> Plot<'static> {
    let measured = [1.0, 10.0, 100.0].map(|value| Some(Spread::of(vec![value, 1.5 * value])));
    Plot {
        title: "Costs",
        across: "names",
        columns: ["1", "10", "100"].map(str::to_owned).to_vec(),
        upwards: "ms",
        scale: Scale::logarithmic([1.0, 150.0].into_iter()),
        series: vec![
            Series {
                name: "measured",
                look: Look::Curve("#c22"),
                values: measured.to_vec(),
            },
            Series {
                name: "a part",
                look: Look::Points("#22c"),
                values: vec![None, measured[1], None],
            },
            Series {
                name: "calculated",
                look: Look::Line("stroke=\"#000\""),
                values: measured.to_vec(),
            },
        ],
    }
}

/// Every element is a line of its own: it is closed there, or by a line that is only its end.
#[test]
fn every_element_is_closed() {
    let mut open = Vec::new();
    for line in plot().svg().lines() {
        let name = |text: &str| {
            let end = text.find([' ', '>', '/']).expect("a name ends");
            text[..end].to_owned()
        };
        if let Some(end) = line.strip_prefix("</") {
            assert_eq!(open.pop(), Some(name(end)), "{line}");
        } else {
            let begin = name(line.strip_prefix('<').expect("an element"));
            if !line.ends_with("/>") && !line.ends_with(&format!("</{begin}>")) {
                open.push(begin);
            }
        }
        assert_eq!(line.matches('"').count() % 2, 0, "{line}");
    }
    assert_eq!(open, Vec::<String>::new());
}

#[test]
fn a_size_without_a_value_has_no_point() {
    let svg = plot().svg();
    // Three measured ones, one of a part, and those of the legend.
    assert_eq!(svg.matches("<circle").count(), 3 + 1 + 2);
    assert_eq!(svg.matches("<polyline").count(), 2);
    for name in ["measured", "a part", "calculated", "names", "ms"] {
        assert!(svg.contains(&format!(">{name}</text>")), "{name}");
    }
}

#[test]
fn marks_have_no_needless_zeros() {
    for (mark, text) in [
        (0.0, "0"),
        (0.1, "0.1"),
        (1.0, "1"),
        (20.0, "20"),
        (1e5, "100,000"),
    ] {
        assert_eq!(mark_text(mark), text);
    }
}
