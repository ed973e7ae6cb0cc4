//! The address of a PostgreSQL server: where it is, the password, and how the connection is encrypted. No message repeats
//! the address: what stands wrong in it may be part of a password.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres::config::{Host, SslMode};

use crate::bounded_read;
use crate::config::Environment;
use crate::own_files;
use crate::wire::has_word;

/// The most bytes of a file of passwords, and of the one that names databases.
const MAX_BYTES: usize = 1024 * 1024;

/// How long a server may be silent before the connection counts as lost.
pub(in crate::store) const SILENCE: Duration = Duration::from_secs(20);
const CONNECT: Duration = Duration::from_secs(10);

const FORM: &str = "the address cannot be read: it is written postgres://user@host:5432/database, and in a password \
                    `@`, `:`, `/`, `?` and `%` are written %40, %3A, %2F, %3F and %25";

/// Options that other programs know, and this one does not, or only with other values.
const OPTIONS: &str = "sslmode sslrootcert sslcert sslkey sslcrl sslcrldir sslnegotiation sslsni sslcompression gssencmode \
                       gsslib krbsrvname target_session_attrs load_balance_hosts channel_binding require_auth passfile \
                       service client_encoding fallback_application_name replication requirepeer connect_timeout \
                       ssl_min_protocol_version ssl_max_protocol_version";

const TWO_SIGNS: &str = "the address has more than one `@`: in a name or a password write %40";

/// A server, and how to connect to it.
#[derive(Clone)]
pub(in crate::store) struct ServerAddress {
    pub(super) config: tokio_postgres::Config,
    /// `None` where the connection is not encrypted.
    pub(super) tls: Option<ClientConfig>,
    shown: String,
    /// The file with the addresses of a folder, each with the database that answered there first.
    pub(super) note: PathBuf,
}

impl ServerAddress {
    /// Reads an address. The password is the one in it, else the one in the file of passwords, else that of the environment.
    /// `note` is the file that names its database.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(in crate::store) fn read(
        url: &str,
        note: PathBuf,
        environment: &Environment,
    ) -> Result<Self, String> {
        // The rest of a password would be the name of a host.
        if url.split('?').next().unwrap_or(url).matches('@').count() > 1 {
            return Err(TWO_SIGNS.to_owned());
        }
        let (plain, mode, root) = without_tls(url);
        let mut config: tokio_postgres::Config = plain.parse().map_err(|_| unread(&plain))?;
        if config.get_hosts().is_empty() {
            return Err("the address names no host".to_owned());
        }
        if config.get_user().is_none() {
            let user = environment.get("PGUSER").or(environment.get("USER"));
            config.user(user.ok_or("the address names no user")?);
        }
        let user = config.get_user().unwrap_or_default().to_owned();
        if config.get_dbname().is_none() {
            config.dbname(&user);
        }
        let database = config.get_dbname().unwrap_or_default().to_owned();
        let port = |at: usize| {
            let ports = config.get_ports();
            ports.get(at).or(ports.first()).copied().unwrap_or(5432)
        };
        let name = |host: &Host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        };
        let hosts = config.get_hosts().iter().enumerate();
        let hosts: Vec<_> = hosts.map(|(at, host)| (name(host), port(at))).collect();
        // As it may be typed again: a socket's folder, and IPv6.
        let typed = |host: &str| match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]"),
            false => host.replace('/', "%2F"),
        };
        let at = hosts
            .iter()
            .map(|(host, port)| format!("{}:{port}", typed(host)));
        let at = at.collect::<Vec<_>>().join(",");
        let shown = format!("postgres://{user}@{at}/{database}");
        if config.get_password().is_none() {
            let mut found = BTreeSet::new();
            for (host, port) in &hosts {
                let port = port.to_string();
                let of = [host.as_str(), &port, &database, &user];
                found.extend(password(of, environment)?);
            }
            // The driver gives the same one to every host.
            if found.len() > 1 {
                return Err("the hosts of the address have different passwords in the file of passwords (~/.pgpass): one address needs one password".to_owned());
            }
            let named = || environment.get("PGPASSWORD").map(str::to_owned);
            if let Some(found) = found.pop_first().or_else(named) {
                config.password(found);
            }
        }
        let tls = tls(mode.as_deref(), root.as_deref(), is_local(&config))?;
        config.ssl_mode(match tls {
            Some(_) => SslMode::Require,
            None => SslMode::Disable,
        });
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("plan-agent");
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        if !url.contains("keepalives") {
            config.keepalives_idle(SILENCE / 2);
            config.keepalives_interval(SILENCE / 4);
            config.keepalives_retries(2);
        }
        Ok(Self {
            config,
            tls,
            shown,
            note,
        })
    }

    /// Returns whether a database is the one that answered at this address first, and notes it if it is the first.
    pub(super) fn is_same(&self, identity: Option<i64>) -> bool {
        let noted = match bounded_read::read_file(&self.note, MAX_BYTES) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return true,
            noted => noted.unwrap_or_default(),
        };
        // A crash leaves a line without its end, which makes the next one unreadable, too: that is noted once more.
        let lines = noted.split_inclusive('\n');
        let lines = lines.filter_map(|line| line.strip_suffix('\n')?.rsplit_once(' '));
        let first = lines.filter(|(address, _)| *address == self.shown);
        if let Some(first) = first.filter_map(|(_, id)| id.parse::<i64>().ok()).next() {
            return identity == Some(first);
        }
        // In one piece, as others may do the same.
        let line = identity.map(|identity| format!("{self} {identity}\n"));
        let note = |line: String| own_files::to_append(&self.note)?.write_all(line.as_bytes());
        if let Some(Err(error)) = line.map(note) {
            tracing::debug!(%error, "the database is not noted");
        }
        true
    }
}

/// Host, port, database and user.
impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Says why the driver cannot read an address, without anything that may be a secret.
fn unread(url: &str) -> String {
    let reads = |url: &str| url.parse::<tokio_postgres::Config>().is_ok();
    let (place, options) = url.split_once('?').unwrap_or((url, ""));
    let mut options = options.split('&').filter(|_| reads(place));
    let wrong = options.find(|option| !reads(&format!("{place}?{option}")));
    let key = wrong.and_then(|option| option.split('=').next());
    // Anything else may be a part of a password.
    let known = |key: &&str| has_word(OPTIONS, &key.to_ascii_lowercase());
    key.filter(known).map_or(FORM.to_owned(), |key| {
        format!("the option `{key}` of the address is not known, or not with this value")
    })
}

/// Takes the options of libpq out of an address that the driver does not know.
fn without_tls(url: &str) -> (String, Option<String>, Option<String>) {
    // A `?` may stand in the password, which ends with the first `@`.
    let begin = url.find('@').unwrap_or(0);
    let Some(at) = url[begin..].find('?').map(|at| at + begin) else {
        return (url.to_owned(), None, None);
    };
    let (mut mode, mut root) = (None, None);
    let options = url[at + 1..].split('&').filter(|option| {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match key {
            "sslmode" => mode = Some(value.to_owned()),
            "sslrootcert" => root = Some(value.replace("%2F", "/").replace("%20", " ")),
            _ => return true,
        }
        false
    });
    let options = options.collect::<Vec<_>>().join("&");
    (format!("{}?{options}", &url[..at]), mode, root)
}

/// Returns whether every host is this machine.
fn is_local(config: &tokio_postgres::Config) -> bool {
    let local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let address = name.parse::<std::net::IpAddr>();
            name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_loopback())
        }
    };
    let addresses = config.get_hostaddrs();
    match addresses.is_empty() {
        true => config.get_hosts().iter().all(local),
        false => addresses.iter().all(std::net::IpAddr::is_loopback),
    }
}

/// Returns how the connection is encrypted. `require` and `verify-ca` check the name as well: a certificate that is not
/// checked keeps nobody from reading the password.
fn tls(
    mode: Option<&str>,
    root: Option<&str>,
    local: bool,
) -> Result<Option<ClientConfig>, String> {
    match mode {
        Some("disable") => return Ok(None),
        None if local && root.is_none() => return Ok(None),
        None | Some("require" | "verify-ca" | "verify-full") => {}
        Some("allow" | "prefer") => {
            let why = "`sslmode=prefer` and `allow` go on unencrypted where anybody in between wants that: write \
                       verify-full, or disable";
            return Err(why.to_owned());
        }
        Some(_) => return Err("`sslmode` is verify-full or disable".to_owned()),
    }
    let failed = |error: &dyn fmt::Display| format!("TLS cannot be set up: {error}");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let builder = match root {
        None | Some("system") => {
            (builder.with_platform_verifier()).map_err(|error| failed(&error))?
        }
        Some(file) => {
            let wrong = |error: &dyn fmt::Display| format!("the certificates in `{file}`: {error}");
            let read = CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
            let mut roots = RootCertStore::empty();
            for certificate in read {
                let certificate = certificate.map_err(|error| wrong(&error))?;
                roots.add(certificate).map_err(|error| wrong(&error))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"there is none"));
            }
            builder.with_root_certificates(roots)
        }
    };
    Ok(Some(builder.with_no_client_auth()))
}

/// Returns the password for a host, port, database and user from the file of passwords.
fn password(of: [&str; 4], environment: &Environment) -> Result<Option<String>, String> {
    let named = environment.get("PGPASSFILE").map(PathBuf::from);
    let usual = || Some(Path::new(environment.get("HOME")?).join(".pgpass"));
    if let Some(path) = named.or_else(usual)
        && let Ok(file) = path.metadata()
        && file.is_file()
    {
        let shown = path.display();
        if file.permissions().mode() & 0o077 != 0 {
            let way = format!("`chmod 600 {shown}` mends it");
            return Err(format!(
                "the passwords in `{shown}` can be read by other users: {way}"
            ));
        }
        let text = bounded_read::read_file(&path, MAX_BYTES);
        let text = text.map_err(|error| format!("the passwords in `{shown}`: {error}"))?;
        if let Some(found) = text.lines().find_map(|line| password_in(line, of)) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the password of a line `host:port:database:user:password`, if it is for this one. A `*` stands for everything.
fn password_in(line: &str, of: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => fields.last_mut()?.extend(characters.next()),
            // In the last field it is part of the password.
            ':' if fields.len() <= of.len() => fields.push(String::new()),
            c => fields.last_mut()?.push(c),
        }
    }
    let password = (fields.len() == of.len() + 1).then(|| fields.pop())??;
    let socket = of[0].starts_with('/');
    let is_for = |(at, field): (usize, &String)| {
        field == "*" || field == of[at] || at == 0 && socket && field == "localhost"
    };
    fields.iter().enumerate().all(is_for).then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<ServerAddress, String> {
        ServerAddress::read(url, PathBuf::new(), &Environment::default())
    }

    #[test]
    fn other_hosts_are_reached_encrypted_only() {
        for (url, encrypted) in [
            ("postgres://u@db.example/d", true),
            ("postgres://u@db.example/d?sslmode=require", true),
            ("postgres://u@db.example/d?sslmode=disable", false),
            ("postgres://u@localhost,db.example/d", true),
            ("postgres://u@localhost/d?hostaddr=192.0.2.1", true),
            ("postgres://u@localhost/d", false),
            ("postgres://u@[::1]:5433/d", false),
            ("postgres://u@%2Ftmp%2Fs/d", false),
            ("postgres://u@localhost/d?sslmode=verify-full", true),
        ] {
            let address = read(url).unwrap();
            assert_eq!(address.tls.is_some(), encrypted, "{url}");
            let mode = address.config.get_ssl_mode();
            assert_eq!(mode == SslMode::Require, encrypted, "{url}");
        }
        for url in [
            "postgres://u@db.example/d?sslmode=prefer",
            "postgres://u@db.example/d?sslmode=no",
            "postgres://u@db.example/d?sslrootcert=/no/such",
        ] {
            read(url).unwrap_err();
        }
    }

    #[test]
    fn option_that_cannot_be_used_is_named() {
        let option = |key: &str| {
            format!("the option `{key}` of the address is not known, or not with this value")
        };
        for (url, why) in [
            ("postgres://u@h/d?port=1&sslcert=/a", option("sslcert")),
            (
                "postgres://u@h/d?target_session_attrs=primary",
                option("target_session_attrs"),
            ),
            ("postgres://u@h/d?secret=x", FORM.to_owned()),
        ] {
            assert_eq!(read(url).unwrap_err(), why, "{url}");
        }
    }

    #[test]
    fn address_is_shown_as_it_may_be_typed() {
        for (url, shown) in [
            ("postgres://u:p@localhost", "postgres://u@localhost:5432/u"),
            ("postgres://u@/d?host=/a/b", "postgres://u@%2Fa%2Fb:5432/d"),
            ("postgres://u@[::1]:5433/d", "postgres://u@[::1]:5433/d"),
        ] {
            for url in [url, shown] {
                assert_eq!(read(url).unwrap().to_string(), shown);
            }
        }
    }

    #[test]
    fn first_database_at_an_address_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("plan-agent.server");
        let here = |url| ServerAddress::read(url, note.clone(), &Environment::default()).unwrap();
        let (one, other) = (
            here("postgres://u@localhost/d"),
            here("postgres://u@localhost/e"),
        );
        // A kill while it was noted.
        std::fs::write(&note, format!("{one} 12")).unwrap();
        assert!(one.is_same(None) && one.is_same(Some(123)) && one.is_same(Some(123)));
        assert!(other.is_same(Some(-4)));
        for identity in [None, Some(12), Some(-4)] {
            assert!(!one.is_same(identity), "{identity:?}");
        }
        assert!(one.is_same(Some(123)) && other.is_same(Some(-4)));
        std::fs::remove_file(&note).unwrap();
        assert!(one.is_same(Some(12)) && !one.is_same(Some(123)));
    }

    #[test]
    fn texts_have_no_password() {
        let address = read("postgres://u:canary@h:1/d?options=-c%20a%3Dcanary").unwrap();
        assert_eq!(address.to_string(), "postgres://u@h:1/d");
        assert_eq!(format!("{address:?}"), "postgres://u@h:1/d");
        for wrong in [
            "postgres://u:can@ry/canary?canary",
            "postgres://u:x@h:canary/d",
            "postgres://u:x@h/d?canary=1",
            "postgres://u:x@canary@h/d",
            "postgres://u:x@h/canary@h/d",
        ] {
            assert!(!read(wrong).unwrap_err().contains("canary"), "{wrong}");
        }
    }

    #[test]
    fn password_comes_from_url_then_file_then_environment() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pass");
        let text = "# none\nh:*:other:u:no\n*:5432:d:u:a\\:b:c\n";
        std::fs::write(&file, text).unwrap();
        let mode = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, mode).unwrap();
        };
        mode(0o600);
        let file = file.display().to_string();
        let set = [("PGPASSFILE", &*file), ("PGPASSWORD", "last")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Environment::from_iter(set);
        let read = |url| ServerAddress::read(url, PathBuf::new(), &environment);
        let password = |url| {
            let address = read(url).unwrap();
            String::from_utf8(address.config.get_password().unwrap().to_vec()).unwrap()
        };
        assert_eq!(password("postgres://u:own@localhost/d"), "own");
        assert_eq!(password("postgres://u@localhost/d"), "a:b:c");
        assert_eq!(password("postgres://u@localhost:5433/d"), "last");
        // Of several hosts, too; the driver gives all of them the same one.
        assert_eq!(
            password("postgres://u@localhost:5433,localhost:5432/d"),
            "a:b:c"
        );
        std::fs::write(&file, format!("{text}h:5433:d:u:another\n")).unwrap();
        let different = read("postgres://u@h:5433,localhost:5432/d").unwrap_err();
        assert!(different.contains("different passwords"), "{different}");
        mode(0o640);
        let refused = read("postgres://u@localhost/d").unwrap_err();
        assert!(refused.contains("chmod 600"), "{refused}");
    }
}
