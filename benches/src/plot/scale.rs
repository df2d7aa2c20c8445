//! The upright axis: from values to heights, and the marks beside it.

/// Marks of a linear axis, at most.
const MARKS: f64 = 8.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// From zero.
    Linear { step: f64, top: f64 },
    /// From one power of ten to another.
    Logarithmic { bottom: f64, top: f64 },
}

impl Scale {
    /// With room for the greatest of these values.
    pub(crate) fn linear(values: impl Iterator<Item = f64>) -> Self {
        let greatest = values.fold(0.0, f64::max).max(1e-6) * 1.1;
        let decade = 10_f64.powf((greatest / MARKS).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
        let step = steps.into_iter().find(|step| greatest / step <= MARKS);
        let step = step.unwrap_or(greatest);
        Scale::Linear {
            step,
            top: (greatest / step).ceil() * step,
        }
    }

    /// With room for all of these values that are above zero.
    pub(crate) fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut greatest) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| *value > 0.0) {
            (least, greatest) = (least.min(value), greatest.max(value));
        }
        if greatest == 0.0 {
            (least, greatest) = (1.0, 1.0);
        }
        let bottom = 10_f64.powf(least.log10().floor());
        let top = 10_f64.powf(greatest.log10().ceil());
        Scale::Logarithmic {
            bottom,
            top: top.max(bottom * 10.0),
        }
    }

    /// The part of the axis below this value; more than 1 above its end.
    pub(super) fn height(self, value: f64) -> f64 {
        match self {
            Scale::Linear { top, .. } => value / top,
            Scale::Logarithmic { bottom, top } => {
                (value.max(bottom) / bottom).log10() / (top / bottom).log10()
            }
        }
    }

    pub(super) fn marks(self) -> Vec<f64> {
        let (mut mark, top) = match self {
            Scale::Linear { top, .. } => (0.0, top),
            Scale::Logarithmic { bottom, top } => (bottom, top),
        };
        let mut marks = Vec::new();
        // Sums and products of fractions are not exact.
        while mark <= top * 1.001 {
            marks.push(mark);
            mark = match self {
                Scale::Linear { step, .. } => mark + step,
                Scale::Logarithmic { .. } => mark * 10.0,
            };
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::Scale;

    #[test]
    fn a_linear_axis_has_round_marks_and_room_for_all_values() {
        let scale = Scale::linear([98.0, 131.0].into_iter());
        assert_eq!(
            scale,
            Scale::Linear {
                step: 20.0,
                top: 160.0
            }
        );
        assert_eq!(scale.marks().len(), 9);
        assert!((scale.height(80.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_logarithmic_axis_has_a_mark_for_each_power_of_ten() {
        let scale = Scale::logarithmic([0.0, 0.3, 2_000.0].into_iter());
        let marks = scale.marks();
        assert_eq!(marks.len(), 6, "{marks:?}");
        assert!((marks[0] - 0.1).abs() < 1e-9);
        assert!((scale.height(10.0) - 0.4).abs() < 1e-9);
        assert!(scale.height(0.0).abs() < 1e-9, "zero is at the bottom");
    }

    #[test]
    fn an_axis_without_values_can_be_drawn() {
        for scale in [
            Scale::linear(std::iter::empty()),
            Scale::logarithmic(std::iter::empty()),
        ] {
            assert!(scale.marks().len() > 1, "{scale:?}");
        }
    }
}
