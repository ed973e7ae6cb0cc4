//! Conversion of files: text ⇄ types. Pure: no file, clock, network or async task. All input is untrusted: it is bounded, never
//! guessed, and never makes a parser panic.

pub mod command_file;
pub mod criterion_text;
pub mod front_matter;
pub mod graph_text;
mod markdown;
pub mod plan_file;
pub mod problem;
pub mod question_file;
pub mod report_file;
pub mod role_phrases;
pub mod team_file;
#[cfg(test)]
pub(crate) mod tests;
pub mod text;
mod word_meant;
mod yaml_tree;

pub use command_file::{CommandFile, CommandType};
pub use plan_file::{EditedPlan, PlanFile, PlanToEdit, Structure};
pub use problem::{Checked, Place, Problem, in_plain_words};
pub use question_file::{meaning, way_to_permit};
pub use report_file::ReportFile;
pub use role_phrases::role;
pub use team_file::{
    ONLY_ITS_OWN, OnTimeout, RoleFolder, RoleKind, RoleSpec, RoleWorker, StepDoes, StepSpec,
    StepTemplate, Team, Workflow,
};
pub use text::{
    KEY_PREFIXES, clip, clip_bytes, one_line, parse_span, parse_time, printable, quoted, safe_name,
    safe_session, sha256, time_text, without_keys,
};
pub(crate) use text::{
    field_path, has_word, is_identifier, joined, known_word, printable_start, quote, short_commit,
};

pub(crate) use word_meant::{check_meant, did_you_mean, field_meant, nearest};

use self::problem::Problems;
use self::yaml_tree::{YamlFields, YamlNode};
