//! The variables of the environment that this program reads.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::read_config;

/// The environment variables of the process. They may hold secrets, so they are never shown.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Reads those of this process; a name or value that is not Unicode is left out.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// Returns the value of a variable; an empty one counts as not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// Returns the names of all variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the same environment with another `PATH`, if one is given.
    #[must_use]
    pub fn with_path(mut self, path: Option<&str>) -> Self {
        self.0
            .extend(path.map(|path| ("PATH".to_owned(), path.to_owned())));
        self
    }

    /// Returns the absolute folder in which this program keeps what belongs to the person and to no project: by the XDG base
    /// directories `$XDG_STATE_HOME/plan-agent`, else `~/.local/state/plan-agent`. It need not exist. `None` without a home.
    pub fn state_folder(&self) -> Option<PathBuf> {
        let states = self.base_folder("XDG_STATE_HOME", ".local/state")?;
        Some(states.join("plan-agent"))
    }

    /// Returns a folder of the XDG base directories: the absolute one that the variable names, else the one in the home. `None`
    /// without a home.
    pub fn base_folder(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        let named = |name| self.get(name).map(PathBuf::from);
        let absolute = |name| named(name).filter(|path| path.is_absolute());
        absolute(variable).or_else(|| Some(absolute("HOME")?.join(in_home)))
    }

    /// Returns whether a variable overrides a key of the configuration, such as `volumes.root`.
    pub fn overrides(&self, key: &str) -> bool {
        self.get(&read_config::variable_of(key)).is_some()
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
