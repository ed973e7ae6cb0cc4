//! What plan-agent costs, beside what the same disk and machine could do at best in the same run. `cargo bench --profile dist`
//! runs everything, `cargo bench --profile dist latency` one part; each takes less than a minute. Absolute times move with the
//! load of the machine: the ratios are what counts. What is measured is the binary of the same profile.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the tables are the purpose, and what fails ends the bench"
)]

mod before;
#[path = "../tests/common/browser.rs"]
#[expect(dead_code, reason = "only the tests need all of it")]
mod browser;
mod changes;
#[path = "../tests/common/postgres.rs"]
#[expect(dead_code, reason = "only the tests need all of it")]
mod cluster;
mod disk;
mod env;
#[path = "../tests/common/hostile.rs"]
#[expect(dead_code, reason = "only the tests need all of it")]
mod files;
mod footprint;
mod hostile;
mod lanes;
mod latency;
mod mcp;
mod page;
mod plans;
mod prompts;
mod sample;
mod server;
mod size;
mod table;
mod tools;

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let parts: [(&str, fn()); 13] = [
        ("latency", latency::run),
        ("changes", changes::run),
        ("prompts", prompts::run),
        ("footprint", footprint::run),
        ("hostile", hostile::run),
        ("mcp", mcp::run),
        ("tools", tools::run),
        ("lanes", lanes::run),
        ("before", before::run),
        ("size", size::run),
        ("page", page::run),
        ("plans", plans::run),
        ("server", server::run),
    ];
    // Another profile than `dist` has other figures: whoever compares them has to see it.
    println!("measures {}", env!("CARGO_BIN_EXE_plan-agent"));
    for (name, run) in parts {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
            run();
        }
    }
}
