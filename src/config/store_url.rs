//! Where plans are kept. The address of a server may hold a password: no text shows it.

use crate::wire::joined;
use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

/// The place of the plans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct StoreConfig {
    /// The database on a server; a file in the exchange folder if left out.
    pub url: Option<StoreUrl>,
}

/// The address of a database on a server. It is checked where it is used: by the store.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StoreUrl(SecretString);

impl StoreUrl {
    /// Returns the address itself.
    pub fn secret(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns whether there is a password in it.
    pub fn has_password(&self) -> bool {
        let (before, options) = self.secret().split_once('?').unwrap_or((self.secret(), ""));
        let user = before
            .split_once("://")
            .and_then(|(_, rest)| rest.split_once('@'));
        user.is_some_and(|(user, _)| user.contains(':')) || options.contains("pass")
    }

    /// Returns the address without its password: a person who changes only that need not confirm it again.
    pub(super) fn confirmed_as(&self) -> String {
        let url = self.secret();
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        // As the driver reads it: the first `@` ends the name and the password.
        let (user, rest) = rest.split_once('@').map_or(("", rest), |(user, rest)| {
            (user.split_once(':').map_or(user, |(user, _)| user), rest)
        });
        let at = if user.is_empty() { "" } else { "@" };
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let shown = options.split('&').filter(|option| {
            let key = option.split('=').next().unwrap_or_default();
            !key.is_empty() && !key.contains('%') && !key.contains("password")
        });
        let shown = joined(shown, "&");
        let glue = if shown.is_empty() { "" } else { "?" };
        format!("{scheme}://{user}{at}{place}{glue}{shown}")
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(an address)")
    }
}

impl PartialEq for StoreUrl {
    fn eq(&self, other: &Self) -> bool {
        self.secret() == other.secret()
    }
}

impl TryFrom<String> for StoreUrl {
    type Error = String;

    /// An error does not repeat the text.
    fn try_from(text: String) -> Result<Self, String> {
        match text.starts_with("postgres://") || text.starts_with("postgresql://") {
            true => Ok(Self(text.into())),
            false => Err("must begin with postgres://".to_owned()),
        }
    }
}

impl From<StoreUrl> for String {
    fn from(url: StoreUrl) -> Self {
        url.secret().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_in_no_text() {
        for (text, shown) in [
            ("postgres://u:canary@h:1/d", "postgres://u@h:1/d"),
            (
                "postgresql://u:canary@/d?host=/s",
                "postgresql://u@/d?host=/s",
            ),
            (
                "postgres://h/d?password=canary&sslmode=disable",
                "postgres://h/d?sslmode=disable",
            ),
            ("postgres://h/d?pass%77ord=canary", "postgres://h/d"),
            ("postgres://h", "postgres://h"),
        ] {
            let url = StoreUrl::try_from(text.to_owned()).unwrap();
            assert_eq!(url.confirmed_as(), shown);
            assert!(!format!("{url:?}").contains("canary"));
        }
        let wrong = StoreUrl::try_from("mysql://u:canary@h".to_owned()).unwrap_err();
        assert!(!wrong.contains("canary"));
    }
}
