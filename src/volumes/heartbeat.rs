//! The heartbeat of an agent: `active/<command id>.json`, which it writes while it works on a command.

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Cannot, Result, Volumes, read_capped, replace};
use crate::own_files::remove_if_there;
use crate::plan::{CommandId, SessionId, Time};
use crate::wire::{one_line, parse_time, safe_session, time_text};

/// The most bytes of a heartbeat.
const LIFE_CAP: u64 = 16 * 1024;

/// Returns the name of this machine, where the system has it in a file.
pub fn machine() -> Option<&'static str> {
    static NAME: LazyLock<Option<String>> = LazyLock::new(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(name.trim().to_owned()).filter(|name| !name.is_empty())
    });
    NAME.as_deref()
}

/// The most characters of an agent's text about its model, and of the name of its machine.
const SAID: usize = 200;
const MACHINE: usize = 64;

/// The most characters of the name of an agent with its model.
const AGENT: usize = 40;

/// The most characters of why a relay cannot work on a command.
const REFUSED: usize = 400;

/// The content of a heartbeat. Every field may be missing: writing the file again is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Heartbeat {
    /// The agent's process; leader of its own process group where a worker started it.
    pub pid: Option<u32>,
    #[serde(rename = "session_id")]
    pub session: Option<SessionId>,
    /// The agent, with the model that the person chose for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The name of the agent's machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    #[serde(with = "rfc3339")]
    pub started_at: Option<Time>,
    #[serde(with = "rfc3339")]
    pub last_output_at: Option<Time>,
    /// The agent may not continue before this time (a usage limit).
    #[serde(with = "rfc3339", skip_serializing_if = "Option::is_none")]
    pub blocked_until: Option<Time>,
    /// The text of a heartbeat that only says that the model fails and is retried: such a text alone is not a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_fails: Option<String>,
    /// Why no relay has the command: the last one could not lay its work out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Where the output of this run begins in the logs. A later worker needs it to collect the output when this one has gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<LogPosition>,
}

/// A time as agents write it; one that cannot be read counts as missing.
mod rfc3339 {
    use super::*;

    pub(super) fn serialize<S: Serializer>(time: &Option<Time>, to: S) -> Result<S::Ok, S::Error> {
        time.map(time_text).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Time>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        Ok(text.as_deref().and_then(parse_time))
    }
}

/// Where the output of a run begins in the logs of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPosition {
    pub out: u64,
    pub err: u64,
    /// The run was the first of its session.
    pub begins: bool,
}

impl Heartbeat {
    /// Reads what an agent wrote; a time that cannot be read is left out.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut life: Self = serde_json::from_slice(bytes).unwrap_or_default();
        life.session = life.session.filter(|id| safe_session(id.as_str()));
        life.model_fails = life.model_fails.map(|said| one_line(&said, SAID));
        life.refused = life.refused.map(|why| one_line(&why, REFUSED));
        life.machine = life.machine.map(|name| one_line(&name, MACHINE));
        life.agent = life.agent.map(|name| one_line(&name, AGENT));
        life
    }
}

impl Volumes {
    /// Writes the heartbeat of a command in one step.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn live(&self, id: &CommandId, life: &Heartbeat) -> Result<()> {
        let text = serde_json::to_vec(life).expect("texts and numbers only");
        let temp = self.temp("active", &format!("{id}.json"));
        replace(&temp, &self.life(id), &text, 0o666)
    }

    /// Reads the heartbeat of a command; missing or unreadable fields are left out.
    pub fn read_life(&self, id: &CommandId) -> Heartbeat {
        Heartbeat::parse(&read_capped(&self.life(id), LIFE_CAP).unwrap_or_default())
    }

    /// Removes the heartbeat of a command that is done, and its cancel mark.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn rest(&self, id: &CommandId) -> Result<()> {
        for path in [self.life(id), self.cancel_mark(id)] {
            remove_if_there(&path).cannot("remove", &path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeat_round_trips() {
        let life = Heartbeat {
            pid: Some(42),
            session: Some(SessionId::new("s-1")),
            agent: Some("claude (opus)".into()),
            machine: Some("desk".into()),
            started_at: Some(Time(1_795_255_200_000_000)),
            last_output_at: None,
            blocked_until: None,
            model_fails: None,
            refused: None,
            run: None,
        };
        let text = serde_json::to_vec(&life).unwrap();
        insta::assert_snapshot!(String::from_utf8_lossy(&text), @r#"{"pid":42,"session_id":"s-1","agent":"claude (opus)","machine":"desk","started_at":"2026-11-21T10:00:00Z","last_output_at":null}"#);
        assert_eq!(Heartbeat::parse(&text), life);
    }

    #[test]
    fn malformed_heartbeat_reads_as_empty() {
        for text in [
            "",
            "[]",
            "7",
            r#"{"pid": "many"}"#,
            "{",
            "\0\0",
            r#"{"started_at": "noon"}"#,
        ] {
            let beat = Heartbeat::parse(text.as_bytes());
            assert_eq!(beat, Heartbeat::default(), "{text}");
        }
    }
}
