//! What the cluster of the tests needs of their environment.

use std::thread;
use std::time::{Duration, Instant};

pub fn skip(why: &str) {
    println!("skipped: {why}");
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
