//! Words of the command line that clap does not read by itself.

use std::net::SocketAddr;

use crate::plan::TaskId;

pub(super) fn local_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        _ => Err("must be an address of this machine, such as 127.0.0.1:8765".into()),
    }
}

pub(super) fn not_empty(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("must not be empty".into()),
        text => Ok(text.to_owned()),
    }
}

pub(super) fn param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err("must be NAME=VALUE, such as feature=\"a health endpoint\"".into()),
    }
}

pub(super) fn task_number(text: &str) -> Result<TaskId, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(TaskId(number)),
        _ => Err("must be the number of a task, such as 3".into()),
    }
}
