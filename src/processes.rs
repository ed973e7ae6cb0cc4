//! The data of processes that the kernel shows under `/proc`.

use std::fs;

/// One process. Its number may later be that of another process; the number and the start together may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub group: u32,
    /// The processor time that it has used, in [`TICKS`], including that of its children that have ended and were waited for.
    pub used: u64,
    /// When it began, in [`TICKS`] since the machine was booted.
    pub began: u64,
    /// It has ended, and its parent has not waited for it yet.
    pub ended: bool,
}

/// Ticks of the kernel in a second: this is 100 wherever Linux shows them to processes.
pub const TICKS: u64 = 100;

/// Returns every process; none where the system does not list them.
pub fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| of(entry.file_name().to_str()?.parse().ok()?))
}

/// Returns the process of this number; `None` if there is none.
pub fn of(pid: u32) -> Option<Process> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns whether no process with this number is running.
pub fn has_ended(pid: u32) -> bool {
    of(pid).is_none_or(|process| process.ended)
}

/// Reads a line of `/proc/PID/stat`. The name of the program stands in brackets and may contain any character.
fn parse(pid: u32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: number(1)?.try_into().ok()?,
        group: number(2)?.try_into().ok()?,
        used: [11, 12, 13, 14].into_iter().filter_map(number).sum(),
        began: number(19)?,
        ended: matches!(fields.first(), Some(&("Z" | "X"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_stat_with_any_program_name() {
        let stat = "42 (a) b) S 7 40 40 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 500 6 7";
        let process = parse(42, stat).unwrap();
        let expected = Process {
            pid: 42,
            parent: 7,
            group: 40,
            used: 100,
            began: 500,
            ended: false,
        };
        assert_eq!(process, expected);
        assert!(parse(42, &stat.replace(" S ", " Z ")).unwrap().ended);
        assert!(parse(42, "42 (a").is_none());
    }

    #[test]
    fn running_process_has_not_ended() {
        assert!(!has_ended(std::process::id()));
        assert!(has_ended(u32::MAX));
    }
}
