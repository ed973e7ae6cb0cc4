//! The folders through which the daemon, the agents and people exchange files: their layout, writing files as a whole,
//! withdrawing commands, scanning for arrivals. Files of other writers are never deleted or overwritten. This module never
//! decides what a file means: `wire` and the plan do that.

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

pub use commands::{CommandPlace, Withdrawal};
pub use files::{Unpublished, Unreadable, VolumesError};
pub use filing::ReportDisposition;
pub use inbox::Inbox;
pub use layout::{EXCHANGE, Folder, Volumes};
pub use life::{Heartbeat, LogPosition};
pub use lock::{DaemonFarewell, DaemonInfo, DaemonLock, LockError, LockPlace};
pub use mission::{keep_out_of_git, write_mission};
pub use scan::{ArrivedReport, MOST_REPORTS, Scan, Scanner, WorkerSign};
pub use settle::{UNSEEN, WatchHints};
pub use watch::Watch;
