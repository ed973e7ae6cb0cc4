//! Tables that can be read, and the percentiles in them.

use std::time::Duration;

/// Measured times, sorted.
pub struct Times(Vec<Duration>);

impl Times {
    pub fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// Returns the time that this share of the measurements did not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        let last = self.0.len() - 1;
        self.0[(last * percent).div_ceil(100)]
    }

    pub fn p50(&self) -> Duration {
        self.percentile(50)
    }

    pub fn p99(&self) -> Duration {
        self.percentile(99)
    }
}

pub fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

pub fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

/// Says whether an aim is met.
pub fn against(value: f64, most: f64) -> String {
    let verdict = if value <= most { "met" } else { "MISSED" };
    format!("{value:.2} (aim: at most {most}, {verdict})")
}

/// Prints rows under a title, in columns as wide as they need to be.
pub fn print(title: &str, rows: &[Vec<String>]) {
    println!("\n{title}\n");
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        println!("  {}", cells.join("   ").trim_end());
    }
}

/// Makes a row of a table.
#[macro_export]
macro_rules! row {
    ($($cell:expr),+ $(,)?) => { vec![$($cell.to_string()),+] };
}
