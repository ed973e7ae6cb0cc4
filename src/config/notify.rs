//! Where a person is notified. The address may hold a secret in its path: it is shown by its host only.

use std::fmt;

use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::{is_loopback, read_config};
use crate::wire::sha256;

/// Notifications when a plan asks, ends, or reaches its budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct NotifyConfig {
    /// Where they are posted; nowhere if left out.
    pub url: Option<NotifyUrl>,
    pub format: NotifyFormat,
    /// The address of the page, for a link to the plan.
    #[serde(default, deserialize_with = "read_config::base_url")]
    pub link: Option<String>,
}

/// The form of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotifyFormat {
    /// What a hook reads.
    Json,
    /// Lines of text, as ntfy shows them.
    Text,
    /// `{"text": …}`, as Slack and what is compatible with it take it.
    Slack,
}

/// An address that is kept out of every text.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NotifyUrl(Url);

impl NotifyUrl {
    /// Returns the address itself.
    pub fn secret(&self) -> &Url {
        &self.0
    }

    /// Returns the host, which is no secret.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Returns a text that is another one for another address, and does not tell it.
    pub(super) fn confirmed_as(&self) -> String {
        let hash = sha256(self.0.as_str());
        format!("{}://{}/… ({})", self.0.scheme(), self.host(), &hash[..12])
    }
}

impl fmt::Debug for NotifyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.host())
    }
}

impl TryFrom<String> for NotifyUrl {
    type Error = String;

    /// An error does not repeat the text.
    fn try_from(text: String) -> Result<Self, String> {
        let url = Url::parse(&text).map_err(|error| error.to_string())?;
        match url.scheme() {
            "https" => Ok(Self(url)),
            "http" if is_loopback(&url) => Ok(Self(url)),
            "http" => Err("http is for this machine only; use https".to_owned()),
            _ => Err("must begin with https://".to_owned()),
        }
    }
}

impl From<NotifyUrl> for String {
    fn from(url: NotifyUrl) -> Self {
        url.0.into()
    }
}
