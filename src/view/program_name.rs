//! What a person types to call this program.

use std::fmt;
use std::path::Path;

use crate::wire::quoted;

/// How this program is called again: its name with what the person gave that every command takes, so that a hint which names a
/// command can be pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramName(String);

impl ProgramName {
    /// Names the program with the folder and the configuration that were given.
    pub fn with(folder: Option<&Path>, config: Option<&Path>) -> Self {
        let option = |name, path: Option<&Path>| {
            let text = path.map(|path| format!(" {name} {}", quoted(&path.to_string_lossy())));
            text.unwrap_or_default()
        };
        let (folder, config) = (option("-C", folder), option("--config", config));
        Self(format!("plan-agent{folder}{config}"))
    }

    /// Returns how a plan goes on, or the only one if it has no name here; `home` is the folder of one that belongs to another.
    pub fn goes_on(&self, plan: &str, home: Option<&str>) -> String {
        let resume = format!("{self} resume {plan}");
        let resume = resume.trim_end();
        match home {
            None => format!("`{resume}` goes on where it was"),
            Some(home) => format!(
                "it belongs to {home}, where `plan-agent resume {plan}` goes on; \
                 `{resume} --here` takes it over if no daemon has it"
            ),
        }
    }
}

impl fmt::Display for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_includes_config_option() {
        assert_eq!(ProgramName::with(None, None).to_string(), "plan-agent");
        let named = ProgramName::with(Some(Path::new("..")), Some(Path::new("my config.toml")));
        assert_eq!(
            named.to_string(),
            "plan-agent -C .. --config 'my config.toml'"
        );
    }
}
