//! The folders through which the daemon, the agents and people exchange files: their layout, writing files as a whole,
//! withdrawing commands, scanning for arrivals. Files of other writers are never deleted or overwritten. This module never
//! decides what a file means: `wire` and the plan do that.

mod access_token;
mod atomic_files;
mod command_files;
mod daemon_lock;
mod filing_away;
mod finished_writing;
mod folder_layout;
mod heartbeat;
mod pairing_code;
mod scan;
mod torn_files;
mod watch;
mod workspace_inbox;
mod workspace_mission;

pub use access_token::TokenFile;
pub use atomic_files::{Result, Unpublished, VolumesError};
pub use command_files::{CommandPlace, Withdrawal};
pub use daemon_lock::{DaemonFarewell, DaemonInfo, DaemonLock, LockError};
pub use filing_away::ReportDisposition;
pub use finished_writing::{UNSEEN, WatchHints};
pub use folder_layout::{COMMAND, EXCHANGE, Folder, Volumes};
pub use heartbeat::{Heartbeat, LogPosition, machine};
pub use scan::{ArrivedReport, MOST_REPORTS, Scan, Scanner, WorkerSign, WorkerSigns};
pub use watch::{READ_AGAIN, StoreChanges, Watch};
pub use workspace_inbox::Inbox;
pub use workspace_mission::{keep_out_of_git, mission_says, write_mission};

use self::atomic_files::{
    Cannot, HARD_LINK, create_once, exists, foreign, move_aside, move_aside_as, move_new, numbered,
    open_own, open_regular, read_capped, read_text, replace, too_large, unless,
};
use self::command_files::file_name;
use self::scan::REPORT_CAP;
