//! The folders through which the daemon, the agents and people exchange files: where everything is, how a file is put
//! there whole, how a command is taken back, what has arrived. Nothing that somebody else wrote is ever deleted or
//! overwritten, and nothing in here decides what a file means: that is for `wire` and the plan.

mod commands;
mod files;
mod filing;
mod inbox;
mod layout;
mod life;
mod listing;
mod lock;
mod mission;
mod questions;
mod scan;
mod settle;
mod token;
mod torn;
mod watch;

pub use commands::{Whereabouts, Withdrawal};
pub use files::{Unpublished, Unreadable, VolumesError};
pub use filing::Filing;
pub use inbox::Inbox;
pub use layout::{EXCHANGE, Folder, Volumes};
pub use life::{Life, Mark};
pub use lock::{DaemonInfo, DaemonLock, LastWord, LockError, LockPlace};
pub use mission::{keep_out_of_git, write_mission};
pub use scan::{Arrived, MOST_REPORTS, Scan, Scanner, Sign};
pub use settle::{Hints, UNSEEN};
pub use watch::Watch;
