//! Plots as SVG in the page. What they show stands beside them as text.

use maud::{Markup, html};

/// The canvas, in its own units.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 120.0;
const FOOT: f64 = 100.0;

/// Values from left to right as bars, from 0 to the greatest. `said`: what a person who does not see it is told.
/// `label` is written at the greatest value.
pub(super) fn bars(values: &[f64], said: &str, label: &str) -> Markup {
    let most = values.iter().copied().fold(0.0, f64::max);
    let step = WIDTH / values.len().max(1) as f64;
    let bar = |(i, value): (usize, &f64)| {
        let share = if most > 0.0 { value / most } else { 0.0 };
        // A small value is seen as something, and none as nothing.
        let height = if *value > 0.0 {
            (share * 80.0).max(1.5)
        } else {
            0.0
        };
        (i as f64 * step, FOOT - height, height)
    };
    let bars = values.iter().enumerate().map(bar);
    html! {
        svg.plot viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(said) {
            line x1="0" x2=(WIDTH) y1=(FOOT) y2=(FOOT) class="axis" {}
            @for (x, y, height) in bars {
                @if height > 0.0 {
                    rect x=(tenths(x)) y=(tenths(y)) width=(tenths((step * 0.8).max(0.5))) height=(tenths(height)) class="bar" {}
                }
            }
            text x="0" y="14" { (label) }
        }
    }
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_bar_for_each_value_and_says_what_it_shows() {
        let shown = bars(&[0.0, 1.0, 2.0], "three <values>", "2").into_string();
        assert_eq!(shown.matches("<rect").count(), 2);
        assert!(
            shown.contains("aria-label=\"three &lt;values&gt;\""),
            "{shown}"
        );
        assert!(
            !shown.contains("style="),
            "the policy takes no style from here"
        );
        assert!(bars(&[], "none", "0").into_string().contains("<svg"));
        assert!(!bars(&[0.0], "none", "0").into_string().contains("NaN"));
    }
}
