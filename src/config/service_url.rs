//! The address of a service that gets the key and the prompts.

use std::fmt;

use reqwest::Url;

use super::is_loopback;

/// The address of a service. It is https, or http on this machine, and holds no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl(Url);

impl ServiceUrl {
    /// Reads an address.
    ///
    /// # Errors
    /// Says why the text is no such address. The error does not repeat the text: it may hold a secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut url = Url::parse(text).map_err(|error| error.to_string())?;
        // With a slash at its end it is the same address.
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            let why = "an address must not hold a key, which belongs into the environment";
            return Err(why.into());
        }
        match url.scheme() {
            "https" => Ok(Self(url)),
            "http" if is_loopback(&url) => Ok(Self(url)),
            "http" => {
                let why =
                    "http would send the key unencrypted and is for this machine only; use https";
                Err(why.into())
            }
            _ => Err("must begin with https://".into()),
        }
    }

    /// Returns the address of what has a path below this one.
    pub fn with_path(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        let base = url.path().trim_end_matches('/');
        // People write both `https://host` and `https://host/v1` for an API whose paths begin with `/v1`.
        let base = match path.strip_prefix("/v1") {
            Some(_) => base.strip_suffix("/v1").unwrap_or(base),
            None => base,
        };
        url.set_path(&format!("{base}{path}"));
        url.set_fragment(None);
        url
    }

    /// Returns whether the service runs on this machine.
    pub fn is_local(&self) -> bool {
        is_loopback(&self.0)
    }
}

/// Without a slash at its end.
impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine() {
        for base in [
            "http://127.0.0.1:8080",
            "http://localhost/v1",
            "http://[::1]:1/",
            "https://example.com",
        ] {
            assert!(ServiceUrl::parse(base).is_ok(), "{base}");
        }
        for base in [
            "http://example.com",
            "http://127.0.0.1.example.com",
            "http://10.0.0.1:80",
            "http://localhost.example.com",
        ] {
            let error = ServiceUrl::parse(base).unwrap_err();
            assert!(error.starts_with("http would send the key"), "{base}");
        }
        assert!(ServiceUrl::parse("ftp://x").is_err());
    }

    #[test]
    fn url_error_hides_secrets() {
        for base in [
            "http://user:canary@example.com/v1",
            "http://example.com/v1?key=canary",
            "https://example.com/v1?key=canary",
            "user:canary@example.com?x=canary",
            "https://user:canary@127.0.0.1",
        ] {
            let error = ServiceUrl::parse(base).unwrap_err();
            assert!(!error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn path_is_appended() {
        let with = |base: &str, path| ServiceUrl::parse(base).unwrap().with_path(path);
        let url = with("https://example.com/openai/v1/", "/chat");
        assert_eq!(url.as_str(), "https://example.com/openai/v1/chat");
        for base in ["https://example.com", "https://example.com/v1/"] {
            let url = with(base, "/v1/messages");
            assert_eq!(url.as_str(), "https://example.com/v1/messages");
        }
    }
}
