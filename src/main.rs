//! The program: all code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    plan_agent::cli::main()
}
